import PresenceWire

/// The records of users about whom the node may not know better (``UnsureUsers``).
///
/// A session that was told that a record is unsure is told when it is sure again. Records that are withheld meanwhile follow when they are
/// delivered again.
enum UnsureRecords {
    /// The node does not know better about other users than before: sessions are sent the records of these users once more.
    static func change(to users: UnsureUsers, in gateway: inout Gateway) {
        let old = gateway.unsure
        gateway.unsure = users
        for session in gateway.sessions.openIndices {
            let changed = gateway.watches.targets(of: session).filter { target in
                let user = gateway.watches.user(at: target)
                return old.contains(user) != users.contains(user) && gateway.watches.record(of: target) != nil
            }
            show(changed, to: session, in: &gateway)
        }
    }

    /// Delivers a record that is withheld no longer. Returns whether all sessions are sent it, because it was unsure before and is sure
    /// now, or the reverse.
    static func release(_ record: Record, of user: Gateway.UserIndex, wasUnsure: Bool, in gateway: inout Gateway) -> Bool {
        let isMarkedAnew = wasUnsure != gateway.unsure.contains(record.user)
        if isMarkedAnew { for session in gateway.watches.watchers(of: user) { show([user], to: session, in: &gateway) } }
        gateway.deliverFirst(record, of: user)
        return isMarkedAnew
    }

    private static func show(_ users: [Gateway.UserIndex], to session: Gateway.SessionIndex, in gateway: inout Gateway) {
        let users = users.filter { !gateway.sessions[session].backlog.isExpecting($0) }
        if users.isEmpty { return }
        // Records that wait are pushed together with these, each once.
        let isFree = gateway.sessions[session].isSynced && !gateway.sessions[session].backlog.hasPending
        if isFree { gateway.push(users, to: session) } else { gateway.gather(users, for: session) }
    }
}
