import PresenceWire
import Testing

@testable import PresenceCore

/// Roles, updates that a link has lost, and a node that hears nobody.
extension MembershipTests {
    /// The own update of node a in a role.
    private static func own(_ role: MemberRole, _ incarnation: UInt64) -> MembershipUpdate {
        MembershipUpdate(member: peer("a"), incarnation: incarnation, state: .alive, role: role)
    }

    // MARK: Roles

    @Test("A node announces a fault and its end at once to all members, and each once") mutating func impaired() {
        know("b", "c")
        for (incarnation, isImpaired) in [(1, true), (2, false)] as [(UInt64, Bool)] {
            membership.setImpaired(isImpaired, at: now)
            let told = Self.sent(membership.takeEffects())
            #expect(told.map(\.to).sorted() == ["b", "c"])
            let expected = Self.own(isImpaired ? .impaired : .serving, incarnation)
            #expect(told.allSatisfy { $0.message.updates.first == expected })
            #expect(membership.isDraining == isImpaired && !membership.isLeaving)
            membership.setImpaired(isImpaired, at: now)
            #expect(membership.takeEffects() == [])
        }
    }

    @Test("Other nodes take an impaired member out of the ring and keep it as a member") mutating func impairedMember() {
        know("b", "c")
        for (incarnation, role) in [(1, .impaired), (2, .serving), (3, .leaving)] as [(UInt64, MemberRole)] {
            let update = MembershipUpdate(member: Self.peer("b"), incarnation: incarnation, state: .alive, role: role)
            apply(update)
            #expect(membership.takeEffects() == [.changed(Self.peer("b"), .alive, role)])
            #expect(membership.ringMembers.map(\.id) == (role == .serving ? ["a", "b", "c"] : ["a", "c"]))
            #expect(membership.update(about: "b") == update, "it is passed on as it is")
        }
    }

    @Test("A refutation and a suspicion keep the role of the member") mutating func roleInDoubt() {
        know("b", "c")
        membership.setImpaired(true, at: now)
        apply(Self.update("a", .suspect, 1, by: "b"))
        #expect(membership.update(about: "a") == Self.own(.impaired, 2))
        apply(MembershipUpdate(member: Self.peer("b"), incarnation: 1, state: .alive, role: .impaired))
        membership.unlinked("b", evidence: .refused(generation: 1), at: now)
        #expect(membership.update(about: "b")?.role == .impaired)
    }

    @Test("A node that will end is not impaired, and goes on to end when a fault is over") mutating func leaving() {
        know("b", "c")
        membership.setImpaired(true, at: now)
        membership.drain(at: now)
        #expect(membership.update(about: "a") == Self.own(.leaving, 2))
        for isImpaired in [false, true] { membership.setImpaired(isImpaired, at: now) }
        #expect(membership.update(about: "a") == Self.own(.leaving, 2) && membership.isLeaving)
    }

    @Test("A node that has left is not impaired") mutating func hasLeft() {
        know("b", "c")
        membership.leave(at: now)
        let left = membership.update(about: "a")
        membership.setImpaired(true, at: now)
        #expect(membership.update(about: "a") == left && left?.state == .left)
    }

    @Test("Nodes that know a member in different roles have different hashes") func hashes() {
        let hashes = [MemberRole.serving, .impaired, .leaving].map { role in
            var test = MembershipTests()
            test.apply(MembershipUpdate(member: Self.peer("b"), incarnation: 1, state: .alive, role: role))
            return test.membership.membershipHash
        }
        #expect(Set(hashes).count == 3)
    }

    @Test("A role that no node has is refused", arguments: [0x30, 0x40, 0xF0] as [UInt8]) func unknownRole(role: UInt8) throws {
        var writer = WireWriter()
        writer.membership(MembershipMessage(.gossip, updates: [Self.own(.impaired, 1)]))
        let tags = writer.bytes.indices.filter { writer.bytes[$0] == 0x11 }
        #expect(tags == [2])
        var bytes = writer.bytes
        bytes[2] = role | 1
        #expect(throws: DecodeError.unknownTag(role | 1)) { try Self.read(bytes) }
    }

    // MARK: Lost updates

    @Test("A new link starts with the own update of a node that has published one", arguments: 0..<4)
    mutating func updateOnNewLink(cause: Int) {
        know("b", "c")
        switch cause {
        case 0: apply(Self.update("a", .suspect, 0, by: "c"))
        case 1: membership.setImpaired(true, at: now)
        case 2: membership.drain(at: now)
        default: break
        }
        membership.queue = UpdateQueue()
        membership.effects = []
        membership.reached("b")
        let told = Self.sent(membership.takeEffects())
        guard cause < 3 else { return #expect(told.isEmpty, "the hello says as much") }
        #expect(told.map(\.to) == ["b"] && told.first?.message.updates.first == membership.update(about: "a"))
    }

    @Test("Comparing with a member sends it the hash, which is answered only if it differs") mutating func comparison() {
        know("b", "c")
        membership.compare(with: "b")
        let told = Self.sent(membership.takeEffects())
        #expect(told.map(\.to) == ["b"] && told.map(\.message) == [MembershipMessage(.digest(membership.membershipHash))])
    }

    /// No message repeats the updates of a queue that was dropped.
    @Test("A node whose queue to a member has overflowed compares hashes with it") func overflow() throws {
        var settings = CoreSettings()
        settings.linkMessagesMax = 100
        var cluster = TestCluster(nodes: 2, settings: settings)
        cluster.advance(.seconds(2))
        for isFull in [false, true] {
            let process = cluster.processes[0]
            let peer = try #require(process.node.cluster.peerIndex("node-1"))
            while isFull, !process.node.machines.cluster.links[peer].hasOverflowed {
                process.node.machines.cluster.links[peer].append(.requestSync)
            }
            cluster.heard = []
            cluster.advance(.milliseconds(50))
            let compared = (cluster.heard ?? []).contains { from, _, message in
                guard from == 0, case .membership(let sent) = message, case .digest = sent.kind else { return false }
                return true
            }
            #expect(compared == isFull)
        }
    }

    // MARK: Isolation

    /// The states of these members, with the poorest local health: no suspicion ends before.
    private func states(_ names: String...) -> [MemberState?] { names.map { state($0) } }

    @Test("A node that hears nobody for 6 s declares all members dead, however poor its health, and not before")
    mutating func isolation() {
        know("b", "c")
        membership.localHealth = settings.localHealthMax
        _ = pass(settings.isolationMax)
        #expect(states("b", "c") == [.alive, .alive])
        let effects = pass(.milliseconds(20)).map(\.effect)
        #expect(states("b", "c") == [.dead, .dead])
        #expect(effects.contains(.changed(Self.peer("b"), .dead, .serving)))
        #expect(effects.contains(.changed(Self.peer("c"), .dead, .serving)))
        #expect(membership.counters.deathsDeclared == 2)
        _ = pass(.seconds(7))
        #expect(membership.counters.deathsDeclared == 2, "nobody is left")
    }

    @Test("Anything from one member keeps a node from isolation, and a new link does", arguments: 0..<4)
    mutating func sign(cause: Int) {
        know("b", "c")
        membership.localHealth = settings.localHealthMax
        _ = pass(settings.isolationMax - .milliseconds(20))
        switch cause {
        case 0: apply(from: "b", kind: .gossip)
        case 1: membership.recordSignOfLife(from: "b", at: now)
        case 2: membership.linked(Self.peer("b"), at: now)
        default: break
        }
        _ = pass(.milliseconds(60))
        #expect(states("b", "c") == (cause < 3 ? [.alive, .alive] : [.dead, .dead]))
    }

    @Test("The time of a pause of this node is no time of isolation") mutating func pause() {
        know("b", "c")
        _ = pass(.milliseconds(100))
        now.instant += .seconds(60)
        _ = pass(.milliseconds(500))
        #expect(states("b", "c") == [.alive, .alive])
    }

    @Test("A member that was declared dead goes on for 6 s at most if it hears nobody") mutating func oneDead() {
        know("b", "c")
        #expect(membership.cutOffMembersGoOnUntil() == nil)
        now.instant += .seconds(5)
        apply(Self.update("b", .suspect, 0, by: "c"))
        #expect(membership.cutOffMembersGoOnUntil() == nil)
        apply(Self.update("b", .dead, 0, by: "c"))
        let death = now.instant
        now.instant += .seconds(1)
        apply(Self.update("b", .dead, 3, by: "c"))
        #expect(membership.cutOffMembersGoOnUntil() == death + settings.isolationMax, "the first death counts")
        apply(Self.update("b", .left, 3))
        #expect(membership.cutOffMembersGoOnUntil() == nil, "an operator has removed it")
    }

    @Test("A process that was replaced from another address may go on as one that is dead", arguments: [true, false])
    mutating func replaced(isDeclaredDead: Bool) {
        know("b", "c")
        if isDeclaredDead { apply(Self.update("b", .dead)) }
        let since = now.instant
        if isDeclaredDead { now.instant += .seconds(1) }
        let successor = Peer(id: "b", generation: 2, address: "elsewhere:7601")
        apply(MembershipUpdate(member: successor, incarnation: 0, state: .alive, role: .serving, suspecter: nil))
        #expect(states("b") == [.alive])
        #expect(membership.cutOffMembersGoOnUntil() == since + settings.isolationMax)
        apply(Self.update("c", .left))
        #expect(membership.cutOffMembersGoOnUntil() == since + settings.isolationMax)
    }

    @Test("The process that replaces another one is told of it, and then counts with it for as long", arguments: [true, false])
    mutating func replacing(isDeclaredDead: Bool) {
        know("b", "c")
        if isDeclaredDead { apply(Self.update("b", .dead)) }
        _ = membership.takeEffects()
        let successor = Peer(id: "b", generation: 2, address: "elsewhere:7601")
        apply(MembershipUpdate(member: successor, incarnation: 0, state: .alive, role: .serving, suspecter: nil))
        let notices = Self.sent(membership.takeEffects()).filter { $0.to == "b" }.map(\.message)
        #expect(notices.map { $0.updates.map(\.member.generation) } == [[1]])

        var other = Membership(own: successor, settings: settings, seed: 2)
        other.receive(notices[0], from: "a", at: now)
        #expect(other.cutOffMembersGoOnUntil() == now.instant + settings.isolationMax)
        let first = now.instant
        now.instant += .seconds(1)
        other.receive(notices[0], from: "c", at: now)
        #expect(other.cutOffMembersGoOnUntil() == first + settings.isolationMax, "another member says so, too")
    }

    @Test("A process that was replaced at its address, or had left, does not go on", arguments: [true, false])
    mutating func replacedInPlace(hasLeft: Bool) {
        know("b", "c")
        if hasLeft { apply(Self.update("b", .left)) }
        let successor = Peer(id: "b", generation: 2, address: hasLeft ? "elsewhere:7601" : Self.peer("b").address)
        apply(MembershipUpdate(member: successor, incarnation: 0, state: .alive, role: .serving, suspecter: nil))
        #expect(states("b") == [.alive])
        #expect(membership.cutOffMembersGoOnUntil() == nil)
    }

    @Test("Several dead members may hear one another, and go on until each has probed the others in vain") mutating func severalDead() {
        know("b", "c", "d", "e")
        apply(Self.update("b", .dead))
        now.instant += .seconds(5)
        apply(Self.update("c", .dead))
        // Local health 8, three live members: 9 × (4 × 200 ms + 500 ms + 500 ms), and a suspicion among five without confirmation.
        let (probes, decades) = (Duration.milliseconds(9 * 1_800), 0.69897)
        let suspicion = (settings.suspicionMin + settings.suspicionPerDecade * decades) * (1 + settings.suspicionMaxPerDecade * decades)
        let expected = now.instant + probes + suspicion
        let found = membership.cutOffMembersGoOnUntil()
        #expect(found.map { abs(($0 - expected).wholeMilliseconds) <= 2 } == true)
    }

    @Test("A member from disk counts as cut off before it is met, and an address alone does not") mutating func unmet() {
        membership.learn(Peer(id: "x", generation: 0, address: "x:7601"), at: now)
        #expect(membership.cutOffMembersGoOnUntil() == nil)
        membership.learn(Self.peer("b"), at: now)
        #expect(membership.cutOffMembersGoOnUntil() == now.instant + settings.isolationMax)
    }
}
