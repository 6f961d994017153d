import PresenceWire

/// The records of users about whom the node may not know better (``UnsureUsers``).
///
/// A session that was told that a record is unsure is told when it is sure again. While its queue is full, or the record is withheld, the
/// session is owed the mark, and is pushed it only if the mark is another one then than the session was told.
enum UnsureRecords {
    /// The node does not know better about other users than before: sessions are sent the records of these users once more.
    static func change(to users: UnsureUsers, in gateway: inout Gateway) {
        let old = gateway.unsure
        gateway.unsure = users
        for session in gateway.sessions.openIndices {
            let changed = gateway.watches.targets(of: session).filter { target in
                let user = gateway.watches.user(at: target)
                return old.contains(user) != users.contains(user) && !gateway.sessions[session].backlog.isExpecting(target)
            }
            guard !changed.isEmpty else { continue }
            gateway.sessions[session].backlog.turnMarks(of: changed)
            tell(session, in: &gateway)
        }
    }

    /// Pushes a session the marks that it is owed, unless the records are withheld.
    ///
    /// Records that wait are pushed together with them, each once.
    static func tell(_ session: Gateway.SessionIndex, in gateway: inout Gateway) {
        guard !gateway.sessions[session].isBlocked else { return }
        guard !gateway.sessions[session].backlog.marks.isEmpty else { return gateway.sessions[session].releasePosition() }
        gateway.hold(session)
        guard gateway.sessions[session].isSynced, !gateway.sessions[session].backlog.hasPending else {
            return gateway.sessions.gather(session)
        }
        gateway.pushPending(session)
        gateway.sessions[session].releasePosition()
    }

    /// Removes and returns the users whose records wait, with those that the session was told with another mark.
    static func takePending(of session: Gateway.SessionIndex, in gateway: inout Gateway) -> [Gateway.UserIndex] {
        for user in gateway.sessions[session].backlog.marks where gateway.watches.record(of: user) != nil {
            _ = gateway.sessions[session].backlog.postpone(user)
        }
        return gateway.sessions[session].backlog.takePending()
    }
}
