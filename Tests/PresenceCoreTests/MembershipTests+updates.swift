import PresenceWire
import Testing

@testable import PresenceCore

/// The queue, the exchange, the removal and the encoding of membership updates.
extension MembershipTests {
    // MARK: Updates

    @Test("The newest update is sent first, a limited number of times") func retransmissions() {
        var queue = UpdateQueue()
        for member in [3, 4, 5] { queue.insert(member) }
        #expect(queue.take(transmissionsMax: 3) { $0 != 5 } == [3, 4])
        #expect(queue.take(transmissionsMax: 3) { _ in true } == [5, 3, 4])
        queue.insert(4)
        #expect(queue.take(transmissionsMax: 3) { _ in true } == [4, 5, 3])
        #expect(queue.count == 2)
        for _ in 0..<3 { _ = queue.take(transmissionsMax: 3) { _ in true } }
        #expect(queue.count == 0)
    }

    @Test("A message carries no more bytes of updates than allowed") mutating func bytes() {
        for index in 0..<500 { apply(Self.update("member-\(index)", .alive)) }
        apply(from: "member-1", kind: .probe(1))
        let message = Self.sent(membership.takeEffects()).last!.message
        var writer = WireWriter()
        writer.membership(message)
        #expect(message.updates.count > 50)
        #expect(writer.bytes.count <= settings.updateBytesMax)
    }

    @Test("A node announces draining and leaving at once") mutating func announcements() {
        know("b", "c")
        membership.drain(at: now)
        var told = Self.sent(membership.takeEffects())
        #expect(told.count == 2)
        var other = MembershipTests()
        other.membership = Membership(own: Self.peer("b"), settings: settings, seed: 8)
        other.know("a", "c")
        other.apply(told[0].message.updates[0], from: "a")
        #expect(other.membership.takeEffects() == [.changed(Self.peer("a"), .alive, .leaving)])
        #expect(other.membership.ringMembers.map(\.id) == ["b", "c"])
        membership.leave(at: now)
        told = Self.sent(membership.takeEffects())
        #expect(told.allSatisfy { $0.message.updates.first?.state == .left })
        #expect(Self.probed(pass(.seconds(1)).map(\.effect)) == [])
    }

    @Test("A member that left long ago is removed for good, and a dead member is kept") mutating func leftLongAgo() {
        know("b", "c", "e")
        apply(Self.update("b", .left))
        apply(Self.update("e", .dead))
        now.instant += settings.leftRetention + .seconds(11)
        _ = pass(.milliseconds(20))
        now.instant += .seconds(11)
        _ = pass(.milliseconds(20))
        #expect(state("b") == nil)
        apply(Self.update("b", .left))
        #expect(state("b") == nil)
        apply(Self.update("d", .alive))
        #expect(membership.members.map(\.member.id) == ["a", "c", "d", "e"])
    }

    @Test("A member from disk that has left does not count towards the quorum") mutating func fromDisk() {
        membership.learn(Self.peer("b"), at: now)
        apply(Self.update("b", .dead))
        #expect(state("b") == nil)
        apply(Self.update("b", .left))
        #expect(state("b") == .left)
    }

    @Test("A member that was removed but is alive refutes") mutating func removedButAlive() {
        know("b")
        apply(Self.update("a", .left))
        #expect(membership.takeEffects().contains(.wasDeclaredDead))
        #expect(state("a") == .alive)
    }

    @Test("A member beyond the limit is refused and counted") func tooMany() {
        var settings = Membership.Settings()
        settings.membersMax = 3
        var test = MembershipTests()
        test.membership = Membership(own: Self.peer("a"), settings: settings, seed: 1)
        test.apply(Self.update("b", .alive), Self.update("c", .alive), Self.update("d", .alive))
        #expect(test.membership.members.count == 3)
        #expect(test.membership.counters.updatesRefused == 1)
        test.apply(Self.update("c", .left), Self.update("d", .alive))
        #expect(test.membership.ringMembers.map(\.id) == ["a", "b", "d"])
    }

    // MARK: Full exchange

    @Test("Equal hashes have no answer, different ones are answered with pages") mutating func digests() {
        know("b", "c")
        apply(from: "b", kind: .digest(membership.membershipHash))
        #expect(membership.takeEffects() == [])
        apply(from: "b", kind: .digest(membership.membershipHash ^ 1))
        let pages = Self.sent(membership.takeEffects())
        #expect(pages.map(\.message.kind) == [.page(wantsAnswer: true)])
        #expect(pages[0].message.updates.map(\.member.id) == ["a", "b", "c"])
    }

    @Test("Pages are bounded") mutating func pages() {
        for index in 0..<1_000 { apply(Self.update("member-\(index)", .alive)) }
        membership.effects = []
        apply(from: "b", kind: .digest(1))
        let pages = Self.sent(membership.takeEffects()).map(\.message)
        #expect(pages.flatMap(\.updates).count == 1_001)
        #expect(pages.dropLast().allSatisfy { $0.kind == .page(wantsAnswer: false) } && pages.last!.kind == .page(wantsAnswer: true))
        for page in pages {
            var writer = WireWriter()
            writer.membership(page)
            #expect(writer.bytes.count <= settings.pageBytesMax)
        }
    }

    @Test("The death of a live member on a page is only a suspicion") mutating func deathOnPage() {
        know("b", "c")
        apply(Self.update("c", .dead, 0, by: "x"), Self.update("b", .left), from: "x", kind: .page(wantsAnswer: false))
        #expect(membership.update(about: "c") == Self.update("c", .suspect, 0))
        #expect(state("b") == .left)
    }

    // MARK: The wire

    static let messages: [MembershipMessage] = [
        .init(.probe(0)), .init(.ack(.max)), .init(.nack(300)), .init(.indirectProbe(1, target: "node-1")), .init(.gossip),
        .init(.digest(0xFFFF_FFFF_FFFF_FFFF)), .init(.page(wantsAnswer: true)), .init(.page(wantsAnswer: false)),
        .init(
            .gossip,
            updates: MemberState.allCases.map {
                MembershipUpdate(
                    member: peer("x", generation: 1 << 41), incarnation: .max, state: $0, role: $0 == .suspect ? .leaving : .serving,
                    suspecter: "y")
            } + [update("é", .alive)]),
        .init(
            .gossip,
            updates: [MemberRole.serving, .impaired, .leaving].flatMap { role in
                MemberState.allCases.map { MembershipUpdate(member: peer("x"), incarnation: 3, state: $0, role: role) }
            }),
    ]

    @Test("Messages survive encoding, and truncated ones are refused", arguments: messages) func wire(message: MembershipMessage) throws {
        var writer = WireWriter()
        writer.membership(message)
        #expect(try Self.read(writer.bytes) == message)
        for length in writer.bytes.indices { #expect(throws: DecodeError.self) { try Self.read(Array(writer.bytes[..<length])) } }
        for update in message.updates {
            var alone = WireWriter()
            alone.membership(MembershipMessage(.gossip, updates: [update]))
            #expect(alone.bytes.count - 2 <= update.encodedBytesMax)
        }
    }

    /// An outdated update is answered with the newest one, but a death only as a suspicion.
    @Test("An outdated update on a probe is answered with the newest one") mutating func outdatedUpdate() {
        know("b", "c", "d")
        apply(Self.update("c", .dead, 0, by: "x"), Self.update("d", .alive, 4))
        membership.queue = UpdateQueue()
        membership.effects = []
        apply(Self.update("c", .alive), Self.update("d", .suspect, 2, by: "b"), kind: .probe(1))
        let ack = Self.sent(membership.takeEffects()).last?.message
        #expect(ack == MembershipMessage(.ack(1), updates: [Self.update("c", .suspect), Self.update("d", .alive, 4)]))
    }

    @Test("Junk is refused") func junk() {
        var random = SplitMix64(seed: 3)
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0..<60, using: &random)).map { _ in UInt8.random(in: 0...9, using: &random) }
            _ = try? Self.read(bytes)
        }
        #expect(throws: DecodeError.unknownTag(99)) { try Self.read([99]) }
        #expect(throws: DecodeError.unknownTag(0x31)) { try Self.read([5, 1, 0x31, 0]) }
        #expect(throws: DecodeError.tooLong(count: 2_048, limit: 1_024)) { try Self.read([5, 0x80, 0x10]) }
    }

    static func read(_ bytes: [UInt8]) throws -> MembershipMessage {
        try bytes.withUnsafeBytes { buffer in
            var reader = WireReader(buffer)
            let message = try reader.membership()
            try reader.expectEnd()
            return message
        }
    }
}
