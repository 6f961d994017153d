import PresenceWire
import Testing

@testable import PresenceCore

/// The states of a clock, with the clocks of other nodes that the test sets.
@Suite struct ClockCheckTests {
    private static let driftMax = VersionClock.usualDriftMax
    private static let drift = driftMax.wholeMilliseconds
    private static let jump: Milliseconds = 300_000
    private static let step = Duration.milliseconds(50)

    private var now = Now(instant: Instant(nanoseconds: 1_000_000_000), wall: 1_790_000_000_000)
    private var check = ClockCheck()
    /// How far this node's system clock is ahead of its clock.
    private var systemAhead: Milliseconds = 0
    /// The other live members, and how far their clocks and their system clocks are ahead of this node's clock.
    private var others: [(peer: PeerIndex, node: Milliseconds, system: Milliseconds)] = [(1, 0, 0), (2, 0, 0)]
    /// Whether the cluster has no other member, dead ones included.
    private var isOnly = false

    /// Lets time pass, and ticks once.
    @discardableResult private mutating func tick(after duration: Duration = .zero) -> ClockCheck.Step? {
        now.instant += duration
        now.wall += duration.wholeMilliseconds
        return check.tick(systemAhead: systemAhead, others: others.map(\.peer), isOnly: isOnly, driftMax: Self.driftMax, at: now)
    }

    /// The other nodes send their clocks, all of them unless one is named.
    private mutating func answer(_ peer: PeerIndex? = nil) {
        for other in others where peer == nil || other.peer == peer {
            check.onClock(now.wall + other.node, system: now.wall + other.system, from: other.peer, at: now)
        }
    }

    /// Ticks every 50 ms, and has each question answered. A jump that is to be followed is followed. Returns when that was, from here.
    @discardableResult private mutating func pass(_ duration: Duration) -> Duration? {
        let start = now.instant
        var adoptedAfter: Duration?
        while now.instant - start < duration {
            switch tick(after: min(Self.step, duration - (now.instant - start))) {
            case .ask: answer()
            case .adopt:
                adoptedAfter = now.instant - start
                for index in others.indices {
                    others[index].node -= systemAhead
                    others[index].system -= systemAhead
                }
                now.wall += systemAhead
                systemAhead = 0
            case nil: break
            }
        }
        return adoptedAfter
    }

    /// A check whose clock has just become wrong, because nobody confirms the jump.
    private mutating func becomeWrong() {
        systemAhead = Self.jump
        pass(.seconds(1))
        #expect(check.state == .wrong)
    }

    // MARK: Questions

    @Test("A clock without a jump is right, and the node asks nobody") mutating func right() {
        #expect(tick() == nil && tick(after: .seconds(60)) == nil)
        #expect(check.state == .right && !check.givesSlotsAway && check.error == 0)
    }

    @Test("A node whose clock jumps asks at once, and every 250 ms after that", arguments: [jump, -jump])
    mutating func questions(jump: Milliseconds) {
        systemAhead = jump
        #expect(tick() == .ask)
        #expect(check.state == .asking(since: now.instant) && !check.givesSlotsAway)
        #expect(tick(after: .milliseconds(250) - .nanoseconds(1)) == nil)
        #expect(tick(after: .nanoseconds(1)) == .ask)
        #expect(tick(after: .milliseconds(250)) == .ask)
        #expect(check.state == .wrong, "it goes on asking")
    }

    @Test("The node reports how far its system clock is ahead at the last tick") mutating func systemClock() {
        for ahead in [0, Self.jump, 5_000, -Self.jump, 0] {
            systemAhead = ahead
            tick(after: Self.step)
            #expect(check.systemAhead == ahead)
        }
    }

    // MARK: Wrong

    @Test("A jump that nobody confirms within 500 ms makes the clock wrong, and not before", arguments: [true, false])
    mutating func unconfirmed(isAnswered: Bool) {
        systemAhead = Self.jump
        tick()
        if isAnswered { answer() }
        tick(after: ClockCheck.askingMax - .nanoseconds(1))
        guard case .asking = check.state else { return #expect(Bool(false), "\(check.state)") }
        #expect(!check.givesSlotsAway)
        tick(after: .nanoseconds(1))
        #expect(check.state == .wrong && check.givesSlotsAway)
    }

    @Test("A jump that ends while the node asks leaves the clock right") mutating func shortJump() {
        systemAhead = Self.jump
        tick()
        systemAhead = 0
        #expect(tick(after: ClockCheck.askingMax - .nanoseconds(1)) == nil)
        #expect(check.state == .right)
    }

    @Test(
        "The clock is wrong if more than half of the other nodes differ from it",
        arguments: [(1, 1, true), (2, 1, false), (2, 2, true), (3, 1, false), (3, 2, true), (4, 2, false), (4, 3, true)])
    mutating func majority(othersCount: Int, differing: Int, isWrong: Bool) {
        others = (1...othersCount).map { ($0, $0 <= differing ? Self.drift + 1 : 0, 0) }
        answer()
        #expect(tick() == .ask, "some node is wrong")
        answer()
        tick(after: ClockCheck.askingMax)
        #expect(check.state == (isWrong ? .wrong : .right))
    }

    @Test(
        "Clocks differ beyond the time at which nodes refuse versions, ahead or back",
        arguments: [(drift, false), (drift + 1, true), (-drift, false), (-drift - 1, true)])
    mutating func difference(ahead: Milliseconds, isDoubtful: Bool) {
        others = [(1, ahead, 0)]
        answer()
        tick()
        #expect(check.state == (isDoubtful ? .asking(since: now.instant) : .right))
        answer()
        tick(after: ClockCheck.askingMax)
        #expect(check.state == (isDoubtful ? .wrong : .right))
    }

    @Test("Nodes that do not answer do not differ") mutating func silentNodes() {
        others = (1...5).map { ($0, Self.drift + 1, 0) }
        for peer in 1...2 { answer(peer) }
        tick()
        tick(after: ClockCheck.askingMax)
        #expect(check.state == .right, "two of five differ")
    }

    // MARK: Returning

    @Test("A wrong clock that agrees again is right after 2 s, and the node gives its slots away until then") mutating func returning() {
        becomeWrong()
        systemAhead = 0
        tick(after: Self.step)
        #expect(check.state == .returning(since: now.instant) && check.givesSlotsAway)
        tick(after: ClockCheck.returnAfter - .nanoseconds(1))
        #expect(check.givesSlotsAway)
        tick(after: .nanoseconds(1))
        #expect(check.state == .right && !check.givesSlotsAway)
    }

    @Test("A clock that jumps again while it returns is wrong at once, and the 2 s begin again") mutating func jumpWhileReturning() {
        becomeWrong()
        systemAhead = 0
        tick(after: Self.step)
        systemAhead = Self.jump
        tick(after: ClockCheck.returnAfter - .nanoseconds(1))
        #expect(check.state == .wrong)
        systemAhead = 0
        tick(after: .nanoseconds(1))
        tick(after: ClockCheck.returnAfter - .nanoseconds(1))
        #expect(check.givesSlotsAway)
        tick(after: .nanoseconds(1))
        #expect(check.state == .right)
    }

    @Test("A clock that differed from most nodes is right 2 s after they agree") mutating func agreement() {
        for index in others.indices { others[index].node = Self.drift + 1 }
        answer()
        pass(.seconds(1))
        #expect(check.state == .wrong)
        for index in others.indices { others[index].node = 0 }
        pass(.milliseconds(300))
        guard case .returning = check.state else { return #expect(Bool(false), "\(check.state)") }
        pass(ClockCheck.returnAfter)
        #expect(check.state == .right)
    }

    // MARK: Adoption

    @Test(
        "A jump is followed at once if all others' clocks confirm it to within 30 s, as after a suspension",
        arguments: [(0, true), (drift / 2, true), (-drift / 2, true), (drift / 2 + 1, false), (-drift / 2 - 1, false)])
    mutating func suspendedMachine(difference: Milliseconds, isAdopted: Bool) {
        systemAhead = Self.jump
        others = [(1, Self.jump, 0), (2, Self.jump + difference, 0)]
        #expect(tick() == .ask)
        answer()
        #expect((tick(after: Self.step) == .adopt) == isAdopted)
        #expect((check.state == .right) == isAdopted)
        guard isAdopted else { return }
        #expect(check.systemAhead == 0 && check.error == 0)
        systemAhead = 0
        #expect(tick(after: Self.step) == nil, "no reading from before the adoption counts")
        #expect(check.state == .right)
    }

    @Test("One node that does not confirm a jump, or does not answer, keeps the clock from following it", arguments: [true, false])
    mutating func oneDoubts(isAnswered: Bool) {
        systemAhead = Self.jump
        others = [(1, Self.jump, 0), (2, 0, 0)]
        for _ in 0..<20 {
            #expect(tick(after: Self.step) != .adopt)
            answer(1)
            if isAnswered { answer(2) }
        }
        #expect(check.state == .wrong)
    }

    @Test("A clock that was wrong follows the clocks of all others, and is right 2 s later") mutating func correctedClock() {
        systemAhead = Self.jump
        others = [(1, Self.jump, Self.jump), (2, 0, 0)]
        pass(.seconds(1))
        #expect(check.state == .wrong)
        others[1].node = Self.jump
        let adopted = pass(.milliseconds(300))
        #expect(adopted != nil)
        guard case .returning(let since) = check.state else { return #expect(Bool(false), "\(check.state)") }
        pass(ClockCheck.returnAfter - .nanoseconds(1) - (now.instant - since))
        #expect(check.givesSlotsAway)
        pass(.nanoseconds(1))
        #expect(check.state == .right)
    }

    @Test("A jump of all system clocks is followed once they have agreed for 30 s") mutating func commonJump() {
        systemAhead = Self.jump
        others = [(1, 0, Self.jump), (2, 0, Self.jump)]
        tick()
        answer()
        #expect(pass(ClockCheck.commonJumpMin) == nil)
        #expect(check.state == .wrong, "they agree since the first answers, a tick after the jump")
        #expect(pass(Self.step) == Self.step)
        #expect(check.state == .returning(since: now.instant))
        others = [(1, 0, 0), (2, 0, 0)]
        pass(ClockCheck.returnAfter)
        #expect(check.state == .right, "the others have followed it as well")
    }

    @Test("One system clock that has not jumped keeps the others from following the jump") mutating func otherSystemClock() {
        systemAhead = Self.jump
        others = [(1, 0, Self.jump), (2, 0, 0)]
        #expect(pass(ClockCheck.commonJumpMin * 2) == nil)
    }

    @Test("The 30 s begin again when a system clock has disagreed for a moment") mutating func interruptedAgreement() {
        systemAhead = Self.jump
        for system in [Self.jump, 0, Self.jump] {
            others = [(1, 0, Self.jump), (2, 0, system)]
            #expect(pass(system == 0 ? .seconds(1) : .seconds(29)) == nil)
        }
        #expect(pass(.seconds(2)) != nil)
    }

    @Test("The 30 s begin again when the jump has ended for a moment") mutating func endedJump() {
        (others, isOnly) = ([], true)
        for ahead in [Self.jump, 0, Self.jump] {
            systemAhead = ahead
            #expect(pass(ahead == 0 ? .seconds(1) : .seconds(29)) == nil)
        }
        #expect(pass(.seconds(2)) != nil)
    }

    @Test("The 30 s begin again when the system clocks jump elsewhere") mutating func otherJump() {
        (others, isOnly) = ([], true)
        for ahead in [Self.jump, 2 * Self.jump, 2 * Self.jump - SteadyClock.stepMax - 1] {
            systemAhead = ahead
            #expect(pass(.seconds(29)) == nil)
        }
        systemAhead += SteadyClock.stepMax
        #expect(pass(.seconds(2)) != nil, "a correction counts for nothing")
    }

    @Test("A lone node follows a jump after 30 s, and not before") mutating func loneNode() {
        (others, isOnly) = ([], true)
        systemAhead = Self.jump
        tick()
        #expect(pass(ClockCheck.commonJumpMin - .nanoseconds(1)) == nil)
        #expect(check.state == .wrong)
        #expect(pass(.nanoseconds(1)) == .nanoseconds(1))
        #expect(check.state == .returning(since: now.instant))
    }

    @Test("A node that misses its only other member does not follow a jump") mutating func missingMember() {
        others = []
        systemAhead = Self.jump
        #expect(pass(ClockCheck.commonJumpMin * 2) == nil)
        #expect(check.state == .wrong)
    }

    // MARK: Readings

    @Test("A clock counts for 2 s after it was received", arguments: [(0, true), (1, false)] as [(Int64, Bool)])
    mutating func oldReading(nanosecondsLate: Int64, isAdopted: Bool) {
        systemAhead = Self.jump
        others = [(1, Self.jump, 0), (2, Self.jump, 0)]
        tick()
        answer(1)
        now.instant += .seconds(2) + .nanoseconds(nanosecondsLate)
        answer(2)
        #expect((tick() == .adopt) == isAdopted)
    }

    @Test("A member that has died is not asked: those that live decide") mutating func deadMember() {
        systemAhead = Self.jump
        others = [(1, Self.jump, 0), (2, 0, 0)]
        pass(.seconds(1))
        #expect(check.state == .wrong)
        check.lose(2)
        others.removeLast()
        #expect(pass(.milliseconds(300)) != nil)
    }

    @Test("The clock of a peer that is gone does not count for its successor") mutating func lostPeer() {
        systemAhead = Self.jump
        others = [(1, Self.jump, 0), (2, Self.jump, 0)]
        tick()
        answer()
        check.lose(2)
        #expect(tick(after: Self.step) != .adopt)
        answer(2)
        #expect(tick(after: Self.step) == .adopt)
    }

    // MARK: The report

    @Test("The error of a clock is its jump while the clock is not right", arguments: [jump, -jump])
    mutating func jumpError(jump: Milliseconds) {
        others = [(1, 40, 0), (2, -70, 0)]
        systemAhead = jump
        pass(.seconds(1))
        #expect(check.error == jump)
        systemAhead = 0
        pass(Self.step)
        #expect(check.error == 70, "while it returns it is the difference from the others")
        pass(ClockCheck.returnAfter)
        #expect(check.state == .right && check.error == 0)
    }

    @Test("The error of a clock that has not jumped is its largest difference from another node", arguments: [1, -1] as [Milliseconds])
    mutating func differenceError(sign: Milliseconds) {
        others = [(1, -90_000 * sign, 0), (2, -95_000 * sign, 0), (3, 1_000 * sign, 0)]
        answer()
        pass(.seconds(1))
        #expect(check.state == .wrong)
        #expect(check.error == 95_000 * sign, "a positive error is a clock that is ahead")
    }
}
