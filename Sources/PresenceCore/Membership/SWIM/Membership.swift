import PresenceWire

/// The members of the cluster, as one node sees them: SWIM (Das, Gupta, Motivala, 2002) with Lifeguard (arXiv 1707.00788).
///
/// It does no I/O, reads no clock and draws no unseeded number. Messages and the time come in; effects go out, in order.
///
/// The state of a member is its greatest ``PresenceWire/Rumour``. Nodes that have received the same updates agree, whatever their order.
/// Unlike in SWIM's paper, a member refutes `dead` like `suspect`, by a higher incarnation: a healed split has to undo its deaths.
///
/// An incarnation beyond ``Settings/incarnationJumpMax`` is ignored and counted. A false one within it harms only the member that it names,
/// which refutes with a higher one. A member whose incarnation is used up cannot refute until its process restarts.
public struct Membership: Sendable {
    /// An action of the caller, to be carried out in order.
    public enum Effect: Hashable, Sendable {
        /// Send the message on the link to this node. Without a link it is lost, and need not be kept.
        case send(MembershipMessage, to: NodeID)
        /// A member is new, or its generation, its state or its draining has changed. A larger generation means that the earlier process is
        /// gone.
        case changed(Peer, MemberState, isDraining: Bool)
        /// Open a link, unless there is one.
        case connect(Peer)
        /// This node was declared dead, and has refuted it. Others may have decided about its slots meanwhile.
        case wasMissed
        /// A later process runs under this node's ID. This process is not a member any more.
        case superseded(by: Peer)
    }

    /// The way in which a link ended.
    public enum LinkLoss: Sendable {
        /// The connection broke. The peer's process may be gone.
        case reset
        /// The member's host refused the connection, because no process listens there.
        ///
        /// The attempt started when this generation was the newest known. A process listens before it has a generation, so the process of
        /// that generation is gone. A newer process may have started meanwhile.
        case refused(generation: UInt64)
        /// The peer did not answer in time.
        case silent
    }

    /// Counts since the start, for the metrics.
    public struct Counters: Equatable, Sendable {
        public var probes: UInt64 = 0
        public var probesFailed: UInt64 = 0
        /// Suspicions of other members that started here or arrived from others.
        public var suspicions: UInt64 = 0
        /// Deaths that this node declared itself.
        public var deathsDeclared: UInt64 = 0
        /// Updates about its own suspicion or death that this node refuted.
        public var refutations: UInt64 = 0
        /// Updates ignored because their incarnation or generation was not plausible, or there were too many members.
        public var rumoursRefused: UInt64 = 0
        /// Updates that this node could not refute, because its incarnation is used up.
        public var incarnationsExhausted: UInt64 = 0
        /// Ticks that came too late.
        public var sleeps: UInt64 = 0
    }

    struct Member {
        var card: Peer
        /// The state; nil as long as only the address is known.
        var state: MemberState?
        var incarnation: UInt64 = 0
        var isDraining = false
        var accuser: NodeID?
        /// The generation that was dead because its address refused connections.
        ///
        /// If it is alive after all, another program refuses in its place. Then a refusal does not count again before a link to the member
        /// was up.
        var refusedGeneration: UInt64 = 0
        /// The last update that this process is dead, if a newer one says that it is alive.
        ///
        /// Until the process learns of it, it goes on as the owner of slots that others have decided about since.
        var deathRefuted: Rumour?
        var changedAt: Instant
        /// The time of the last message that the member itself sent.
        var heardAt = Instant(nanoseconds: .min)
        /// The member's index in ``Membership/live``; -1 if it is not live.
        var livePlace = -1
        /// The member's part of ``Membership/digest``.
        var fingerprint: UInt64 = 0
        /// Whether the entry is free for another member.
        var isVacant = false

        /// The update of a member whose state is known.
        var rumour: Rumour {
            Rumour(member: card, incarnation: incarnation, state: state ?? .alive, isDraining: isDraining, accuser: accuser)
        }
    }

    /// This node's index in ``table``.
    static let ownPlace = 0

    let settings: Settings
    public internal(set) var counters = Counters()
    /// Lifeguard's local health multiplier, from 0 (well) to ``Settings/localHealthMax``. Timeouts and intervals are multiplied by this +
    /// 1.
    public internal(set) var localHealth = 0
    /// The effects that the caller has not taken yet, in order.
    var effects: [Effect] = []

    var random: SplitMix64
    /// All known members: this node first, the others in the order of arrival. Free entries are used again.
    var table: [Member] = []
    var vacant: [Int] = []
    var places: [NodeID: Int] = [:]
    /// The indices of the other members that are alive or suspect, in no particular order.
    var live: [Int] = []
    /// The XOR of the fingerprints of all live members.
    var digest: UInt64 = 0
    var queue = RumourQueue()

    var probes: [Probe] = []
    var relays: [Relay] = []
    var suspicions: [Suspicion] = []
    var sequence: UInt64
    /// The members of this probe round, in the order of the probes.
    var round: [Int] = []
    var roundPosition = 0

    /// The largest generation of this node's ID in any update, beyond its own.
    var generationMax: UInt64 = 0
    /// The others have declared this node dead in incarnations below this one, and this node knows it.
    var deathsHeard: UInt64 = 0

    var lastTick: Instant?
    var nextProbeAt: Instant = .farFuture
    var nextGossipAt: Instant = .farFuture
    var nextExchangeAt: Instant = .farFuture
    var nextReconnectAt: Instant = .farFuture
    var nextSweepAt: Instant = .farFuture
    /// The time of the next exchange because of a new link. Such exchanges are at least a second apart.
    var nextLinkExchangeAt = Instant(nanoseconds: .min)

    /// - Parameters:
    ///   - own: this node, as the others see it.
    ///   - seed: the seed of all random numbers. Each node must have another one.
    public init(own: Peer, settings: Settings, seed: UInt64) {
        self.settings = settings
        random = SplitMix64(seed: seed)
        sequence = random.next() >> 32
        table = [Member(card: own, state: .alive, changedAt: Instant(nanoseconds: 0))]
        places[own.id] = Self.ownPlace
        refreshFingerprint(Self.ownPlace)
        queue.insert(Self.ownPlace)
    }

    /// Returns the effects since the last call, in order.
    public mutating func takeEffects() -> [Effect] {
        effects.takeAll()
    }

    // MARK: Inputs

    /// Records a node from a hello or a contact point (generation 0 if unknown). It is a node to link to, not yet a member.
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

    /// Records that a link is up and that the peer has sent its identity: a sign of life.
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

    /// Records a message on the member's own link. The member is alive, even if packet loss delays its acks or our probes.
    mutating func heard(from id: NodeID, at now: Now) {
        if let place = places[id] { table[place].heardAt = now.instant }
    }

    /// The notice to a member that it was declared dead; nil if its present process never came back from that. The member counts each death
    /// once.
    func deathNotice(to id: NodeID) -> MembershipMessage? {
        places[id].flatMap { table[$0].deathRefuted }.map { MembershipMessage(.gossip, rumours: [$0]) }
    }

    /// Records that the member's address has answered. A refusal counts again from now on.
    mutating func reached(_ id: NodeID) {
        if let place = places[id] { table[place].refusedGeneration = 0 }
        // A notice on an earlier link may be lost.
        if let notice = deathNotice(to: id) { effects.append(.send(notice, to: id)) }
        // A node that has just started must not count on a node that drains.
        if table[Self.ownPlace].isDraining { send(.gossip, to: id, first: [Self.ownPlace]) }
    }

    /// Records that a link is down, or could not be opened.
    ///
    /// `.refused` is direct evidence: the member is dead at once, and this node announces it. The other reasons start a probe.
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

    /// Advances the time. Call it every 20–50 ms.
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

    /// Starts to drain: this node gives its slots to others, and stays a member.
    public mutating func drain(at now: Now) {
        guard !table[Self.ownPlace].isDraining else { return }
        restate(.alive, isDraining: true, at: now)
        announce(Self.ownPlace, to: settings.announceFanOut)
    }

    /// Removes a dead member for good, because an operator says that it will not come back. It then counts as left.
    ///
    /// If it is alive after all, it refutes. A member that is not dead is not changed.
    mutating func forget(_ card: Peer, at now: Now) {
        guard let place = places[card.id] ?? add(card, at: now), table[place].state?.isLive != true, table[place].state != .left else {
            return
        }
        adopt(Rumour(member: table[place].card, incarnation: table[place].incarnation, state: .left), at: place, now)
        announce(place, to: 4 * settings.announceFanOut)
    }

    /// Leaves the cluster. The others do not count this node towards the quorum any more. Send the effects, then end.
    public mutating func leave(at now: Now) {
        guard table[Self.ownPlace].state != .left else { return }
        restate(.left, isDraining: table[Self.ownPlace].isDraining, at: now)
        announce(Self.ownPlace, to: 4 * settings.announceFanOut)
    }
}
