import PresenceWire

/// The ends of sessions that go on when another node becomes the owner (<doc:Architecture#When-things-break>).
///
/// These are the graces of users whose sessions are all lost, and the sessions whose nodes have not reported their end: ``EndedSession``.
struct HandedEnds {
    /// The time that a new owner waits at least, because a gateway may be about to register a session that was opened meanwhile.
    static let registrationTime = Duration.seconds(1)

    let now: Now

    /// The ends that a user's next owner goes on with; nil if none is under way.
    func ends(of user: Owner.Index, in owner: borrowing Owner) -> PendingEnds? {
        let graceEndsAt = graceEnd(of: user, in: owner)
        let ended = owner.users[user].endedSessions.filter { $0.deadline > now.instant }.map(\.handed)
        guard graceEndsAt != nil || !ended.isEmpty else { return nil }
        return PendingEnds(
            user: owner.users.user(at: user), graceEndsAt: graceEndsAt, lastSeenTime: owner.users[user].lastSeenTime, ended: ended)
    }

    /// The end of a user's running grace; nil for a user who is not ONLINE, or has an open session.
    private func graceEnd(of user: Owner.Index, in owner: borrowing Owner) -> Milliseconds? {
        guard owner.users[user].record.statusType == .online, let end = owner.users[user].lastGraceDeadline else { return nil }
        return owner.clock.milliseconds(at: now.wall) + max(end - now.instant, .zero).wholeMilliseconds
    }

    /// Goes on with the ends of a user about whom this node decides now.
    ///
    /// Otherwise the unconfirmed ONLINE would wait for a grace of its own. A session that has ended would be opened again if its node
    /// registers it before it reads of the end, which it does as soon as it has the new ring.
    func goOn(with ends: PendingEnds, in owner: inout Owner) {
        guard let user = owner.users.index(of: ends.user) else { return }
        if !ends.ended.isEmpty {
            let deadline = now.instant + owner.settings.reconnectGrace
            owner.modify(user) { user in for ended in ends.ended { user.awaitEnd(EndedSession(handed: ended, until: deadline)) } }
        }
        guard let graceEndsAt = ends.graceEndsAt, let deadline = owner.users[user].confirmationDeadline else { return }
        let left = Duration.milliseconds(graceEndsAt - owner.clock.milliseconds(at: now.wall))
        let end = now.instant + max(left, Self.registrationTime)
        owner.modify(user) { user in
            user.confirmationDeadline = min(deadline, end)
            user.lastSeenTime = max(user.lastSeenTime, ends.lastSeenTime)
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
