import PresenceWire

/// The records of users about whom the node may not know better (``UnsureUsers``).
enum UnsureRecords {
    /// The node does not know better about other users than before: sessions are sent the records of these users once more.
    static func change(to users: UnsureUsers, in gateway: inout Gateway) {
        let old = gateway.unsure
        gateway.unsure = users
        for session in gateway.sessions.openIndices {
            var changed = gateway.watches.targets(of: session)
            changed.removeAll { target in
                let user = gateway.watches.user(at: target)
                return old.contains(user) == users.contains(user) || gateway.watches.record(of: target) == nil
                    || gateway.sessions[session].backlog.isExpecting(target)
            }
            if !changed.isEmpty { gateway.push(changed, to: session) }
        }
    }
}
