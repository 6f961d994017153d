import PresenceWire

/// Calls that change a user itself, at the user's owner: the end of sessions, and the registration.
struct UserCall {
    let id: UserID
    let now: Now

    /// Ends one session of the user, and the disconnected ones of its device, or all sessions with nil. Returns whether that published the
    /// record.
    func logout(_ session: SessionID?, of owner: inout Owner, into outbox: inout Outbox) -> Bool {
        let user = owner.index(of: id)
        let ended = owner.users[user].sessions(endedByLogoutOf: session)
        // The session may have been lost, and its grace is over. The user logs out all the same.
        let isOffline = owner.users[user].isOffline
        for session in ended where session.graceDeadline == nil {
            outbox.send(.end(session.id, user: id, reason: SessionEnd.logout), to: session.peer)
            let ended = EndedSession(which: .one(session.id), peer: session.peer, reason: SessionEnd.logout)
            owner.modify(user) { $0.awaitEnd(ended) }
        }
        // Nodes may register sessions later with this new owner. Then the logout would be undone.
        if let session, ended.isEmpty { outbox.unknownEnds.append((session, id)) }
        if let deadline = owner.users[user].confirmationDeadline, session == nil || ended.isEmpty {
            let which = session.map { EndedSession.Which.one($0) } ?? .opened(until: now.wall)
            let ended = EndedSession(which: which, peer: nil, reason: SessionEnd.logout, deadline: deadline)
            owner.modify(user) { $0.awaitEnd(ended) }
        }
        owner.count { $0.logouts += UInt64(ended.count { !$0.isCounted }) }
        owner.modify(user) { user in
            if !ended.isEmpty { user.noteSeen(at: now.wall) }
            user.sessions.removeAll { session in ended.contains { $0.id == session.id } }
            if session == nil { user.confirmationDeadline = nil }
            if session == nil || !ended.isEmpty || user.confirmationDeadline != nil { user.statusAfterLast = .unlogined }
        }
        let change = StatusChange(end: session == nil || isOffline ? .logout : nil, departed: ended, loggedOut: session)
        return owner.refresh(user, change, in: &outbox[at: now])
    }

    /// Registers the user: the record says so, and every node that is asked about the user sees it. Returns the record.
    func register(at owner: inout Owner, into outbox: inout Outbox) -> Record {
        let user = owner.index(of: id)
        var record = owner.users[user].record
        // An earlier attempt may have failed, so that the fact is only on this disk.
        guard !record.isRegistered else {
            outbox.rows.append(Row(record))
            return record
        }
        (record.isRegistered, record.version) = (true, owner.nextVersion(at: now))
        record.knownSince = owner.knownSince(ofNew: record)
        owner.modify(user) { $0.record = record }
        owner.publish(user, into: &outbox)
        owner.schedule(user, at: now)
        return record
    }
}
