import PresenceWire

/// A probe that a member has not answered yet.
struct Probe {
    let memberIndex: Int
    let sequence: UInt64
    let startedAt: Instant
    /// The time at which other members probe; far in the future once they do.
    var indirectAt: Instant
    var deadline: Instant
    var nacksExpected = 0
    var nacked: [NodeID] = []
}

/// An indirect probe that this node carries out for another node.
struct Relay {
    let memberIndex: Int
    let sequence: UInt64
    let origin: NodeID
    let originSequence: UInt64
    /// The time of the nack to the origin, which says that this node is well though the target is silent; far in the future once it is
    /// sent.
    var nackAt: Instant
    var deadline: Instant
}

/// The order in which a node probes the others: one random order after another (SWIM §4.3).
struct ProbeRound {
    private var members: [Int] = []
    private var position = 0

    var count: Int { members.count }

    /// The next member; the first of a new order of the live members when all have had their turn.
    mutating func next(of live: [Int], using random: inout SplitMix64) -> Int {
        if position >= members.count {
            members = live
            members.shuffle(using: &random)
            position = 0
        }
        defer { position += 1 }
        return members[position]
    }

    /// Adds a member at a random place among those that have not had their turn.
    mutating func insert(_ member: Int, using random: inout SplitMix64) {
        members.insert(member, at: Int.random(in: position...members.count, using: &random))
    }

    mutating func remove(_ member: Int) {
        members.removeAll { $0 == member }
        position = min(position, members.count)
    }
}

/// Probing (SWIM §3.1, §4.3) with Lifeguard's LHA-Probe (§IV.A): a node whose probes keep failing doubts its own health.
extension Membership {
    /// Most indirect probes under way for other nodes. Further ones are not carried out.
    static let relaysMax = 1_024

    /// Local health + 1, if local health is on.
    private var patience: Int { settings.additions.contains(.localHealth) ? localHealth + 1 : 1 }

    mutating func worsenHealth(by amount: Int) { localHealth = min(settings.localHealthMax, localHealth + amount) }

    private mutating func improveHealth() { localHealth = max(0, localHealth - 1) }

    // MARK: Time

    /// Extends the deadlines after a late tick.
    ///
    /// A late tick means that this process was paused. Replies may be waiting in socket buffers, so every deadline is extended by the
    /// pause.
    mutating func noticeSleep(at now: Now) {
        guard let gap = ticks.tick(at: now.instant, settings) else { return start(at: now) }
        guard settings.additions.contains(.pauses), gap > settings.tickGapMax else { return }
        counters.sleeps += 1
        heardAt += gap
        worsenHealth(by: min(settings.localHealthMax, 1 + Int(gap / settings.probeTimeout)))
        for index in probes.indices {
            probes[index].indirectAt += gap
            probes[index].deadline += gap
        }
        let earliest = now.instant + settings.probeTimeout
        for index in suspicions.indices { suspicions[index].deadline = max(suspicions[index].deadline + gap, earliest) }
    }

    /// Draws the first time of every periodic task, so that nodes do not act in step.
    private mutating func start(at now: Now) {
        nextProbeAt = now.instant + draw(settings.probeInterval)
        nextGossipAt = now.instant + draw(settings.gossipInterval)
        nextExchangeAt = now.instant + draw(settings.fullExchangeInterval)
        nextReconnectAt = now.instant + draw(settings.reconnectInterval)
        nextSweepAt = now.instant + draw(.seconds(10))
    }

    private mutating func draw(_ below: Duration) -> Duration {
        .nanoseconds(Int64.random(in: 0..<max(1, below.wholeNanoseconds), using: &random))
    }

    // MARK: Our probes

    /// Probes the next live member of this round.
    mutating func probeNext(at now: Now) {
        nextProbeAt = max(nextProbeAt + settings.probeInterval * patience, now.instant)
        guard table[Self.ownIndex].state == .alive, !live.isEmpty else { return }
        for _ in 0...probeRound.count {
            let memberIndex = probeRound.next(of: live, using: &random)
            guard table[memberIndex].liveIndex >= 0, !probes.contains(where: { $0.memberIndex == memberIndex }) else { continue }
            return probe(memberIndex, isUrgent: false, at: now)
        }
    }

    /// Probes a member now, and through others at the same time, because only the direct path may be broken.
    mutating func probeUrgently(_ memberIndex: Int, at now: Now) {
        if let index = probes.firstIndex(where: { $0.memberIndex == memberIndex }) {
            probes[index].indirectAt = min(probes[index].indirectAt, now.instant)
        } else {
            probe(memberIndex, isUrgent: true, at: now)
        }
    }

    private mutating func probe(_ memberIndex: Int, isUrgent: Bool, at now: Now) {
        counters.probes += 1
        sequence += 1
        let timeout = isUrgent ? .zero : settings.probeTimeout * patience
        let indirectAt = now.instant + timeout
        probes.append(
            Probe(
                memberIndex: memberIndex, sequence: sequence, startedAt: now.instant, indirectAt: indirectAt,
                deadline: indirectAt + settings.indirectTimeout * patience))
        sendToMember(.probe(sequence), at: memberIndex)
    }

    /// Has others probe members that have not answered, and suspects members whose time is up.
    mutating func endProbes(at now: Now) {
        guard probes.contains(where: { min($0.indirectAt, $0.deadline) <= now.instant }) else { return }
        probes.removeAll { table[$0.memberIndex].liveIndex < 0 }
        for index in probes.indices where probes[index].indirectAt <= now.instant { askOthers(index) }
        let failed = probes.filter { $0.deadline <= now.instant }
        probes.removeAll { $0.deadline <= now.instant }
        for probe in failed where table[probe.memberIndex].lastSignOfLifeAt <= probe.startedAt {
            counters.probesFailed += 1
            // If nacks are expected, only missing ones count against this node's health.
            if settings.additions.contains(.localHealth) {
                worsenHealth(by: probe.nacksExpected > 0 ? probe.nacksExpected - probe.nacked.count : 1)
            }
            suspectAfterProbe(probe.memberIndex, at: now)
        }
    }

    private mutating func askOthers(_ index: Int) {
        probes[index].indirectAt = .farFuture
        let probe = probes[index]
        let asked = randomLive(settings.indirectProbes, except: probe.memberIndex)
        probes[index].nacksExpected = asked.count
        for memberIndex in asked { sendToMember(.indirectProbe(probe.sequence, target: table[probe.memberIndex].peer.id), at: memberIndex) }
    }

    /// Receives the answer to a probe of this node, or to one that it carries out for another node.
    mutating func receiveAck(_ sequence: UInt64, from sender: NodeID) {
        if let index = probes.firstIndex(where: { $0.sequence == sequence }) {
            probes.remove(at: index)
            improveHealth()
        } else if let index = relays.firstIndex(where: { $0.sequence == sequence && table[$0.memberIndex].peer.id == sender }) {
            let relay = relays.remove(at: index)
            send(.ack(relay.originSequence), to: relay.origin)
        }
    }

    mutating func receiveNack(_ sequence: UInt64, from sender: NodeID) {
        guard let index = probes.firstIndex(where: { $0.sequence == sequence }), !probes[index].nacked.contains(sender),
            probes[index].nacked.count < probes[index].nacksExpected
        else { return }
        probes[index].nacked.append(sender)
    }

    // MARK: Probes for others

    /// Carries out a probe for `origin`, and sends a nack after 80 % of the time without an answer (Lifeguard §IV.A).
    mutating func relay(_ originSequence: UInt64, target: NodeID, for origin: NodeID, at now: Now) {
        if target == own.id { return send(.ack(originSequence), to: origin) }
        guard let memberIndex = memberIndices[target], table[memberIndex].state != nil, relays.count < Self.relaysMax else { return }
        sequence += 1
        relays.append(
            Relay(
                memberIndex: memberIndex, sequence: sequence, origin: origin, originSequence: originSequence,
                nackAt: settings.additions.contains(.localHealth) ? now.instant + settings.indirectTimeout * 4 / 5 : .farFuture,
                deadline: now.instant + settings.indirectTimeout * (settings.localHealthMax + 1)))
        sendToMember(.probe(sequence), at: memberIndex)
    }

    mutating func endRelays(at now: Now) {
        guard !relays.isEmpty else { return }
        for index in relays.indices where relays[index].nackAt <= now.instant {
            relays[index].nackAt = .farFuture
            send(.nack(relays[index].originSequence), to: relays[index].origin)
        }
        relays.removeAll { $0.deadline <= now.instant }
    }
}
