import PresenceWire
import Testing

@testable import PresenceCore

/// One membership alone, in virtual time: each rule of SWIM and Lifeguard.
@Suite struct MembershipTests {
    static func peer(_ name: String, generation: UInt64 = 1) -> Peer {
        Peer(id: NodeID(name), generation: generation, address: "\(name):7601")
    }

    static func update(
        _ name: String, _ state: MemberState, _ incarnation: UInt64 = 0, generation: UInt64 = 1, by suspecter: String? = nil
    ) -> MembershipUpdate {
        MembershipUpdate(
            member: peer(name, generation: generation), incarnation: incarnation, state: state, suspecter: suspecter.map { NodeID($0) })
    }

    var now = Now(instant: Instant(nanoseconds: 1_000_000_000), wall: 1_790_000_000_000)
    var settings = Membership.Settings()
    var membership: Membership

    init() {
        // Only what a test is about shall happen.
        settings.fullExchangeInterval = .seconds(86_400)
        settings.reconnectInterval = .seconds(86_400)
        membership = Membership(own: Self.peer("a"), settings: settings, seed: 7)
    }

    /// Adds these members, whose updates have been sent already.
    mutating func know(_ names: String...) {
        for name in names { apply(Self.update(name, .alive)) }
        membership.queue = UpdateQueue()
        membership.effects = []
    }

    mutating func apply(_ updates: MembershipUpdate..., from sender: String = "b", kind: MembershipMessage.Kind = .gossip) {
        membership.receive(MembershipMessage(kind, updates: updates), from: NodeID(sender), at: now)
    }

    /// Ticks every 20 ms; returns what was done, with the milliseconds from here at which it was.
    mutating func pass(_ duration: Duration) -> [(milliseconds: Int64, effect: Membership.Effect)] {
        var done: [(Int64, Membership.Effect)] = []
        for step in 0..<(duration.wholeMilliseconds / 20) {
            membership.tick(at: now)
            done += membership.takeEffects().map { (step * 20, $0) }
            now.instant += .milliseconds(20)
            now.wall += 20
        }
        return done
    }

    func state(_ name: String) -> MemberState? { membership.update(about: NodeID(name))?.state }

    static func sent(_ effects: [Membership.Effect]) -> [(to: String, message: MembershipMessage)] {
        effects.compactMap { effect in
            guard case .send(let message, let to) = effect else { return nil }
            return (to.rawValue, message)
        }
    }

    static func probed(_ effects: [Membership.Effect]) -> [String] {
        sent(effects).compactMap { if case .probe = $0.message.kind { $0.to } else { nil } }
    }

    // MARK: Precedence

    /// The same updates lead to the same state in any order.
    @Test("The greatest update wins in any order") func greatestWins() {
        let updates = [
            Self.update("b", .alive, 0), Self.update("b", .suspect, 0, by: "x"), Self.update("b", .alive, 1), Self.update("b", .dead, 1),
            Self.update("b", .alive, 2), Self.update("b", .suspect, 2, by: "y"),
        ]
        var random = SplitMix64(seed: 1)
        for _ in 0..<100 {
            var test = MembershipTests()
            for update in updates.shuffled(using: &random) + [updates[4]] { test.apply(update, from: "z") }
            #expect(test.membership.update(about: "b")?.incarnation == 2)
            let heardLast = test.state("b")
            #expect(heardLast == .suspect)
        }
    }

    @Test("Only a higher incarnation refutes a death") mutating func refutedDeath() {
        know("b", "c")
        apply(Self.update("b", .dead, 3))
        apply(Self.update("b", .alive, 3), Self.update("b", .suspect, 3, by: "c"), Self.update("b", .alive, 0))
        #expect(state("b") == .dead)
        apply(Self.update("b", .alive, 4))
        #expect(state("b") == .alive)
    }

    @Test("A member that left comes back only as another process") mutating func leftMember() {
        know("b", "c")
        apply(Self.update("b", .left, 1))
        apply(Self.update("b", .dead, 1), Self.update("b", .alive, 1))
        #expect(state("b") == .left)
        membership.effects = []
        apply(Self.update("b", .alive, 0, generation: 2))
        #expect(state("b") == .alive)
        #expect(membership.takeEffects().first == .changed(Self.peer("b", generation: 2), .alive, .serving))
        apply(Self.update("b", .dead, 99, generation: 1))
        #expect(state("b") == .alive)
    }

    // MARK: About us

    @Test("A node refutes an update about itself with the next incarnation") mutating func ownUpdate() {
        know("b", "c")
        apply(Self.update("a", .suspect, 0, by: "b"))
        #expect(membership.update(about: "a") == Self.update("a", .alive, 1))
        #expect(membership.localHealth == 1)
        apply(Self.update("a", .dead, 5, by: "b"), kind: .probe(9))
        #expect(membership.update(about: "a") == Self.update("a", .alive, 6))
        // The probe's answer brings the refutation.
        #expect(Self.sent(membership.takeEffects()).last?.message.updates.first == Self.update("a", .alive, 6))
        apply(Self.update("a", .dead, 5, by: "b"))
        #expect(membership.counters.refutations == 2)
    }

    /// Links break, and each of the limited retransmissions of the refutation is lost. Every suspecter must receive it again.
    @Test("Each suspecter receives a lost refutation again") mutating func lostRefutation() {
        know("b", "c")
        apply(Self.update("a", .suspect, 0, by: "b"))
        for kind in [MembershipMessage.Kind.ack(7), .gossip] {
            membership.effects = []
            apply(Self.update("a", .suspect, 0), from: "c", kind: kind)
            let told = Self.sent(membership.takeEffects()).filter { $0.to == "c" }
            #expect(told.map(\.message.updates.first) == [Self.update("a", .alive, 1)])
        }
    }

    /// The refutation is on its way when the others declare this node dead. They decide without it, and this node must know.
    @Test("A death that was refuted before it arrived counts once") mutating func refutedBefore() {
        know("b", "c")
        apply(Self.update("a", .suspect, 0, by: "b"))
        membership.effects = []
        apply(Self.update("a", .dead, 0, by: "b"))
        #expect(membership.takeEffects().count { $0 == .wasDeclaredDead } == 1)
        apply(Self.update("a", .dead, 0, by: "c"))
        #expect(membership.takeEffects().count { $0 == .wasDeclaredDead } == 0)
        #expect(membership.update(about: "a") == Self.update("a", .alive, 1))
        apply(Self.update("a", .dead, 1, by: "b"))
        #expect(membership.takeEffects().count { $0 == .wasDeclaredDead } == 1)
    }

    @Test("A live member that was declared dead receives a notice") mutating func deathNotice() {
        know("b", "c")
        apply(Self.update("b", .dead, 3, by: "c"))
        membership.effects = []
        apply(Self.update("b", .alive, 4), from: "c")
        let told = Self.sent(membership.takeEffects()).filter { $0.to == "b" }
        #expect(told.first?.message.updates == [Self.update("b", .dead, 3, by: "c")])
        #expect(told.last?.message.kind == .digest(membership.membershipHash), "it may lack later updates, too")
        membership.reached("b")
        #expect(Self.sent(membership.takeEffects()).map(\.message.updates) == [[Self.update("b", .dead, 3, by: "c")]], "the link is new")
        apply(Self.update("b", .alive, 0, generation: 2), from: "c")
        membership.effects = []
        membership.reached("b")
        #expect(Self.sent(membership.takeEffects()).isEmpty, "another process was not taken for dead")
    }

    @Test("Implausible incarnations are ignored and counted") mutating func implausible() {
        know("b", "c")
        apply(Self.update("b", .alive, .max), Self.update("a", .suspect, .max), Self.update("d", .alive, .max))
        apply(Self.update("c", .alive, 0, generation: .max))
        #expect(membership.members.map(\.incarnation) == [0, 0, 0])
        #expect(membership.counters.updatesRefused == 4)
        // A jump within the bound is believed, and is the liar's own affair: it still can be suspected, and can refute.
        apply(Self.update("b", .alive, 1 << 32))
        apply(Self.update("b", .suspect, 1 << 32, by: "c"))
        #expect(state("b") == .suspect)
    }

    @Test("An exhausted incarnation does not overflow") mutating func exhausted() {
        know("b", "c")
        membership.table[0].incarnation = .max - 1
        apply(Self.update("a", .suspect, .max - 1))
        #expect(membership.update(about: "a")?.incarnation == .max)
        apply(Self.update("a", .suspect, .max), Self.update("a", .dead, .max))
        #expect(membership.update(about: "a") == Self.update("a", .alive, .max))
        #expect(membership.counters.incarnationsExhausted == 2)
        membership.drain(at: now)
        #expect(membership.update(about: "a")?.incarnation == .max)
    }

    @Test("A later process under the same name is reported once") mutating func laterProcess() {
        know("b")
        apply(Self.update("a", .alive, 0, generation: 2), Self.update("a", .alive, 0, generation: 2))
        #expect(membership.takeEffects() == [.superseded(by: Self.peer("a", generation: 2))])
    }

    // MARK: Probes

    /// After 500 ms without an ack others probe, after 1 s the member is suspected, and after the suspicion's timeout it is dead. Each step
    /// is announced.
    @Test("A silent member is probed indirectly, then suspected, then dead") mutating func silentMember() {
        know("b")
        membership.localHealth = 0
        let done = pass(.seconds(4))
        let probe = done.first { !Self.probed([$0.effect]).isEmpty }!.milliseconds
        let suspected = done.first { $0.effect == .changed(Self.peer("b"), .suspect, .serving) }!.milliseconds
        let dead = done.first { $0.effect == .changed(Self.peer("b"), .dead, .serving) }!.milliseconds
        #expect(suspected - probe == 1_000)
        let timeout = settings.suspicionMin + settings.suspicionPerDecade * 0.30103
        #expect(abs(dead - suspected - timeout.wholeMilliseconds) <= 20)  // Two nodes: nobody could confirm.
    }

    @Test("Every member is probed once in each round") mutating func rounds() {
        know("b", "c", "d", "e", "f")
        var probed: [String] = []
        for _ in 0..<(3 * 200 * 5 / 20) {
            for (_, effect) in pass(.milliseconds(20)) {
                probed += Self.probed([effect])
                for (to, message) in Self.sent([effect]) {
                    if case .probe(let sequence) = message.kind { apply(from: to, kind: .ack(sequence)) }
                }
            }
        }
        #expect(probed.count >= 15)
        for round in [0..<5, 5..<10, 10..<15] { #expect(probed[round].sorted() == ["b", "c", "d", "e", "f"]) }
        #expect(probed[0..<5] != probed[5..<10])
    }

    @Test("An indirect probe is carried out and answered with an ack or a nack") mutating func indirectProbe() throws {
        know("b", "c")
        apply(from: "b", kind: .indirectProbe(77, target: "c"))
        let asked = try #require(Self.sent(membership.takeEffects()).first)
        guard case .probe(let sequence) = asked.message.kind else { return #expect(Bool(false)) }
        #expect(asked.to == "c")
        _ = pass(.milliseconds(380))
        let nacks = pass(.milliseconds(60)).map(\.effect)
        #expect(Self.sent(nacks).contains { $0.to == "b" && $0.message.kind == .nack(77) })
        apply(from: "c", kind: .ack(sequence))
        #expect(Self.sent(membership.takeEffects()).contains { $0.to == "b" && $0.message.kind == .ack(77) })
    }

    @Test("Missing nacks worsen the local health, and answered probes improve it") mutating func health() {
        know("b", "c", "d", "e")
        var isNacking = true
        func run(_ test: inout MembershipTests) {
            for _ in 0..<75 {
                for (to, message) in Self.sent(test.pass(.milliseconds(20)).map(\.effect)) {
                    switch message.kind {
                    case .indirectProbe(let sequence, _) where isNacking: test.apply(from: to, kind: .nack(sequence))
                    case .probe(let sequence) where to != "b": test.apply(from: to, kind: .ack(sequence))
                    default: break
                    }
                }
            }
        }
        run(&self)
        #expect(membership.counters.probesFailed > 0)
        #expect(membership.localHealth == 0)
        apply(Self.update("b", .alive, 1))
        isNacking = false
        for _ in 0..<3 where membership.localHealth == 0 { run(&self) }
        #expect(membership.localHealth > 0)
    }

    @Test("A node of bad health probes less often and waits longer") mutating func unwell() {
        know("b", "c", "d", "e", "f", "g", "h", "i", "j")
        membership.localHealth = 8
        let done = pass(.milliseconds(1_860)).map(\.effect)
        #expect((1...2).contains(Self.probed(done).count))
        #expect(membership.suspicions.isEmpty)
    }

    // MARK: Suspicion

    @Test("Confirmations of others shorten a suspicion") mutating func confirmations() {
        know("b", "c", "d", "e", "f", "g", "h", "i", "j")
        apply(Self.update("b", .suspect, 0, by: "c"))
        let min = settings.suspicionMin + settings.suspicionPerDecade
        var timeouts = [membership.suspicions[0].deadline - now.instant]
        for suspecter in ["c", "d", "d", "e", "f", "g"] {
            apply(Self.update("b", .suspect, 0, by: suspecter))
            let timeout = membership.suspicions[0].deadline - now.instant
            if timeout != timeouts.last { timeouts.append(timeout) }
        }
        #expect(timeouts.count == 4)
        for (timeout, share) in zip(timeouts, [0, 0.5, 0.7925, 1]) {
            let expected = min * 3.5 - min * 2.5 * share
            #expect(abs((timeout - expected).wholeMilliseconds) <= 2)
        }
    }

    @Test("A suspect first learns that it is one") mutating func buddySystem() {
        know("b", "c")
        apply(Self.update("b", .suspect, 0, by: "c"))
        for _ in 0..<100 { _ = membership.queue.take(transmissionsMax: 1) { _ in true } }
        let probes = Self.sent(pass(.milliseconds(600)).map(\.effect)).filter { if case .probe = $0.message.kind { true } else { false } }
        #expect(probes.first { $0.to == "b" }?.message.updates == [Self.update("b", .suspect, 0, by: "c")])
        #expect(probes.first { $0.to == "c" }?.message.updates == [])
    }

    /// A node that was paused suspects no member of that time, and doubts its own health.
    @Test("A late tick suspects no member") mutating func lateTick() {
        know("b", "c", "d")
        apply(Self.update("d", .suspect, 0, by: "c"))
        _ = pass(.milliseconds(900))
        let inFlight = membership.probes.count
        #expect(inFlight > 0)
        now.instant += .seconds(20)
        _ = pass(.milliseconds(80))
        #expect(membership.probes.count >= inFlight)
        #expect(state("b") == .alive && state("c") == .alive && state("d") == .suspect)
        #expect(membership.localHealth == 8)
        #expect(membership.counters.sleeps == 1)
    }

    /// Under loss its answers, and our questions, may be held up for longer than a suspicion lasts.
    @Test("A member that sends messages is neither suspected nor declared dead") mutating func signOfLife() {
        know("b", "c", "d")
        for _ in 0..<100 {
            _ = pass(.milliseconds(100))
            membership.recordSignOfLife(from: "b", at: now)
        }
        #expect(state("b") == .alive && state("c") == .dead)
        apply(Self.update("b", .suspect, 0, by: "d"))
        for _ in 0..<100 {
            _ = pass(.milliseconds(100))
            membership.recordSignOfLife(from: "b", at: now)
        }
        #expect(state("b") == .suspect)
        _ = pass(.seconds(5))
        #expect(state("b") == .dead)
    }

    // MARK: Links

    @Test("A refused link is a death, which the node announces at once") mutating func refusedLink() {
        know("b", "c", "d")
        membership.unlinked("b", evidence: .refused(generation: Self.peer("b").generation), at: now)
        let effects = membership.takeEffects()
        #expect(effects.first == .changed(Self.peer("b"), .dead, .serving))
        let told = Self.sent(effects).filter { $0.message.updates.first == Self.update("b", .dead, by: "a") }.map(\.to)
        #expect(told.sorted() == ["c", "d"])
    }

    /// The attempt began before the process that lives now.
    @Test("A refusal does not concern a newer generation") mutating func newerGeneration() {
        know("b", "c", "d")
        membership.linked(Self.peer("b", generation: 2), at: now)
        _ = membership.takeEffects()
        membership.unlinked("b", evidence: .refused(generation: 1), at: now)
        #expect(membership.takeEffects().isEmpty)
        #expect(state("b") == .alive)
    }

    /// Something between the two nodes refuses in the member's place; the others reach it.
    @Test("A member that survived a refusal is only probed after the next one") mutating func survivedRefusal() {
        know("b", "c", "d")
        let refusal = Membership.LinkLoss.refused(generation: Self.peer("b").generation)
        membership.unlinked("b", evidence: refusal, at: now)
        #expect(state("b") == .dead)
        apply(Self.update("b", .alive, 1))
        membership.unlinked("b", evidence: refusal, at: now)
        #expect(state("b") == .alive)
        #expect(Self.probed(pass(.milliseconds(20)).map(\.effect)).contains("b"))
        membership.reached("b")
        membership.unlinked("b", evidence: refusal, at: now)
        #expect(state("b") == .dead)
    }

    @Test("After a broken link the member is probed at once, also indirectly") mutating func brokenLink() {
        know("b", "c", "d")
        membership.unlinked("b", evidence: .reset, at: now)
        let effects = pass(.milliseconds(20)).map(\.effect)
        #expect(Self.probed(effects).contains("b"))
        let asked = Self.sent(effects).filter { if case .indirectProbe(_, "b") = $0.message.kind { true } else { false } }
        #expect(asked.map(\.to).sorted() == ["c", "d"])
        #expect(state("b") == .alive)
    }

    @Test("A known address is not a member before its link is up") mutating func addressOnly() {
        membership.learn(Self.peer("b"), at: now)
        #expect(membership.takeEffects() == [.connect(Self.peer("b"))])
        #expect(membership.ringMembers.map(\.id) == ["a"])
        membership.linked(Self.peer("b"), at: now)
        #expect(membership.ringMembers.map(\.id) == ["a", "b"])
        #expect(Self.sent(membership.takeEffects()).contains { $0.message.kind == .digest(membership.membershipHash) })
    }
}

extension NodeID: ExpressibleByStringLiteral {
    public init(stringLiteral name: String) { self.init(name) }
}
