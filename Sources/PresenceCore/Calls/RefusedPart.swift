import PresenceWire

/// An owner's refusal of a request: it refuses the whole call, or leaves a call about several users without some of them.
struct RefusedPart {
    let sent: PendingCalls.Sent
    let pending: PendingCalls.Pending

    /// Ends the call, or goes on with the other users.
    func take(
        _ refusal: Refusal, _ calls: inout Calls, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        switch (sent.request.operation, pending.call) {
        case (.register, _): calls.waiting[sent.call]?.excluded.append(sent.request.user)
        // One of the users may be the cause. Each is asked for by itself.
        case (.profiles(let users), _) where users.count > 1:
            for user in users { calls.ask(.profiles([user]), of: user, for: sent.call, &cluster) }
            return
        case (.checkRelations(let check), _) where check.others.count > 1:
            for user in check.others { calls.askOthers([user], whether: pending.caller, in: check.list, for: sent.call, &cluster) }
            return
        // The answer says that nothing is known about the user.
        case (.profiles, _): return ProfileGathering.finishIfComplete(sent.call, &calls, edge, &cluster)
        case (.records, .getUserStatus) where pending.phase == .running: break
        case (.records, .getSubscribedUserStatus) where pending.phase == .running: break
        case (.records, .checkRelations): break
        case (.checkRelations(let check), _) where !check.others.isEmpty: break
        default: return calls.finish(sent.call, .refused(sent.request.afterEarlierAttempts(refusal)), edge, &cluster)
        }
        calls.advance(sent.call, edge, owner, &cluster, at: now)
    }
}

extension RelationCheck {
    /// The users whose lists are asked for; none if it is that of the caller.
    fileprivate var others: [UserID] { if case .others(let users, _) = side { users } else { [] } }
}

extension Request {
    /// The refusal of a call whose earlier attempts may have reached another owner. That owner may have made the change.
    ///
    /// The answer to a read may have waited for the write of another call, and is refused with it. The read itself has changed nothing.
    fileprivate func afterEarlierAttempts(_ refusal: Refusal) -> Refusal {
        if operation.isRead { return refusal.mayTakeEffect ? .unavailable : refusal }
        if refusal == .keyOfOtherCall { return refusal }
        return isRepeated && operation.mayTakeEffect ? .unavailable.afterPassingOn : refusal
    }
}
