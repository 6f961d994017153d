import PresenceWire

extension Membership {
    /// What a ``Membership`` can be told; durations run on the node's monotonic clock. n is the number of live members, this node included.
    public struct Settings: Sendable, Equatable {
        /// T: how often the next member in the shuffled round is probed, times local health + 1.
        ///
        /// Range 50 ms–10 s, default 200 ms, not the paper's 1 s: whatever n is, a member is probed 1 / T times a second by all others
        /// together, at
        /// random times, so its death is noticed after T on average and after 4.6 T in one case of 100; T = 1 s alone would use up the 5
        /// s that
        /// 1,000 nodes have. Costs 1 / T probes and acks a second, about 45 bytes each, at any n.
        public var probeInterval: Duration = .milliseconds(200)
        /// How long a probe waits for its ack before others are asked to probe, times local health + 1. Default 500 ms (Lifeguard §V):
        /// above any round trip on a LAN, so that only a stall is asked about.
        public var probeTimeout: Duration = .milliseconds(500)
        /// How long indirect probes have from there on, times local health + 1, before the member is suspected. Default 500 ms.
        public var indirectTimeout: Duration = .milliseconds(500)
        /// k: members asked to probe in our place (SWIM §3.1). Default 3.
        public var indirectProbes = 3
        /// The shortest suspicion at n = 1: what a stalled but living member has to wake up and refute, once K others agree. Default 1.4 s.
        ///
        /// min = `suspicionMin` + log10(n) · `suspicionPerDecade`: unlike memberlist's α · log10(n) · T it leaves a small cluster the
        /// patience
        /// that it can afford, and grows only by what the refutation needs to spread.
        public var suspicionMin: Duration = .milliseconds(1_400)
        /// See ``suspicionMin``. Default 150 ms: gossip multiplies those who know by ten in less.
        public var suspicionPerDecade: Duration = .milliseconds(150)
        /// A suspicion that nobody confirms lasts max = β · min, β = 1 + `suspicionMaxPerDecade` · log10(n) (Lifeguard §IV.B). Default 2.5.
        ///
        /// So β is 6 at n = 100, the paper's choice, which has to outlast a stall of the accuser itself: with β = 3 a node that neither
        /// sent nor
        /// received for 8 s had healthy members dropped, with 6 none. Three to five nodes have 2.2 to 2.7, so that even one alone is done
        /// after 5 s.
        public var suspicionMaxPerDecade = 2.5
        /// K: independent confirmations that shorten a suspicion to min (Lifeguard §IV.B); never more than there are others. Default 3.
        public var confirmationsMax = 3
        /// S: local health runs from 0 (well) to S (Lifeguard §IV.A). Default 8.
        public var localHealthMax = 8
        /// How often what is still to be told is sent to ``gossipFanOut`` random members, besides going with every probe. Default 100 ms.
        public var gossipInterval: Duration = .milliseconds(100)
        /// See ``gossipInterval``. Default 3: in 100 ms those who know multiply by up to four.
        public var gossipFanOut = 3
        /// Members told at once, without waiting for the next gossip, of what was seen for sure (a refused link, a drain); a leave is
        /// told to four times as many, because its node has no second chance. Default 8.
        public var announceFanOut = 8
        /// λ: each rumour is sent λ · ⌈log10(n + 1)⌉ times by each member (SWIM §4.1). Default 4 (memberlist's).
        public var retransmitMultiplier = 4
        /// Most bytes of rumours on one message. Default 4,096: there is no datagram to fit in, but a probe should stay quick.
        public var rumourBytesMax = 4_096
        /// Most bytes of rumours on one page of a full exchange. Default 16 KiB.
        public var pageBytesMax = 16 << 10
        /// How often digests are compared with a random member; all members are exchanged only if they differ. Default 30 s.
        public var fullExchangeInterval: Duration = .seconds(30)
        /// How often a dead member, or a contact point that has not answered, is tried again, so that a split heals. Default 5 s.
        public var reconnectInterval: Duration = .seconds(5)
        /// How long a member that has left is remembered, so that late rumours do not resurrect it. Default 24 h. One that is dead is
        /// remembered, and tried again, until it is forgotten on purpose or there are too many.
        public var leftRetention: Duration = .seconds(86_400)
        /// Members known at most, dead ones included; beyond it the longest dead is forgotten, then new ones are refused. Default 4,096.
        public var membersMax = 4_096
        /// A tick that comes later than this after the last one means that this node was asleep, not the others. Default 300 ms.
        public var tickGapMax: Duration = .milliseconds(300)
        /// How far a rumour may raise an incarnation at once; one that goes further is ignored and counted. Default 2³²: a member that
        /// refutes once a second gets there in 136 years, and a liar would need 2³² lies to use up the range.
        public var incarnationJumpMax: UInt64 = 1 << 32
        /// How far ahead of the wall clock a generation may be; one further ahead is ignored and counted. Default 24 h.
        public var generationAheadMax: Duration = .seconds(86_400)

        /// Lifeguard's local health, nacks included (§IV.A). Default on; off only to compare.
        public var isLocalHealthOn = true
        /// Lifeguard's confirmations (§IV.B); without it every suspicion lasts min. Default on; off only to compare.
        public var isSuspicionAdaptive = true
        /// Lifeguard's buddy system (§IV.C). Default on; off only to compare.
        public var isBuddySystemOn = true
        /// Whether time that this node slept through counts for nobody. Default on; off only to compare: neither paper has it.
        public var isSleepNoticed = true

        public init() {}
    }
}
