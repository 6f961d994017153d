import PresenceWire

/// The graces of users whose sessions are all lost, which go on when another node becomes the owner (<doc:Architecture#When-things-break>).
struct RunningGraces {
    /// The time that a new owner waits at least, because a gateway may be about to register a session that was opened meanwhile.
    static let registrationTime = Duration.seconds(1)

    let now: Now

    /// The running grace of a user, for its next owner; nil for a user who is not ONLINE, or has an open session.
    func grace(of user: Owner.Index, in owner: borrowing Owner) -> RunningGrace? {
        guard owner.users[user].record.statusType == .online, let end = owner.users[user].lastGraceDeadline else { return nil }
        let left = max(end - now.instant, .zero).wholeMilliseconds
        return RunningGrace(
            user: owner.users.user(at: user), endsAt: owner.clock.milliseconds(at: now.wall) + left,
            lastSeenTime: owner.users[user].lastSeenTime)
    }

    /// Goes on with a grace, if this node decides about its user now. Otherwise the unconfirmed ONLINE would wait for a grace of its own.
    func goOn(with grace: RunningGrace, in owner: inout Owner) {
        guard let user = owner.users.index(of: grace.user), let deadline = owner.users[user].confirmationDeadline else { return }
        let left = Duration.milliseconds(grace.endsAt - owner.clock.milliseconds(at: now.wall))
        let end = now.instant + max(left, Self.registrationTime)
        owner.modify(user) { user in
            user.confirmationDeadline = min(deadline, end)
            user.lastSeenTime = max(user.lastSeenTime, grace.lastSeenTime)
        }
        owner.schedule(user, at: now)
    }
}

extension OwnedUser {
    /// The end of the last grace; nil while a session is open, and without any grace.
    var lastGraceDeadline: Instant? {
        guard !sessions.contains(where: { $0.graceDeadline == nil }) else { return nil }
        return (sessions.map(\.graceDeadline) + [confirmationDeadline]).compactMap(\.self).max()
    }
}
