import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct GatewayTests {
    var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
    var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
    var session: Gateway.SessionIndex = 0

    init() {
        let attach = Attach(session: SessionID(stamp: 1, node: 1), user: user("bob"), platform: "ios")
        session = gateway.open(attach, resumeFrom: nil, at: now)
        gateway.receive(.deliver(record("bob", 1)))
        let followed = ["ann", "carl"].map { Interest.Followed(target: user($0), told: .zero, since: 1) }
        gateway.receive(
            .interest(Interest(user: user("bob"), version: Version(stamp: 1, node: 1), isWhole: true, added: followed, removed: [])))
        gateway.receive(.deliver(record("ann", 1)))
        gateway.receive(.deliver(record("carl", 1)))
        gateway.output = Gateway.Output()
    }

    private func record(_ id: String, _ version: Milliseconds) -> Record {
        var record = Record(blank: user(id))
        record.version = Version(milliseconds: version, counter: 0, node: 1)
        record.customStatus = "v\(version)"
        return record
    }

    private mutating func pushed() -> [String] {
        defer { gateway.output = Gateway.Output() }
        return gateway.output.pushes.flatMap { push -> [String] in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            let data = (try? JSONReader.read(Array(lines[2].dropFirst(6).utf8))) ?? .null
            return (data["userStatusList"]?.elements ?? []).compactMap { $0["customStatus"]?.textValue }
        }
    }

    @Test mutating func aFullSessionGetsOnlyTheNewestOfEachUserWhenItDrains() {
        gateway.block(session, at: now)
        for version in 2...5 { gateway.receive(.deliver(record("ann", Milliseconds(version)))) }
        gateway.receive(.deliver(record("carl", 2)))
        #expect(gateway.output.pushes.isEmpty)
        gateway.unblock(session)
        let told = pushed()
        #expect(told.sorted() == ["v2", "v5"])
        #expect(gateway.counters.recordsCoalesced == 3)
    }

    @Test mutating func aSessionThatStaysFullIsCutOff() {
        gateway.block(session, at: now)
        now.instant += .seconds(59)
        gateway.tick(at: now)
        #expect(gateway.output.cutOff.isEmpty)
        now.instant += .seconds(1)
        gateway.tick(at: now)
        gateway.tick(at: now)
        #expect(gateway.output.cutOff == [session])
        #expect(gateway.counters.slowReaders == 1)
    }

    @Test mutating func anOlderRecordIsNotPushed() {
        gateway.receive(.deliver(record("ann", 3)))
        gateway.receive(.deliver(record("ann", 2)))
        let told = pushed()
        #expect(told == ["v3"])
    }

    @Test mutating func manyWatchersShareOneEncoding() {
        for number in 2...50 {
            let attach = Attach(session: SessionID(stamp: UInt64(number), node: 1), user: user("bob"), platform: "ios")
            _ = gateway.open(attach, resumeFrom: nil, at: now)
        }
        // Those who have not been told everything yet get events of their own.
        let followed = ["ann", "carl"].map { Interest.Followed(target: user($0), told: nil, since: 1) }
        for id in ["bob", "carl"] { gateway.receive(.deliver(record(id, 1))) }
        let version = Version(stamp: 2, node: 1)
        gateway.receive(.interest(Interest(user: user("bob"), version: version, isWhole: true, added: followed, removed: [])))
        gateway.output = Gateway.Output()
        gateway.receive(.deliver(record("ann", 2)))
        #expect(gateway.output.pushes.count == 50)
        #expect(gateway.output.payloads.count == 1)
    }

    /// Opens another session of bob's, publishes an event of ann's and completes the login; returns the values that the session is told of.
    private mutating func eventsToldAtLogin(publishedAfter wait: Milliseconds, resumingFrom position: Milliseconds?) -> [Int64] {
        gateway.receive(.position(now.wall - 5_000))
        let attach = Attach(session: SessionID(stamp: 2, node: 1), user: user("bob"), platform: "web")
        let latest = gateway.open(attach, resumeFrom: position, at: now)
        var published = record("ann", now.wall + wait)
        published.event = PublishedEvent(value: 10_001, ext: "", expiresAt: .max, id: published.version)
        let followed = [Interest.Followed(target: user("ann"), told: .zero, since: 1)]
        gateway.receive(.deliver(published))
        gateway.receive(
            .interest(Interest(user: user("bob"), version: Version(stamp: 1, node: 1), isWhole: true, added: followed, removed: [])))
        return gateway.output.pushes.filter { $0.session == latest }.flatMap { push -> [Int64] in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            let data = (try? JSONReader.read(Array(lines[2].dropFirst(6).utf8))) ?? .null
            return (data["userStatusList"]?.elements ?? []).compactMap {
                if case .integer(let value) = $0["event"]?["value"] { value } else { nil }
            }
        }
    }

    @Test(arguments: [
        (-1 as Milliseconds, nil as Milliseconds?, [] as [Int64]), (0, nil, [10_001]), (-1, -2_000, [10_001]), (-6_000, -2_000, []),
    ])
    mutating func whoIsBeingToldOfThoseItFollowsMissesNoEvent(wait: Milliseconds, position: Milliseconds?, told: [Int64]) {
        // N13: who has come later than the event is not told, unless it resumes from an earlier position.
        let values = eventsToldAtLogin(publishedAfter: wait, resumingFrom: position.map { now.wall + $0 })
        #expect(values == told)
    }

    @Test mutating func aClosedSessionIsToldNothingAndItsUsersAreForgotten() {
        gateway.close(session, cause: .lost, lastSeen: now.wall)
        #expect(gateway.output.toNode.contains(.unwant([user("bob"), user("ann"), user("carl")])))
        #expect(gateway.usersCount == 0)
        gateway.receive(.deliver(record("ann", 9)))
        #expect(gateway.output.pushes.isEmpty)
    }

    private mutating func positions() -> [Int] {
        defer { gateway.output = Gateway.Output() }
        return gateway.output.pushes.map { push in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            return Int(lines[1].dropFirst("id: ".count)) ?? -1
        }
    }

    @Test mutating func aStreamThatIsNotSynchronisedIsGivenNoPositionByAHintOrByItsEnd() {
        gateway.receive(.position(500))
        gateway.hintReconnect(reason: "draining", spread: .zero)
        _ = positions()
        let carl = SessionID(stamp: 2, node: 1)
        _ = gateway.open(Attach(session: carl, user: user("carl"), platform: "ios"), resumeFrom: 100, at: now)
        gateway.hintReconnect(reason: "draining", spread: .zero)
        gateway.receive(.end(carl, reason: "logout"))
        // What carl opens with, his hint, bob's, carl's again, and his end.
        #expect(positions() == [100, 100, 500, 100, 100])
    }

    @Test mutating func noPositionIsToldWhileSomebodyWhoIsFollowedIsStillToBeTold() {
        gateway.receive(.position(500))
        let dora = Interest.Followed(target: user("dora"), told: nil, since: 600)
        gateway.receive(
            .interest(Interest(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false, added: [dora], removed: [])))
        gateway.receive(.position(700))
        gateway.receive(.deliver(record("ann", 650)))
        #expect(positions() == [500])
        gateway.receive(.deliver(record("dora", 3)))
        gateway.receive(.deliver(record("ann", 701)))
        #expect(positions() == [500, 700])
    }

    @Test mutating func noPositionIsToldWithTheFirstOfManyRecordsThatWaited() {
        gateway.receive(.position(500))
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("ann", 600)))
        gateway.receive(.position(700))
        gateway.unblock(session)
        #expect(positions() == [500])
    }
}
