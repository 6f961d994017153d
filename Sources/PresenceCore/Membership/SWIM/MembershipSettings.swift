import PresenceWire

extension Membership {
    /// The settings of a ``Membership``. Durations run on the node's monotonic clock. n is the number of live members, this node included.
    public struct Settings: Sendable, Equatable {
        /// T: the interval between probes of the members in the shuffled round, times local health + 1.
        ///
        /// Range 50 ms–10 s, default 200 ms instead of the paper's 1 s. For any n, all others together probe a member 1 / T times a
        /// second at random times. They notice its death after T on average, and after 4.6 T in one case of 100. T = 1 s alone would use up
        /// the 5 s that 1,000 nodes have.
        ///
        /// The cost is 1 / T probes and acks a second, about 45 bytes each, at any n.
        public var probeInterval: Duration = .milliseconds(200)
        /// The wait for an ack before other members probe, times local health + 1. Default 500 ms (Lifeguard §V).
        ///
        /// That is above any round trip on a LAN, so only a stall leads to indirect probes.
        public var probeTimeout: Duration = .milliseconds(500)
        /// The wait for indirect probes from there on, times local health + 1, before the member is suspected. Default 500 ms.
        public var indirectTimeout: Duration = .milliseconds(500)
        /// k: the members that probe indirectly (SWIM §3.1). Default 3.
        public var indirectProbes = 3
        /// The shortest suspicion at n = 1: the time of a stalled but living member to resume and refute, once K others agree. Default 1.4
        /// s.
        ///
        /// min = `suspicionMin` + log10(n) · `suspicionPerDecade`. Unlike memberlist's α · log10(n) · T it gives a small cluster the
        /// patience that it can afford. It grows only by the time that the refutation needs to spread.
        public var suspicionMin: Duration = .milliseconds(1_400)
        /// The growth of ``suspicionMin``. Default 150 ms: gossip reaches ten times as many members in less.
        public var suspicionPerDecade: Duration = .milliseconds(150)
        /// The growth of an unconfirmed suspicion, which lasts max = β · min, β = 1 + `suspicionMaxPerDecade` · log10(n) (Lifeguard §IV.B).
        /// Default 2.5.
        ///
        /// So β is 6 at n = 100, the paper's choice, which has to outlast a stall of the suspecter itself. With β = 3 a node that neither
        /// sent nor received for 8 s caused the removal of healthy members, with 6 of none. Three to five nodes have 2.2 to 2.7, so that
        /// even one alone is done after 5 s.
        public var suspicionMaxPerDecade = 2.5
        /// K: the independent confirmations that shorten a suspicion to min (Lifeguard §IV.B), at most as many as there are others. Default
        /// 3.
        public var confirmationsMax = 3
        /// S: local health runs from 0 (well) to S (Lifeguard §IV.A). Default 8.
        public var localHealthMax = 8
        /// The interval of gossip: new updates go to ``gossipFanOut`` random members, in addition to every probe. Default 100 ms.
        public var gossipInterval: Duration = .milliseconds(100)
        /// The receivers of one gossip. Default 3: in 100 ms up to four times as many members know an update.
        public var gossipFanOut = 3
        /// The members that receive a certain update (a refused link, a drain) at once, without waiting for the next gossip. Default 8.
        ///
        /// A leave goes to four times as many, because the leaving node has no second chance.
        public var announceFanOut = 8
        /// λ: each member sends each update λ · ⌈log10(n + 1)⌉ times (SWIM §4.1). Default 4 (memberlist's).
        public var retransmitMultiplier = 4
        /// Most bytes of updates on one message. Default 4,096: there is no datagram to fit into, but a probe should stay quick.
        public var updateBytesMax = 4_096
        /// Most bytes of updates on one page of a full exchange. Default 16 KiB.
        public var pageBytesMax = 16 << 10
        /// The interval of comparing hashes with a random member. All updates are exchanged only if the hashes differ. Default 30 s.
        public var fullExchangeInterval: Duration = .seconds(30)
        /// The interval of attempts to connect to a dead member, or to a contact point without an answer, so that a split heals. Default 5
        /// s.
        public var reconnectInterval: Duration = .seconds(5)
        /// The time that a member stays in the table after it has left, so that late updates do not resurrect it. Default 24 h.
        ///
        /// A dead member stays, and is tried again, until an operator removes it or there are too many.
        public var leftRetention: Duration = .seconds(86_400)
        /// The time without a message from any other member after which this node is alone. Default 6 s.
        ///
        /// It bounds the time in which a node that is cut off shows what it knew, however poor its local health is. A node that hears from
        /// one member is not alone.
        public var isolationMax: Duration = .seconds(6)
        /// Most known members, dead ones included. Beyond it the longest dead is removed, then new ones are refused. Default 4,096.
        public var membersMax = 4_096
        /// The largest gap between two ticks. A larger one means that this node was paused, not the others. Default 300 ms.
        public var tickGapMax: Duration = .milliseconds(300)
        /// The most by which an update may raise an incarnation. One beyond it is ignored and counted. Default 2³².
        ///
        /// A member that refutes once a second gets there in 136 years, and a liar would need 2³² lies to use up the range.
        public var incarnationJumpMax: UInt64 = 1 << 32
        /// How far ahead of the wall clock a generation may be. One further ahead is ignored and counted. Default 24 h.
        public var generationAheadMax: Duration = .seconds(86_400)

        /// The parts beyond SWIM that are on. Default all; fewer only to compare.
        public var additions = Additions.all

        public init() {}
    }
}

extension Membership.Settings {
    /// The parts of a ``Membership`` that SWIM's paper does not have.
    public struct Additions: OptionSet, Sendable {
        public let rawValue: UInt8

        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Lifeguard's local health, nacks included (§IV.A).
        public static let localHealth = Additions(rawValue: 1)
        /// Lifeguard's confirmations (§IV.B). Without them every suspicion lasts min.
        public static let confirmations = Additions(rawValue: 2)
        /// Lifeguard's buddy system (§IV.C).
        public static let buddySystem = Additions(rawValue: 4)
        /// The time of a pause of this node counts for no deadline. Neither paper has it.
        public static let pauses = Additions(rawValue: 8)
        public static let all: Additions = [.localHealth, .confirmations, .buddySystem, .pauses]
    }

    /// The timeout of a suspicion: max(min, max − (max − min) · log(C + 1) / log(K + 1)) with C of K confirmations.
    ///
    /// - Parameter liveCount: the live members, this node included.
    func suspicionTimeout(liveCount: Int, confirmations: Int, confirmationsMax: Int) -> Duration {
        let decades = Self.log2(UInt64(liveCount)) / Self.log2(10)
        let min = suspicionMin + suspicionPerDecade * decades
        guard additions.contains(.confirmations), confirmationsMax > 0 else { return min }
        let max = min * (1 + suspicionMaxPerDecade * decades)
        let shortened = Self.log2(UInt64(Swift.max(0, confirmations)) + 1) / Self.log2(UInt64(confirmationsMax) + 1)
        return max - (max - min) * shortened
    }

    /// The binary logarithm: the same bits on every platform, exact at powers of two.
    private static func log2(_ value: UInt64) -> Double {
        32 - Double(FixedPoint.negativeLog2(value << 32)) / Double(FixedPoint.one)
    }

    /// The shortest time in which another node declares a silent member dead: the link breaks, and nobody reaches the member.
    var detectionMin: Duration { indirectTimeout + suspicionMin }

    /// The longest time in which SWIM declares a silent member dead, with the poorest local health.
    ///
    /// - Parameters:
    ///   - liveCount: the live members, this node included.
    ///   - knownCount: the known members.
    func detectionMax(liveCount: Int, knownCount: Int) -> Duration {
        let patience = localHealthMax + 1
        let probing = probeInterval * (liveCount + 1) + probeTimeout + indirectTimeout
        let decades = Self.log2(UInt64(knownCount)) / Self.log2(10)
        let suspicion = (suspicionMin + suspicionPerDecade * decades) * (1 + suspicionMaxPerDecade * decades)
        return probing * patience + suspicion
    }
}
