import PresenceWire

/// The records that a gateway withholds after its node stood still, because their users may have hidden meanwhile.
///
/// The core delivers each record again once its owner has answered. A session that begins to follow a user before that waits for the
/// record, as for a first one. The other sessions hold the withheld record, and are pushed what differs from it.
enum WithheldRecords {
    /// Withholds all records, also those that wait to be pushed.
    static func withholdAll(in gateway: inout Gateway) {
        for user in gateway.watches.withholdRecords() {
            for session in gateway.watches.watchers(of: user) { gateway.sessions[session].backlog.expectPending(user) }
        }
    }

    /// Withholds the record of a user no longer: sessions that wait for it are pushed it, and others the mark that they are owed.
    static func end(of user: Gateway.UserIndex, in gateway: inout Gateway) {
        guard let record = gateway.watches.record(of: user) else { return }
        gateway.deliverFirst(record, of: user)
        for session in gateway.watches.watchers(of: user) { UnsureRecords.tell(session, in: &gateway) }
    }

    /// Has a session be pushed each withheld record once more, because a new policy may show it in another way.
    static func expect(by session: Gateway.SessionIndex, in gateway: inout Gateway) {
        for user in gateway.watches.targets(of: session) where gateway.watches.isWithheld(user) {
            gateway.sessions[session].backlog.expect(user, knowing: .nothing)
            gateway.hold(session)
        }
    }
}
