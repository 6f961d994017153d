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

    @Test("A session whose queue is full is pushed a record again only if it was told another mark") mutating func markWhileFull() {
        gateway.block(session, at: now)
        gateway.receive(.unsure(.all))
        gateway.receive(.unsure(.none))
        gateway.unblock(session)
        #expect(pushed() == [], "the mark has come and gone")
        gateway.block(session, at: now)
        gateway.receive(.unsure(.all))
        gateway.unblock(session)
        #expect(pushed() == ["v1", "v1", "v1"])
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("carl", 2)))
        gateway.receive(.unsure(.none))
        gateway.receive(.unsure(.all))
        gateway.unblock(session)
        #expect(pushed() == ["v2"])
        gateway.receive(.unsure(.none))
        #expect(pushed().sorted() == ["v1", "v1", "v2"])
        gateway.checkInvariants()
    }

    @Test("A mark that has come and gone around a pause is pushed to nobody, and one that stays once", arguments: [false, true])
    mutating func markAroundPause(stays: Bool) {
        gateway.block(session, at: now)
        gateway.receive(.unsure(.all))
        gateway.receive(.doubt)
        if !stays { gateway.receive(.unsure(.none)) }
        gateway.unblock(session)
        #expect(pushed() == [])
        for user in ["ann", "bob"] { gateway.receive(.deliver(record(user, 1))) }
        gateway.receive(.deliver(record("carl", 2)))
        #expect(pushed().sorted() == (stays ? ["v1", "v1", "v2"] : ["v2"]))
        gateway.checkInvariants()
    }

    @Test("A login that waits for a record from before a pause is pushed a newer one once") mutating func loginAfterPause() {
        gateway.receive(.doubt)
        let attach = Attach(session: SessionID(stamp: 9, node: 1), user: user("eve"), platform: "ios")
        let login = gateway.open(attach, resumeFrom: nil, at: now)
        let followed = ListUpdate.Followed(target: user("carl"), delivered: .version(.zero), since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 2, node: 1), isWhole: true, added: [followed], removed: [])))
        gateway.receive(.deliver(record("eve", 1)))
        gateway.endTurn()
        gateway.output = Gateway.Output()
        var carl = record("carl", 2)
        carl.statusType = .online
        gateway.receive(.deliver(carl))
        gateway.endTurn()
        let statuses = gateway.output.pushes.filter { push in
            push.session == login && String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).contains("v2")
        }
        #expect(statuses.count == 1)
    }
}
