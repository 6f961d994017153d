import PresenceWire
import Testing

@testable import PresenceCore

extension GatewayTests {
    @Test("A record from before a pause is pushed only once it is delivered again, and only to a session that lacks it")
    mutating func doubt() {
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("carl", 2)))
        gateway.receive(.doubt)
        gateway.unblock(session)
        #expect(pushed() == [], "the record of carl waited for room")
        for user in ["ann", "bob"] { gateway.receive(.deliver(record(user, 1))) }
        #expect(pushed() == [])
        gateway.receive(.deliver(record("carl", 2)))
        #expect(pushed() == ["v2"])
        gateway.receive(.deliver(record("ann", 2)))
        #expect(pushed() == ["v2"])
        gateway.checkInvariants()
    }
}
