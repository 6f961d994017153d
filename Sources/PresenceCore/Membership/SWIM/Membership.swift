import PresenceWire

/// The members of the cluster, as one node sees them: SWIM (Das, Gupta, Motivala, 2002) with Lifeguard (arXiv 1707.00788).
///
/// It does no I/O, reads no clock and draws no unseeded number. Messages and the time come in; effects go out, in order.
///
/// The state of a member is its greatest ``PresenceWire/MembershipUpdate``. Nodes that have received the same updates agree, in any order.
/// Unlike in SWIM's paper, a member refutes `dead` like `suspect`, by a higher incarnation: a healed split has to undo its deaths.
///
/// An incarnation beyond ``Settings/incarnationJumpMax`` is ignored and counted. A false one within it harms only the member that it names,
/// which refutes with a higher one. A member whose incarnation is used up cannot refute until its process restarts.
public struct Membership: Sendable {
    /// An action of the caller, to be carried out in order.
    public enum Effect: Hashable, Sendable {
        /// Send the message on the link to this node. Without a link it is lost, and need not be kept.
        case send(MembershipMessage, to: NodeID)
        /// A member is new, or its generation, its state or its role has changed. A larger generation means that the earlier process is
        /// gone.
        case changed(Peer, MemberState, MemberRole)
        /// Open a link, unless there is one.
        case connect(Peer)
        /// This node was declared dead, and has refuted it. Others may have decided about its slots meanwhile.
        case wasDeclaredDead
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
        public var updatesRefused: UInt64 = 0
        /// Updates that this node could not refute, because its incarnation is used up.
        public var incarnationsExhausted: UInt64 = 0
        /// Ticks that came too late.
        public var sleeps: UInt64 = 0
    }

    /// This node's index in ``table``.
    static let ownIndex = 0

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
    var memberIndices: [NodeID: Int] = [:]
    /// The indices of the other members that are alive or suspect, in no particular order.
    var live: [Int] = []
    /// The XOR of the fingerprints of all live members.
    var membershipHash: UInt64 = 0
    var queue = UpdateQueue()

    var probes: [Probe] = []
    var relays: [Relay] = []
    var suspicions: [Suspicion] = []
    var sequence: UInt64
    var probeRound = ProbeRound()

    /// The largest generation of this node's ID in any update, beyond its own.
    var generationMax: UInt64 = 0
    /// The others have declared this node dead in incarnations below this one, and this node knows it.
    var deathsKnown: UInt64 = 0

    /// The time of the last message of any member. The time of a pause of this node does not count.
    var heardAt = Instant(nanoseconds: 0)
    var ticks = TickGaps()
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
        table = [Member(peer: own, state: .alive, changedAt: Instant(nanoseconds: 0))]
        memberIndices[own.id] = Self.ownIndex
        refreshFingerprint(Self.ownIndex)
        queue.insert(Self.ownIndex)
    }

    /// Returns the effects since the last call, in order.
    public mutating func takeEffects() -> [Effect] {
        effects.takeAll()
    }

    // MARK: Inputs

    /// Records a node from a hello or a contact point (generation 0 if unknown). It is a node to link to, not yet a member.
    public mutating func learn(_ peer: Peer, at now: Now) {
        guard peer.id != own.id, isPlausible(peer, at: now) else { return }
        guard let memberIndex = memberIndices[peer.id] else {
            guard let memberIndex = add(peer, at: now) else { return }
            return effects.append(.connect(table[memberIndex].peer))
        }
        guard peer.generation > table[memberIndex].peer.generation else { return }
        if table[memberIndex].state == nil { table[memberIndex].peer = peer }
        effects.append(.connect(peer))
    }

    /// Records that a link is up and that the peer has sent its identity: a sign of life.
    public mutating func linked(_ peer: Peer, at now: Now) {
        guard peer.id != own.id, isPlausible(peer, at: now) else { return }
        guard let memberIndex = memberIndices[peer.id] ?? add(peer, at: now) else { return }
        heardAt = now.instant
        let isNew = table[memberIndex].state == nil || peer.generation > table[memberIndex].peer.generation
        if isNew { adopt(MembershipUpdate(member: peer, incarnation: 0, state: .alive), at: memberIndex, now) }
        let isSuspect = table[memberIndex].state != .alive
        if nextLinkExchangeAt <= now.instant || live.count <= 1 {
            nextLinkExchangeAt = now.instant + .seconds(1)
            send(.digest(membershipHash), to: peer.id, first: isSuspect ? [memberIndex] : [])
        } else if isNew || isSuspect {
            send(.gossip, to: peer.id, first: [memberIndex])
        }
    }

    /// Records a message on the member's own link. The member is alive, even if packet loss delays its acks or our probes.
    mutating func recordSignOfLife(from id: NodeID, at now: Now) {
        heardAt = now.instant
        if let memberIndex = memberIndices[id] { table[memberIndex].lastSignOfLifeAt = now.instant }
    }

    /// The notice to a member that it was declared dead, or has replaced another process. The member counts each of them once.
    func notice(to id: NodeID) -> MembershipMessage? {
        memberIndices[id].flatMap { table[$0].earlier }.map { MembershipMessage(.gossip, updates: [$0]) }
    }

    /// Records that the member's address has answered. A refusal counts again from now on.
    mutating func reached(_ id: NodeID) {
        if let memberIndex = memberIndices[id] { table[memberIndex].refusedGeneration = 0 }
        repeatNotices(to: id)
    }

    /// Records that messages to the member were lost, although the link is up.
    mutating func resync(with id: NodeID) {
        repeatNotices(to: id)
        compare(with: id)
    }

    /// Repeats what a member must read before any question.
    private mutating func repeatNotices(to id: NodeID) {
        if let notice = notice(to: id) { effects.append(.send(notice, to: id)) }
        // A node that has just started must not count on a node that drains.
        if table[Self.ownIndex].incarnation > 0 { send(.gossip, to: id, first: [Self.ownIndex]) }
    }

    /// Records that a link is down, or could not be opened.
    ///
    /// `.refused` is direct evidence: the member is dead at once, and this node announces it. The other reasons start a probe.
    public mutating func unlinked(_ id: NodeID, evidence: LinkLoss, at now: Now) {
        guard let memberIndex = memberIndices[id], memberIndex != Self.ownIndex, table[memberIndex].state?.isLive == true else { return }
        switch evidence {
        case .refused(let generation):
            guard generation == table[memberIndex].peer.generation else { return }
            guard table[memberIndex].refusedGeneration != generation else { return probeUrgently(memberIndex, at: now) }
            table[memberIndex].refusedGeneration = generation
            declareDead(memberIndex, at: now)
            announce(memberIndex, to: settings.announceFanOut)
        case .reset, .silent: probeUrgently(memberIndex, at: now)
        }
    }

    /// Advances the time. Call it every 20–50 ms.
    public mutating func tick(at now: Now) {
        noticeSleep(at: now)
        noticeIsolation(at: now)
        endProbes(at: now)
        endRelays(at: now)
        endSuspicions(at: now)
        if nextProbeAt <= now.instant { probeNext(at: now) }
        if nextGossipAt <= now.instant { gossip(at: now) }
        if nextExchangeAt <= now.instant { exchangeDigests(at: now) }
        if nextReconnectAt <= now.instant { reconnect(at: now) }
        if nextSweepAt <= now.instant { forgetLongGone(at: now) }
    }

    /// Starts to drain: this node gives its slots to others, and stays a member until it ends.
    public mutating func drain(at now: Now) { take(.leaving, at: now) }

    /// Gives the slots to others while this node has a fault, and takes some back afterwards. A node that drains goes on with that.
    mutating func setImpaired(_ isImpaired: Bool, at now: Now) {
        if !isLeaving { take(isImpaired ? .impaired : .serving, at: now) }
    }

    private mutating func take(_ role: MemberRole, at now: Now) {
        guard table[Self.ownIndex].role != role, table[Self.ownIndex].state != .left else { return }
        restate(.alive, role, at: now)
        announce(Self.ownIndex, to: settings.announceFanOut)
    }

    /// Removes a dead member for good, because an operator says that it will not come back. It then counts as left.
    ///
    /// If it is alive after all, it refutes. A member that is not dead is not changed.
    mutating func removeMember(_ peer: Peer, at now: Now) {
        guard let memberIndex = memberIndices[peer.id] ?? add(peer, at: now), table[memberIndex].state?.isLive != true,
            table[memberIndex].state != .left
        else {
            return
        }
        adopt(
            MembershipUpdate(member: table[memberIndex].peer, incarnation: table[memberIndex].incarnation, state: .left), at: memberIndex,
            now)
        announce(memberIndex, to: 4 * settings.announceFanOut)
    }

    /// Leaves the cluster. The others do not count this node towards the quorum any more. Send the effects, then end.
    public mutating func leave(at now: Now) {
        guard table[Self.ownIndex].state != .left else { return }
        restate(.left, table[Self.ownIndex].role, at: now)
        announce(Self.ownIndex, to: 4 * settings.announceFanOut)
    }
}
