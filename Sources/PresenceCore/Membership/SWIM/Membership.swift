import PresenceWire

/// Who is in the cluster, as one node sees it: SWIM (Das, Gupta, Motivala, 2002) with Lifeguard (arXiv 1707.00788).
///
/// Does no I/O, reads no clock and draws no unseeded number: messages and the time come in, effects go out, in order. What is known of a
/// member is its greatest ``PresenceWire/Rumour``, so nodes that have heard the same agree, in whatever order they heard it. Unlike in
/// SWIM's paper, `dead` is refuted like `suspect`, by a higher incarnation: a healed split has to be able to undo its deaths.
///
/// Lies: an incarnation beyond ``Settings/incarnationJumpMax`` is ignored and counted. One within is believed, and harms only the member
/// that it names, which goes one higher if it lives. A member whose incarnation is used up cannot refute any more until its process
/// restarts.
public struct Membership: Sendable {
    /// What the caller is to do, in order.
    public enum Effect: Hashable, Sendable {
        /// Send it on the link to this node; without a link it is lost, and need not be kept.
        case send(MembershipMessage, to: NodeID)
        /// A member is new, or its generation, its state or whether it drains has changed. A larger generation means that the process known
        /// before is gone.
        case changed(Peer, MemberState, isDraining: Bool)
        /// Try to open a link, unless there is one.
        case connect(Peer)
        /// This node was taken for dead, and has refuted it: others may have decided about its slots meanwhile.
        case wasMissed
        /// Another process runs under this node's ID, started later: this one is not a member any more.
        case superseded(by: Peer)
    }

    /// How a link ended.
    public enum LinkLoss: Sendable {
        /// The connection broke: its process may be gone.
        case reset
        /// The member's host answered that nothing listens there, to an attempt that began when this generation was the newest known: a
        /// process listens before it has a generation, so that one is gone. A newer one is not meant: it may have begun meanwhile.
        case refused(generation: UInt64)
        /// No answer in time.
        case silent
    }

    /// Counts since the start, for the metrics.
    public struct Counters: Equatable, Sendable {
        public var probes: UInt64 = 0
        public var probesFailed: UInt64 = 0
        /// Suspicions of others that began here or were heard of.
        public var suspicions: UInt64 = 0
        /// Deaths that this node declared itself.
        public var deathsDeclared: UInt64 = 0
        /// Rumours of its suspicion or death that this node refuted.
        public var refutations: UInt64 = 0
        /// Rumours ignored because their incarnation or generation was beyond belief, or there were too many members.
        public var rumoursRefused: UInt64 = 0
        /// Rumours that could not be refuted, because the incarnation is used up.
        public var incarnationsExhausted: UInt64 = 0
        /// Ticks that came too late.
        public var sleeps: UInt64 = 0
    }

    struct Member {
        var card: Peer
        /// Nil as long as only the address is known.
        var state: MemberState?
        var incarnation: UInt64 = 0
        var isDraining = false
        var accuser: NodeID?
        /// The generation that was dead because its address refused. If it lives after all, something else refuses in its place, and it
        /// is not believed again before a link to it was up.
        var refusedGeneration: UInt64 = 0
        /// The last rumor that this process is dead, if a newer one says that it lives. Until the process hears of it, it goes on as the owner of
        /// what others have decided about since.
        var deathRefuted: Rumour?
        var changedAt: Instant
        /// When something that it sent itself last arrived.
        var heardAt = Instant(nanoseconds: .min)
        /// Its index in ``Membership/live``, if it is there.
        var livePlace = -1
        /// Its part of ``Membership/digest``.
        var fingerprint: UInt64 = 0
        /// Its place may be used again.
        var isVacant = false

        /// All that is known of a member whose state is known.
        var rumour: Rumour {
            Rumour(member: card, incarnation: incarnation, state: state ?? .alive, isDraining: isDraining, accuser: accuser)
        }
    }

    /// This node's place in ``table``.
    static let ownPlace = 0

    let settings: Settings
    public internal(set) var counters = Counters()
    /// Lifeguard's local health multiplier: 0 is well, ``Settings/localHealthMax`` the worst; timeouts and intervals are this + 1 as long.
    public internal(set) var localHealth = 0
    /// Not yet taken; the order counts.
    var effects: [Effect] = []

    var random: SplitMix64
    /// Everybody known, this node first; the rest in order of arrival, with vacant places used again.
    var table: [Member] = []
    var vacant: [Int] = []
    var places: [NodeID: Int] = [:]
    /// The others that are alive or suspect, in no order that means anything.
    var live: [Int] = []
    /// XOR of the fingerprints of all live members.
    var digest: UInt64 = 0
    var queue = RumourQueue()

    var probes: [Probe] = []
    var relays: [Relay] = []
    var suspicions: [Suspicion] = []
    var sequence: UInt64
    /// This round of probes, and how far it has come.
    var round: [Int] = []
    var roundPosition = 0

    /// The largest generation of this node's ID that was heard of, beyond its own.
    var generationMax: UInt64 = 0
    /// It is known that others took this node for dead in incarnations below this one.
    var deathsHeard: UInt64 = 0

    var lastTick: Instant?
    var nextProbeAt: Instant = .farFuture
    var nextGossipAt: Instant = .farFuture
    var nextExchangeAt: Instant = .farFuture
    var nextReconnectAt: Instant = .farFuture
    var nextSweepAt: Instant = .farFuture
    /// Exchanges because of a new link are at least a second apart.
    var nextLinkExchangeAt = Instant(nanoseconds: .min)

    /// - Parameters:
    ///   - own: this node's card, as the others are to know it.
    ///   - seed: starts all that is drawn; nodes must have different ones.
    public init(own: Peer, settings: Settings, seed: UInt64) {
        self.settings = settings
        random = SplitMix64(seed: seed)
        sequence = random.next() >> 32
        table = [Member(card: own, state: .alive, changedAt: Instant(nanoseconds: 0))]
        places[own.id] = Self.ownPlace
        refreshFingerprint(Self.ownPlace)
        queue.insert(Self.ownPlace)
    }

    /// The effects since the last call, in order.
    public mutating func takeEffects() -> [Effect] {
        effects.takeAll()
    }

    // MARK: What happens

    /// A card from a hello, or a contact point's (with generation 0 if unknown): somebody to link to, no member before that.
    public mutating func learn(_ card: Peer, at now: Now) {
        guard card.id != own.id, isPlausible(card, at: now) else { return }
        guard let place = places[card.id] else {
            guard let place = add(card, at: now) else { return }
            return effects.append(.connect(table[place].card))
        }
        guard card.generation > table[place].card.generation else { return }
        if table[place].state == nil { table[place].card = card }
        effects.append(.connect(card))
    }

    /// A link is up and the node at its end said who it is: proof of life.
    public mutating func linked(_ card: Peer, at now: Now) {
        guard card.id != own.id, isPlausible(card, at: now) else { return }
        guard let place = places[card.id] ?? add(card, at: now) else { return }
        let isNew = table[place].state == nil || card.generation > table[place].card.generation
        if isNew { adopt(Rumour(member: card, incarnation: 0, state: .alive), at: place, now) }
        let isDoubted = table[place].state != .alive
        if nextLinkExchangeAt <= now.instant || live.count <= 1 {
            nextLinkExchangeAt = now.instant + .seconds(1)
            send(.digest(digest), to: card.id, first: isDoubted ? [place] : [])
        } else if isNew || isDoubted {
            send(.gossip, to: card.id, first: [place])
        }
    }

    /// Something has arrived on the member's own link: it lives, also while its answers to us, or our questions, are held up by lost packets.
    mutating func heard(from id: NodeID, at now: Now) {
        if let place = places[id] { table[place].heardAt = now.instant }
    }

    /// Tells a member that it was taken for dead; nil if its present process never came back from that. The member counts each death once.
    func deathNotice(to id: NodeID) -> MembershipMessage? {
        places[id].flatMap { table[$0].deathRefuted }.map { MembershipMessage(.gossip, rumours: [$0]) }
    }

    /// The member's address has answered: that it refuses is worth believing again.
    mutating func reached(_ id: NodeID) {
        if let place = places[id] { table[place].refusedGeneration = 0 }
        // A notice that was sent on the link before may be lost.
        if let notice = deathNotice(to: id) { effects.append(.send(notice, to: id)) }
        // A node that has just begun must not count on this one.
        if table[Self.ownPlace].isDraining { send(.gossip, to: id, first: [Self.ownPlace]) }
    }

    /// A link is down, or could not be opened. `.refused` is direct evidence: dead at once, and told at once; the others are reasons to
    /// probe now.
    public mutating func unlinked(_ id: NodeID, evidence: LinkLoss, at now: Now) {
        guard let place = places[id], place != Self.ownPlace, table[place].state?.isLive == true else { return }
        switch evidence {
        case .refused(let generation):
            guard generation == table[place].card.generation else { return }
            guard table[place].refusedGeneration != generation else { return probeUrgently(place, at: now) }
            table[place].refusedGeneration = generation
            declareDead(place, at: now)
            announce(place, to: settings.announceFanOut)
        case .reset, .silent: probeUrgently(place, at: now)
        }
    }

    /// Passes time: call every 20–50 ms.
    public mutating func tick(at now: Now) {
        noticeSleep(at: now)
        endProbes(at: now)
        endRelays(at: now)
        endSuspicions(at: now)
        if nextProbeAt <= now.instant { probeNext(at: now) }
        if nextGossipAt <= now.instant { gossip(at: now) }
        if nextExchangeAt <= now.instant { exchangeDigests(at: now) }
        if nextReconnectAt <= now.instant { reconnect(at: now) }
        if nextSweepAt <= now.instant { forgetLongGone(at: now) }
    }

    /// This node gives its slots away; it stays a member.
    public mutating func drain(at now: Now) {
        guard !table[Self.ownPlace].isDraining else { return }
        restate(.alive, isDraining: true, at: now)
        announce(Self.ownPlace, to: settings.announceFanOut)
    }

    /// An operator says that a member that is dead will not come back: it is missed no longer, as if it had left. If it lives after all, it
    /// refutes. Has no effect on one that is not dead.
    mutating func forget(_ card: Peer, at now: Now) {
        guard let place = places[card.id] ?? add(card, at: now), table[place].state?.isLive != true, table[place].state != .left else {
            return
        }
        adopt(Rumour(member: table[place].card, incarnation: table[place].incarnation, state: .left), at: place, now)
        announce(place, to: 4 * settings.announceFanOut)
    }

    /// This node ends on purpose: it is not missed. Send the effects, then end.
    public mutating func leave(at now: Now) {
        guard table[Self.ownPlace].state != .left else { return }
        restate(.left, isDraining: table[Self.ownPlace].isDraining, at: now)
        announce(Self.ownPlace, to: 4 * settings.announceFanOut)
    }
}
