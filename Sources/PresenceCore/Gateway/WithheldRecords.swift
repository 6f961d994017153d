import PresenceWire

/// The records that a gateway withholds after its node stood still, because their users may have hidden meanwhile.
///
/// The core delivers each record again once its owner has answered. A session that begins to follow a user before that waits for the
/// record, as for a first one. The other sessions hold the withheld record, and are pushed what differs from it.
enum WithheldRecords {
    /// Withholds all records, also those that wait to be pushed.
    static func withholdAll(in gateway: inout Gateway) {
        for user in gateway.watches.withholdRecords(unsure: gateway.unsure) {
            for session in gateway.watches.watchers(of: user) { gateway.sessions[session].backlog.expectPending(user) }
        }
    }

    /// Has a session be pushed each withheld record once more, because a new policy may show it in another way.
    static func expect(by session: Gateway.SessionIndex, in gateway: inout Gateway) {
        for user in gateway.watches.targets(of: session) where gateway.watches.isWithheld(user) {
            gateway.sessions[session].backlog.expect(user, knowing: .nothing)
            gateway.hold(session)
        }
    }
}
