import PresenceWire

/// Whether this node's clock is right, by the system clock and the clocks of the other nodes.
///
/// The Architecture page has the table of the states. A node whose clock is wrong gives its slots away until it is right again. It goes on
/// with the steady clock meanwhile, so its versions stay right (<doc:SteadyClocks>).
struct ClockCheck {
    enum State: Equatable {
        case right
        /// The system clock has jumped, or other nodes have refused versions of this node. It asks all nodes for their clocks.
        case asking(since: Instant)
        /// The others have not confirmed the system clock, or most of them differ from this node's clock. This node gives its slots away.
        case wrong
        /// The clocks agree again. This node waits for a moment before it takes slots back.
        case returning(since: Instant)
    }

    /// The clocks of another node, as differences from this node's clock.
    private struct Reading {
        /// How far the other node's clock is ahead.
        let nodeAhead: Milliseconds
        /// How far the other node's system clock is ahead.
        let systemAhead: Milliseconds
        let at: Instant
    }

    /// A step that follows from a tick.
    enum Step {
        /// Ask all other nodes for their clocks.
        case ask
        /// Follow the system clock from now on.
        case adopt
    }

    /// The time that the others have to confirm a jump, before this node gives its slots away. 500 ms: two beats.
    static let askingMax = Duration.milliseconds(500)
    /// The time that the clocks must agree before this node takes slots again. 2 s.
    static let returnAfter = Duration.seconds(2)
    /// The time that the system clocks of all nodes must agree to be followed, though all have jumped. 30 s: a short fault of their common
    /// clock has ended by then.
    static let commonJumpMin = Duration.seconds(30)
    /// The interval of questions, and of reports to one peer. 250 ms.
    private static let questionInterval = Duration.milliseconds(250)
    /// The age at which a reading no longer counts. 2 s.
    private static let readingAgeMax = Duration.seconds(2)

    private(set) var state = State.right
    /// How far the system clock is ahead of this node's clock, at the last tick.
    private(set) var systemAhead: Milliseconds = 0
    private var readings: [PeerIndex: Reading] = [:]
    private var nextQuestionAt = Instant(nanoseconds: 0)
    /// The time from which each peer may be told again that this node has refused its versions.
    private var nextReportAt: [PeerIndex: Instant] = [:]
    /// The time since which the system clocks of all nodes agree with this one's, and how far that was ahead then.
    private var agreement: (since: Instant, systemAhead: Milliseconds)?

    /// Whether this node gives its slots away.
    var givesSlotsAway: Bool {
        switch state {
        case .right, .asking: false
        case .wrong, .returning: true
        }
    }

    /// How far this node's clock is wrong by what is known; 0 for a right clock.
    ///
    /// It is the jump of the system clock. If that has not jumped, it is the difference from the other nodes.
    var error: Milliseconds {
        guard state != .right else { return 0 }
        if systemAhead != 0 { return systemAhead }
        // order does not matter: the largest value is taken.
        return -(readings.values.map(\.nodeAhead).max { $0.magnitude < $1.magnitude } ?? 0)
    }

    /// Stores the clocks of another node.
    mutating func onClock(_ clock: Milliseconds, system: Milliseconds, from peer: PeerIndex, at now: Now) {
        readings[peer] = Reading(nodeAhead: clock - now.wall, systemAhead: system - now.wall, at: now.instant)
    }

    /// Whether to report to a peer that this node has refused its versions. It is at most once each 250 ms.
    ///
    /// Two nodes may refuse each other's versions, also those of their reports.
    mutating func reportsRefusal(to peer: PeerIndex, at now: Now) -> Bool {
        if let next = nextReportAt[peer], now.instant < next { return false }
        nextReportAt[peer] = now.instant + Self.questionInterval
        return true
    }

    /// Compares the clocks.
    ///
    /// - Parameters:
    ///   - systemAhead: how far the system clock is ahead (``SteadyClock/follow(_:)``).
    ///   - others: the other members.
    ///   - isOnly: whether the cluster has no other member, dead ones included.
    ///   - driftMax: the difference at which nodes refuse one another's versions (``VersionClock/driftMax``).
    mutating func tick(
        systemAhead: Milliseconds, others: @autoclosure () -> [PeerIndex], isOnly: @autoclosure () -> Bool, driftMax: Duration, at now: Now
    ) -> Step? {
        self.systemAhead = systemAhead
        // Most nodes stay here at each tick.
        if state == .right, systemAhead == 0, readings.isEmpty { return nil }
        readings = readings.filter { now.instant - $0.value.at <= Self.readingAgeMax }
        let others = others()
        let differing = others.count { abs(readings[$0]?.nodeAhead ?? 0) > driftMax.wholeMilliseconds }
        let isDoubtful = systemAhead != 0 || differing > 0
        let isOff = systemAhead != 0 || differing * 2 > others.count
        if !isOff {
            agreement = nil
        } else if mayAdopt(others, isOnly: isOnly(), driftMax, at: now) {
            state = state == .wrong ? .returning(since: now.instant) : .right
            (self.systemAhead, agreement, readings) = (0, nil, [:])
            return .adopt
        }
        switch state {
        case .right: if isDoubtful { state = .asking(since: now.instant) }
        case .asking(let since):
            if !isDoubtful { state = .right } else if now.instant - since >= Self.askingMax { state = isOff ? .wrong : .right }
        case .wrong: if !isOff { state = .returning(since: now.instant) }
        case .returning(let since):
            if isOff { state = .wrong } else if now.instant - since >= Self.returnAfter { state = .right }
        }
        guard state != .right else {
            (agreement, readings) = (nil, [:])
            return nil
        }
        guard now.instant >= nextQuestionAt else { return nil }
        nextQuestionAt = now.instant + Self.questionInterval
        return .ask
    }

    /// Whether the system clock is right though it has jumped.
    ///
    /// It is if it agrees with the clocks of all other nodes: this machine was suspended, or its clock was wrong before. It also is if all
    /// machines have jumped alike for a while, and none can tell which clock was wrong. Clocks agree that differ by half of what nodes
    /// allow one another.
    private mutating func mayAdopt(_ others: [PeerIndex], isOnly: Bool, _ driftMax: Duration, at now: Now) -> Bool {
        let limit = driftMax.wholeMilliseconds / 2
        let agrees = { [systemAhead] (clock: Milliseconds?) in clock.map { abs($0 - systemAhead) <= limit } ?? false }
        if !others.isEmpty, others.allSatisfy({ agrees(readings[$0]?.nodeAhead) }) { return true }
        guard isOnly || (!others.isEmpty && others.allSatisfy { agrees(readings[$0]?.systemAhead) }) else {
            agreement = nil
            return false
        }
        // Clocks that have jumped once more agree since then.
        if let systemAhead = agreement?.systemAhead, abs(systemAhead - self.systemAhead) > SteadyClock.stepMax { agreement = nil }
        let began = agreement ?? (since: now.instant, systemAhead: systemAhead)
        agreement = began
        return now.instant - began.since >= Self.commonJumpMin
    }

    /// Drops the clocks of a peer that is gone.
    mutating func lose(_ peer: PeerIndex) { (readings[peer], nextReportAt[peer]) = (nil, nil) }
}
