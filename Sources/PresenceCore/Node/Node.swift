import DequeModule
import PresenceWire

/// The deciding part of a node. It routes each input and each message to its machine, and each output to its receiver.
///
/// A message takes the same path whether the other side is this node or another one. A node is a value without I/O: inputs and the time
/// come in, effects go out in ``effects``.
public struct Node: ~Copyable {
    public typealias Effect = PresenceCore.Effect

    var machines: Composition
    /// The messages of the current batch; empty otherwise.
    private var incoming: Deque<Message> = []

    /// The members, the links and the ring.
    public var cluster: Cluster { _read { yield machines.cluster } }
    /// The users that this node owns or keeps as a replica.
    package var owner: Owner { _read { yield machines.owner } }
    /// The sessions and views of this node's clients.
    package var edge: Edge { _read { yield machines.edge } }
    /// The decisions about whose effect this node asks.
    package var unresolvedDecisionsCount: Int { machines.unresolvedDecisions.count }

    /// The effects. The caller takes them after each input.
    public var effects: [Effect] {
        _read { yield machines.cluster.outbox.effects }
        _modify { yield &machines.cluster.outbox.effects }
    }

    /// Exchanges the effects for an empty array, which keeps its memory. Returns whether there are any.
    public mutating func takeEffects(into taken: inout [Effect]) -> Bool {
        guard !machines.cluster.outbox.effects.isEmpty else { return false }
        swap(&machines.cluster.outbox.effects, &taken)
        return true
    }

    /// Counts since the start.
    public var statistics: NodeStatistics { machines.statistics }

    /// Loses facts of a user that this node keeps for another owner, which no node does by itself. For simulations.
    package mutating func lose(_ facts: LostFacts, ofReplica user: UserID) { machines.owner.lose(facts, ofReplica: user) }

    /// The condition of this machine.
    public var condition: NodeStatistics.Condition { machines.condition }

    /// - Parameters:
    ///   - selfPeer: this node's address and process.
    ///   - cluster: the cluster's name; nodes of another cluster are refused.
    ///   - gatewaysCount: 1–64.
    ///   - joins: whether there are contact points. Then this node decides nothing before it has met another one, or ``joinedNobody(at:)``.
    public init(selfPeer: Peer, cluster: String, gatewaysCount: Int, joins: Bool = false, settings: CoreSettings = CoreSettings()) {
        precondition((1...FanOut.gatewaysMax).contains(gatewaysCount), "a node has 1 to 64 gateways, not \(gatewaysCount)")
        machines = Composition(own: selfPeer, cluster: cluster, gatewaysCount: gatewaysCount, joins: joins, settings: settings)
    }

    /// Stops the process at a state of a machine that cannot occur. With `alsoUsers` it checks all users.
    package func checkInvariants(alsoUsers: Bool) { machines.checkInvariants(alsoUsers: alsoUsers) }

    /// Whether a caller's token is void, because its user was kicked after it was issued.
    public func isVoid(_ caller: Caller) -> Bool { machines.facts.kicks.isVoid(caller.user, issuedAt: caller.issuedAt) }

    // MARK: Start

    /// Loads a durable row, before any other input.
    ///
    /// Throws for a row that is too far ahead of the wall clock if there are other nodes: they would refuse all later writes of this node.
    /// A single node goes on from there.
    public mutating func load(_ row: Row, at now: Now) throws(RowError) { try machines.load(row, at: now) }

    /// Records that all rows have been loaded.
    ///
    /// - Parameter isKept: puts a row on disk at once, before any message is sent, and returns whether it is there. The row distinguishes
    /// this start from the next one if no other write comes before that.
    public mutating func loaded(at now: Now, isKept: (Row) -> Bool) { machines.loaded(at: now, isKept: isKept) }

    // MARK: Links

    /// The first message of this node on a connection that it has opened.
    public mutating func greeting(at now: Now) -> Hello { machines.cluster.greeting(at: now) }

    /// The reason to refuse the node of a `hello`; nil if it is accepted.
    public func refusal(of hello: Hello, at now: Now) -> HelloRefusal? {
        machines.cluster.refusal(of: hello, driftMax: machines.owner.clock.driftMax, at: now)
    }

    /// Handles a node's hello on its link to this node. Its earlier links are void.
    ///
    /// A restarted node has lost all that it had received. It asks for it again once it can answer (``PresenceWire/Message/requestSync``).
    public mutating func greeted(by hello: Hello, at now: Now) {
        wake(at: now)
        if machines.greeted(by: hello, at: now) { run(at: now) }
    }

    /// Records that the link to a node is up, after its `hello`. Both sides send one another everything again.
    public mutating func linked(to hello: Hello, at now: Now) {
        wake(at: now)
        if machines.linked(to: hello, at: now) { run(at: now) }
    }

    /// Records that a linked node reads requests with traces (``PresenceWire/Message/traced(_:_:)``), until its link is down.
    public mutating func takesTraces(_ id: NodeID) {
        if let peer = machines.cluster.peers.index(of: id) { machines.cluster.links[peer].takeTraces() }
    }

    /// Records that the link to a node is down. Its queue is void.
    public mutating func unlinked(from id: NodeID, evidence: Membership.LinkLoss, at now: Now) {
        wake(at: now)
        if machines.unlinked(from: id, evidence: evidence, at: now) { run(at: now) }
    }

    /// Records that the address of an unlinked node refuses connections. `card` is the process known when the attempt started.
    public mutating func refused(by card: Peer, at now: Now) {
        wake(at: now)
        if machines.refused(by: card, at: now) { run(at: now) }
    }

    /// The next batch for a peer; nil when nothing waits or enough is in flight.
    public mutating func nextBatch(for peer: PeerIndex, at now: Now) -> [UInt8]? { machines.nextBatch(for: peer, at: now) }

    /// Records that a peer has taken a batch.
    public mutating func acknowledged(by peer: PeerIndex, at now: Now) {
        machines.cluster.links[peer].acknowledge()
        machines.cluster.transmit(to: peer)
    }

    // MARK: Members and the ring

    /// Marks this node as about to end. The nodes that stay take its slots; it stays a gateway.
    ///
    /// A single node drains, too. Otherwise a node that joins and drains before this node ends would give its slots back to this node, and
    /// the slots would end with it.
    ///
    /// - Returns: ``Cluster/othersStay``.
    public mutating func drain(at now: Now) -> Bool {
        if machines.drain(at: now) { run(at: now) }
        return machines.cluster.othersStay
    }

    /// Leaves the cluster: this node ends on purpose, and does not count towards a majority any more.
    public mutating func leave(at now: Now) {
        machines.leave(at: now)
        run(at: now)
    }

    /// Removes a dead member that will not come back.
    ///
    /// Until then it counts towards a majority, and changes wait for a second disk even on the last node.
    public mutating func removeMember(_ id: NodeID, at now: Now) -> Cluster.MemberRemoval {
        let removal = machines.removeMember(id, at: now)
        if removal == .removed { run(at: now) }
        return removal
    }

    /// Records that no contact point leads to another node, so this node is the first.
    ///
    /// If former members are missing it waits for them for a while, because they may have acknowledged changes.
    public mutating func joinedNobody(at now: Now) {
        if machines.joinedNobody(at: now) { run(at: now) }
    }

    /// Receives the ring of the effect ``Effect/computeRing(_:)``. Nothing happens if the members have changed
    /// meanwhile, because another ring is on its way.
    public mutating func ringComputed(_ ring: Ring, at now: Now) {
        wake(at: now)
        if machines.ringComputed(ring, at: now) { run(at: now) }
    }

    private mutating func changePrepared(at now: Now) {
        if machines.changePrepared(at: now) { run(at: now) }
    }

    // MARK: Inputs

    /// Notices that this process stood still, before it handles an input that may have waited for it.
    ///
    /// Sockets are read before timers run, so the first input of a woken process is seldom a tick.
    private mutating func wake(at now: Now) {
        guard now.instant >= machines.cluster.membership.ticks.doubtedFrom else { return }
        machines.wake(at: now)
        run(at: now)
    }

    /// Handles a message of a gateway of this node.
    public mutating func receive(_ message: GatewayMessage, from gateway: Int, at now: Now) {
        wake(at: now)
        machines.edge.receive(message, from: gateway, machines.owner, &machines.cluster, at: now)
        run(at: now)
    }

    /// Performs an operation of a client. The answer is an effect with the same `token`, at the latest after ``CoreSettings/callTimeout``.
    ///
    /// - Parameters:
    ///   - origin: the kind of the caller's token.
    ///   - seesAll: whether the answer has whole records, whatever their visibility.
    ///   - originSession: the calling session.
    ///   - key: the key by which the client names the call; nil for a call without one.
    ///   - trace: the client's trace that the call belongs to; nil for none.
    public mutating func perform(
        _ call: Call, key: CallKey? = nil, caller: UserID, origin: Call.Origin = .caller, seesAll: Bool = false,
        originSession: OriginSession = .unknown,
        gateway: Int?,
        token: UInt64, trace: TraceContext? = nil, at now: Now
    ) {
        wake(at: now)
        machines.calls.perform(
            call, key: key, caller: caller, origin: origin, seesAll: seesAll, originSession: originSession, gateway: gateway, token: token,
            trace: trace, machines.edge, machines.owner, &machines.cluster, at: now)
        run(at: now)
    }

    /// Handles a batch of another node. A batch that cannot be read completely has no effect.
    ///
    /// - Parameter connection: the connection of the batch, from its hello on.
    ///
    /// - Returns: false if the batch is void: the sender has opened a later connection, or a later process has replaced it.
    @discardableResult
    public mutating func receive(
        batch: UnsafeRawBufferPointer, from id: NodeID, on connection: ConnectionID, at now: Now
    ) throws(DecodeError) -> Bool {
        wake(at: now)
        defer { incoming.removeAll(keepingCapacity: true) }
        guard let peer = machines.cluster.peers.index(of: id), connection == machines.cluster.links.connection(from: peer),
            connection.generation >= machines.cluster.peers[peer].peer.generation
        else { return false }
        try machines.cluster.links.read(batch, from: peer, into: &incoming)
        machines.cluster.membership.recordSignOfLife(from: id, at: now)
        machines.cluster.reach.hear(peer)
        let refusedBefore = machines.owner.counters.clocksRefused
        while let message = incoming.popFirst() {
            // This node has dropped all that a dead member held. Late messages of its links would restore parts of it. When the member is
            // back, both sides send everything again.
            if case .membership = message {} else if machines.cluster.peers[peer].state == .dead { continue }
            handle(message, from: peer, at: now)
        }
        // One of the two clocks is wrong. The sender asks the others which.
        if machines.owner.counters.clocksRefused > refusedBefore { machines.reportRefusal(to: peer, at: now) }
        run(at: now)
        changePrepared(at: now)
        return true
    }

    /// Records that the store has finished with a ticket.
    public mutating func stored(_ ticket: UInt64, isDurable: Bool, at now: Now) {
        wake(at: now)
        machines.stored(ticket, isDurable: isDurable, at: now)
        run(at: now)
    }

    /// All rows of the users of some slots, as far as this node keeps them.
    public func rows(of slots: ClosedRange<Slot>) -> [Row] { slots.flatMap { machines.owner.users.rows(of: $0) } }

    /// Receives the end of an attempt to deliver webhook events.
    public mutating func answered(_ answer: WebhookAnswer, at now: Now) {
        wake(at: now)
        machines.webhooks.answered(answer, &machines.owner, &machines.cluster, at: now)
        run(at: now)
    }

    /// Advances the time. Call it every 10–50 ms.
    ///
    /// - Parameter systemAhead: how far the system clock is ahead of the wall clock of `now` (``SteadyClock/follow(_:)``).
    public mutating func tick(at now: Now, systemAhead: Milliseconds = 0) {
        wake(at: now)
        machines.tick(at: now, systemAhead: systemAhead)
        run(at: now)
        changePrepared(at: now)
    }

    /// The next time at which a status ends by itself, a user hides, or a record that waits is pushed; far in the future for none.
    public var nextReview: Instant {
        min(machines.owner.nextDeadline, machines.calls.hides.nextEnd, machines.edge.fanOut.pacing.nextPushAt)
    }

    /// Ends what ends by itself about users, hides users, and pushes the records whose wait is over.
    ///
    /// ``tick(at:)`` does so too, but some milliseconds late. Users whose graces end in one tick get versions that differ by a counter. A
    /// viewer could tell them by that from users who hide.
    public mutating func review(at now: Now) {
        wake(at: now)
        machines.reviewUsers(at: now)
        machines.edge.pushDue(machines.owner.policies, &machines.cluster, at: now)
        run(at: now)
    }

    /// Sends every peer a sign of life, with the clock and the due digests. Call it every 250 ms.
    ///
    /// Of more than ``CoreSettings/beatPeersMax`` peers each has its turn.
    public mutating func beat(at now: Now) { machines.beat(at: now) }

    // MARK: Routing

    /// Carries out the outputs of the machines until there are none, and then writes their rows.
    mutating func run(at now: Now) {
        while true {
            machines.sendOutputs(at: now)
            if let message = machines.cluster.links.takeLocal() {
                handle(message, from: 0, at: now)
            } else if !machines.cluster.outbox.hasMessages {
                break
            }
        }
        machines.writeOutputs(at: now)
    }

    /// Handles a message of a node, this one or another.
    mutating func handle(_ message: Message, from peer: PeerIndex, at now: Now) {
        switch message {
        case .attach(let attach):
            machines.reports.onAttach(attach, from: peer, machines.facts.kicks, owner: &machines.owner, &machines.cluster, at: now)
        case .detach(let detach): machines.reports.onDetach(detach, from: peer, owner: &machines.owner, &machines.cluster, at: now)
        case .watch(let watches): machines.reports.onWatch(watches, from: peer, owner: &machines.owner, &machines.cluster, at: now)
        case .unwatch(let users): machines.reports.onUnwatch(users, from: peer, owner: &machines.owner, &machines.cluster)
        case .pendingEnds(let ends): machines.reports.onPendingEnds(ends, from: peer, owner: &machines.owner, &machines.cluster, at: now)
        case .request(let request): machines.onRequest(request, from: peer, at: now)
        case .traced(let trace, let request): machines.onTraced(trace, request, from: peer, at: now)
        case .answer(let id, let answer):
            machines.calls.onAnswer(answer, to: id, from: peer, machines.edge, machines.owner, &machines.cluster, at: now)
        case .misrouted(let users): machines.onMisrouted(users, from: peer, at: now)
        case .requestRegistered(let registrationID, let ring):
            machines.edge.onRequestRegistered(registrationID: registrationID, ring: ring, from: peer, machines.owner, &machines.cluster)
        case .registered(let registrationID, let hashes):
            machines.edge.onRegistered(hashes, registrationID: registrationID, from: peer, machines.owner, &machines.cluster)
        case .beginSync(let registrationID, let ranges):
            machines.reports.onBeginSync(Owner.Registration(id: registrationID, ranges: ranges), from: peer, owner: &machines.owner)
        case .endSync(let registrationID):
            machines.owner.endSync(from: peer, registrationID: registrationID, in: &machines.cluster.outbox[at: now])
        case .delta(let record):
            _ = machines.edge.onDelta(record, from: peer, &machines.owner, &machines.cluster, at: now)
        case .relay(let record, let targets):
            machines.edge.onRelay(record, toPassOnTo: targets, from: peer, &machines.owner, &machines.cluster, at: now)
        case .relayed(let slots):
            machines.edge.relays.onRelayed(
                slots, from: peer, machines.edge.fanOut, retryInterval: machines.cluster.settings.retryInterval, at: now)
        case .viewDigest(let ring, let first, let hashes):
            machines.edge.onViewDigest(hashes, first: Int(first), ring: ring, from: peer, machines.owner, &machines.cluster)
        case .watched(let watched): machines.edge.onWatched(watched, from: peer, &machines.owner, &machines.cluster, at: now)
        // A former owner's list may have been on its way. The current owner sends the whole list when the session is registered with it.
        case .listUpdate(let list):
            if machines.cluster.owner(of: list.user) == peer { machines.calls.onListUpdate(list, &machines.edge, &machines.cluster) }
        case .end(let session, let user, let reason): machines.edge.onEnd(session, of: user, reason, &machines.cluster)
        case .renew(let session, let user, let expiresAt): machines.edge.onRenew(session, of: user, until: expiresAt, &machines.cluster)
        case .offer(let ring, let offerSequence, let slots, let isFirst, let isLast):
            machines.onOffer(slots, ring: ring, offerSequence: offerSequence, isFirst: isFirst, isLast: isLast, from: peer, at: now)
        case .fetch(let ring, let slots): SlotTransfer.onFetch(slots, ring: ring, from: peer, machines.owner, &machines.cluster)
        case .sent(let ring, let slotsCount):
            let outputs = SlotTransfer.onSent(
                slotsCount: slotsCount, ring: ring, from: peer, machines.owner, &machines.cluster, at: now)
            machines.perform(outputs, at: now)
        case .transferComplete(let ring, let offerSequence):
            let outputs = SlotTransfer.onTransferComplete(ring: ring, offerSequence: offerSequence, from: peer, &machines.cluster)
            machines.perform(outputs, at: now)
        case .requestOffer: SlotTransfer.onRequestOffer(from: peer, machines.owner, &machines.cluster)
        case .membership(let message): machines.onMembership(message, from: peer, at: now)
        case .replicate(let ticket, let rows): machines.onReplicate(rows, ticket: ticket, from: peer, at: now)
        case .replicated(let ticket): machines.onReplicated(ticket, from: peer, at: now)
        case .askFollowed(let id, let ring, let users):
            machines.removal.onAskFollowed(users, id: id, ring: ring, from: peer, machines.owner, &machines.cluster)
        case .areFollowed(let id, let users):
            machines.removal.onAreFollowed(users, id: id, from: peer, &machines.owner, &machines.cluster, at: now)
        case .digest(let hashes): machines.repair.onDigest(hashes, from: peer, machines.owner, &machines.cluster, at: now)
        case .bucketDigest(let salt, let buckets):
            machines.repair.onBuckets(buckets, salt: salt, from: peer, machines.owner, &machines.cluster, at: now)
        case .chainApply(let apply): machines.onChainApply(apply, at: now)
        case .chainApplied(let applied): machines.chain.onApplied(applied, from: peer, &machines.owner, &machines.cluster, at: now)
        case .chainVerify(let verify):
            machines.unresolvedDecisions.onVerify(verify, from: peer, &machines.owner, &machines.cluster, at: now)
        // Even if nothing can be sent yet: the peer's earlier claims do not hold before it has sent everything again.
        case .requestSync: machines.resync(peer, at: now)
        case .clocks(let clock, let system, let wantsAnswer):
            machines.onClocks(clock, system: system, wantsAnswer: wantsAnswer, from: peer, at: now)
        case .complete(let version):
            // Later writes here are newer than any complete position that clients may have received.
            if machines.owner.accepts(version, at: now) { machines.edge.relays.onComplete(upTo: version.milliseconds, from: peer) }
        }
    }
}
