import PresenceWire

/// The last views of users who are not friends any more.
///
/// The end of a friendship changes a friend's view, and the session then ceases to follow the friend. A session that was away, or whose
/// queue is full, has not been shown that view. It follows the user until it was shown the view, and no longer.
struct LastViews {
    let session: Gateway.SessionIndex

    /// Has the session shown the former friends of a list, unless it was shown all that it followed until now.
    ///
    /// - Parameter removed: the users whom the session does not follow any more because of the list.
    func show(_ list: ListUpdate, without removed: [Gateway.UserIndex], in gateway: inout Gateway) {
        guard !list.formerFriends.isEmpty else { return }
        let (hasList, resume) = (gateway.sessions[session].hasList, gateway.sessions[session].resume)
        // A new client knows no friend.
        if hasList ? gateway.sessions.takesEventNow(session) : !resume.isResumed { return }
        for former in list.formerFriends {
            if hasList, list.isWhole {
                guard let user = gateway.watches.index(of: former.target), removed.contains(user) else { continue }
            }
            if hasList || former.since >= resume.floor.milliseconds { show(former.target, in: &gateway) }
        }
    }

    private func show(_ target: UserID, in gateway: inout Gateway) {
        let user = gateway.watches.insert(target)
        guard case .followed(let isFirst) = gateway.watches.follow(user, by: session) else { return }
        if isFirst { gateway.output.toNode.append(.subscribe([target])) }
        gateway.sessions[session].backlog.leave(user)
        guard gateway.watches.record(of: user) == nil else { return gateway.gather([user], for: session) }
        gateway.sessions[session].backlog.expect(user, knowing: .nothing)
        gateway.hold(session)
    }

    /// Has the session cease to follow the users whose last views it was shown.
    func end(in gateway: inout Gateway) {
        guard gateway.sessions[session].backlog.isLeavingUsers else { return }
        let left = gateway.sessions[session].backlog.takeLeft()
        guard !left.isEmpty else { return }
        for user in left { gateway.unfollow(user, by: session) }
        gateway.release(left)
    }
}
