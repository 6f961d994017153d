import DequeModule
import PresenceWire

/// The deciding part of a node. It owns the machines and routes each message to its machine.
///
/// A message takes the same path whether the other side is this node or another one. A node is a value without I/O: inputs and the time
/// come in, effects go out in ``effects``.
public struct Node {
    public typealias Effect = PresenceCore.Effect

    /// The members, the links and the ring.
    public internal(set) var cluster: Cluster
    /// The users that this node owns or keeps as a replica.
    package internal(set) var owner: Owner
    /// The sessions and views of this node's clients.
    package internal(set) var edge: Edge
    var calls: Calls
    var replication = Replication()
    var repair = ReplicaRepair()
    var reports = Reports()
    var facts = SharedFacts()
    var removal = FollowedQuestions()
    /// The messages of the current batch; empty otherwise.
    private var incoming: Deque<Message> = []
    private var nextBeatPeer = 1
    private var nextExpiryAt = Instant(nanoseconds: 0)

    /// The effects. The caller takes them after each input.
    public var effects: [Effect] {
        _read { yield cluster.outbox.effects }
        _modify { yield &cluster.outbox.effects }
    }

    /// Exchanges the effects for an empty array, which keeps its memory. Returns whether there are any.
    ///
    /// The hot path of the shell: reading ``effects`` from another module copies the node.
    public mutating func takeEffects(into taken: inout [Effect]) -> Bool {
        guard !cluster.outbox.effects.isEmpty else { return false }
        swap(&cluster.outbox.effects, &taken)
        return true
    }

    /// - Parameters:
    ///   - selfPeer: this node's address and process.
    ///   - cluster: the cluster's name; nodes of another cluster are refused.
    ///   - gatewaysCount: 1–64.
    ///   - joins: whether there are contact points. Then this node decides nothing before it has met another one, or ``joinedNobody(at:)``.
    public init(selfPeer: Peer, cluster: String, gatewaysCount: Int, joins: Bool = false, settings: CoreSettings = CoreSettings()) {
        precondition((1...FanOut.gatewaysMax).contains(gatewaysCount), "a node has 1 to 64 gateways, not \(gatewaysCount)")
        self.cluster = Cluster(own: selfPeer, name: cluster, gatewaysCount: gatewaysCount, joins: joins, settings: settings)
        owner = Owner(clock: VersionClock(node: selfPeer.versionNode), settings: settings)
        edge = Edge(settings: settings)
        calls = Calls(after: self.cluster.lastTicket)
    }

    // MARK: Start

    /// Loads a durable row, before any other input.
    ///
    /// Throws for a row that is too far ahead of the wall clock if there are other nodes: they would refuse all later writes of this node.
    /// A single node goes on from there.
    public mutating func load(_ row: Row, at now: Now) throws(RowError) {
        guard !cluster.joins || owner.clock.accepts(row.version, at: now.wall) else { throw RowError(aheadOfTime: row, at: now.wall) }
        switch row.kind {
        case .member: try loadMember(row, at: now)
        case .policy: try facts.load(policy: row, &owner)
        case .kick: try facts.load(kick: row, &cluster.outbox, at: now)
        case .clock: owner.clock.observe(row.version)
        case .status, .subscription, .visibility:
            replication.noteWritten(row.user.slot)
            try owner.load(row, at: now)
        }
    }

    /// Records that all rows have been loaded.
    ///
    /// - Parameter isKept: puts a row on disk at once, before any message is sent, and returns whether it is there. The row distinguishes
    /// this start from the next one if no other write comes before that.
    public mutating func loaded(at now: Now, isKept: (Row) -> Bool) {
        if !cluster.joins { owner.renewAlone(in: cluster, at: now) }
        for message in facts.messagesAtStart(owner) { cluster.sendToGateways(message) }
        owner.restartConfirmations(at: now)
        replication.beginLease(clock: owner.clock.milliseconds(at: 0), cluster, at: now, isKept: isKept)
    }

    // MARK: Inputs

    /// Handles a message of a gateway of this node.
    public mutating func receive(_ message: GatewayMessage, from gateway: Int, at now: Now) {
        edge.receive(message, from: gateway, &owner, &cluster, at: now)
        run(at: now)
    }

    /// Performs an operation of a client. The answer is an effect with the same `token`, at the latest after ``CoreSettings/callTimeout``.
    ///
    /// - Parameters:
    ///   - origin: the kind of the caller's token.
    ///   - seesAll: whether the answer has whole records, whatever their visibility.
    ///   - originSession: the calling session; ``PresenceWire/SessionID/nobody`` for none, nil if unknown.
    public mutating func perform(
        _ call: Call, caller: UserID, origin: Call.Origin = .caller, seesAll: Bool = false, originSession: SessionID? = nil, gateway: Int,
        token: UInt64, at now: Now
    ) {
        calls.perform(
            call, caller: caller, origin: origin, seesAll: seesAll, originSession: originSession, gateway: gateway, token: token, &edge,
            &owner, &cluster,
            at: now)
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
        defer { incoming.removeAll(keepingCapacity: true) }
        var reader = WireReader(batch)
        while reader.remainingBytes > 0 { incoming.append(try reader.message()) }
        guard let peer = cluster.peers.index(of: id), connection >= cluster.links.connection(from: peer),
            connection.generation >= cluster.peers[peer].peer.generation
        else { return false }
        cluster.membership.recordSignOfLife(from: id, at: now)
        while let message = incoming.popFirst() { handle(message, from: peer, at: now) }
        run(at: now)
        changePrepared(at: now)
        return true
    }

    /// The next batch for a peer; nil when nothing waits or enough is in flight.
    public mutating func nextBatch(for peer: PeerIndex, at now: Now) -> [UInt8]? {
        cluster.links.endTransmission(to: peer)
        edge.fill(peer, &owner, &cluster)
        cluster.links.endTransmission(to: peer)
        var claim = cluster.ownership.incompleteSince
        if let named = edge.relays.namedFrom(peer) { claim = min(claim ?? named, named) }
        return cluster.links[peer].nextBatch(clock: claim ?? owner.clock.current(at: now.wall))
    }

    /// Records that a peer has taken a batch.
    public mutating func acknowledged(by peer: PeerIndex, at now: Now) {
        cluster.links[peer].acknowledge()
        cluster.transmit(to: peer)
    }

    /// Records that the store has finished with a ticket.
    public mutating func stored(_ ticket: UInt64, isDurable: Bool, at now: Now) {
        replication.stored(ticket, isDurable: isDurable, cluster.settings, at: now)
        SlotTransfer.written(ticket, isDurable: isDurable, &owner, &replication, &cluster)
        if let outcome = replication.complete(ticket, isDurable: isDurable) { owner.carryOut(outcome, &cluster) }
        run(at: now)
    }

    /// Advances the time. Call it every 10–50 ms.
    public mutating func tick(at now: Now) {
        cluster.membership.tick(at: now)
        followMembership(at: now)
        owner.tick(at: now, into: &cluster.outbox)
        owner.expireTombstones(at: now, into: &cluster.outbox)
        removal.ask(&owner, &cluster, at: now)
        cluster.outbox.writeInBulk { owner.writeRenewed(into: &$0) }
        edge.sweep(&cluster, at: now)
        expire(at: now)
        edge.retryMisrouted(&owner, &cluster, at: now)
        perform(SlotTransfer.advance(&cluster, at: now), at: now)
        SlotTransfer.fetchPrepared(owner, &cluster)
        SlotTransfer.offerMisplacedRows(owner, &cluster)
        calls.tick(&edge, &owner, &cluster, at: now)
        resyncOverflown(at: now)
        for outcome in replication.overdue(at: now) { owner.carryOut(outcome, &cluster) }
        replication.retryDisk(&cluster, at: now)
        repair.compare(owner, &cluster, at: now)
        if edge.sessions.count > 0 { replication.renewLease(clock: owner.clock.milliseconds(at: 0), &cluster, at: now) }
        edge.verifyRelayed(&owner, &cluster, at: now)
        edge.updatePosition(durable: replication.lease.durable, &owner, &cluster, at: now)
        run(at: now)
        changePrepared(at: now)
    }

    /// The next time at which a status ends by itself; far in the future for none.
    public var nextReview: Instant { owner.nextDeadline }

    /// Ends what ends by itself about users.
    ///
    /// ``tick(at:)`` does so too, but some milliseconds late. Users whose graces end in one tick get versions that differ by a counter. A
    /// viewer could tell them by that from users who hide.
    public mutating func review(at now: Now) {
        owner.tick(at: now, into: &cluster.outbox)
        run(at: now)
    }

    /// Sends every peer a sign of life, with the clock and the due digests. Call it every 250 ms.
    ///
    /// Of more than ``CoreSettings/beatPeersMax`` peers each has its turn.
    public mutating func beat(at now: Now) {
        edge.comparison.sendDigests(&owner, &cluster, at: now)
        for _ in 0..<min(cluster.peers.count - 1, cluster.settings.beatPeersMax) {
            let peer = nextBeatPeer
            nextBeatPeer = nextBeatPeer % (cluster.peers.count - 1) + 1
            guard cluster.links.isUp(peer) else { continue }
            edge.relays.nameRelayed(to: peer, &owner, &cluster)
            cluster.links[peer].beat()
            cluster.transmit(to: peer)
        }
    }

    // MARK: Routing

    /// Carries out the outputs of the machines until there are none.
    mutating func run(at now: Now) {
        while true {
            if !cluster.outbox.changes.isEmpty {
                for (record, watchers) in cluster.outbox.changes.takeAll() {
                    edge.relays.publish(record, to: watchers, &owner, &cluster, at: now)
                }
            }
            if !cluster.outbox.messages.isEmpty {
                for (peer, message) in cluster.outbox.messages.takeAll() { cluster.send(message, to: peer) }
            }
            if !cluster.outbox.lists.isEmpty {
                for (peer, user) in cluster.outbox.lists.takeAll() { edge.owe(listOf: user, to: peer, &owner, &cluster) }
            }
            if let message = cluster.links.takeLocal() {
                handle(message, from: 0, at: now)
            } else if cluster.outbox.messages.isEmpty, cluster.outbox.lists.isEmpty, cluster.outbox.changes.isEmpty {
                break
            }
        }
        for row in cluster.outbox.rowsForOwners.takeAll() { cluster.send(.replicate(ticket: 0, [row]), to: cluster.owner(of: row.user)) }
        replication.releaseBarriers(staleCount: edge.fanOut.staleCount, &cluster.outbox)
        if cluster.outbox.hasWrites || cluster.ownership.transfer.writing == .due { replication.persist(&cluster, at: now) }
        if !cluster.outbox.deletedSlots.isEmpty { effects.append(.deleteSlots(cluster.outbox.deletedSlots.takeAll())) }
        if !cluster.outbox.deletedRows.isEmpty { effects.append(.deleteRows(cluster.outbox.deletedRows.takeAll())) }
    }

    /// Handles a message of a node, this one or another.
    mutating func handle(_ message: Message, from peer: PeerIndex, at now: Now) {
        switch message {
        case .attach(let attach): reports.onAttach(attach, from: peer, owner: &owner, &cluster, at: now)
        case .detach(let detach): reports.onDetach(detach, from: peer, owner: &owner, &cluster, at: now)
        case .watch(let watches): reports.onWatch(watches, from: peer, owner: &owner, &cluster, at: now)
        case .unwatch(let users): reports.onUnwatch(users, from: peer, owner: &owner, &cluster)
        case .request(let request):
            calls.onRequest(request, from: peer, &facts, &edge, &owner, &replication, &cluster, at: now)
            edge.endSessions(of: cluster.outbox.kicked.takeAll())
        case .answer(let id, let answer): calls.onAnswer(answer, to: id, from: peer, &edge, &owner, &cluster, at: now)
        case .misrouted(let users): onMisrouted(users, from: peer, at: now)
        case .requestRegistered(let registrationID, let ring):
            edge.onRequestRegistered(registrationID: registrationID, ring: ring, from: peer, &owner, &cluster)
        case .registered(let registrationID, let hashes):
            edge.onRegistered(hashes, registrationID: registrationID, from: peer, &owner, &cluster)
        case .beginSync(let registrationID, let ranges):
            reports.onBeginSync(Owner.Registration(id: registrationID, ranges: ranges), from: peer, owner: &owner)
        case .endSync(let registrationID): owner.endSync(from: peer, registrationID: registrationID, at: now, into: &cluster.outbox)
        case .delta(let record): _ = edge.relays.onDelta(record, from: peer, &edge.fanOut, &owner, &cluster, at: now)
        case .relay(let record, let targets):
            edge.relays.onRelay(record, toPassOnTo: targets, from: peer, &edge.fanOut, &owner, &cluster, at: now)
        case .relayed(let slots):
            edge.relays.onRelayed(slots, from: peer, edge.fanOut, retryInterval: cluster.settings.retryInterval, at: now)
        case .viewDigest(let ring, let first, let hashes):
            edge.onViewDigest(hashes, first: Int(first), ring: ring, from: peer, &owner, &cluster)
        case .watched(let watched): edge.onWatched(watched, &owner, &cluster, at: now)
        // A former owner's list may have been on its way. The current owner sends the whole list when the session is registered with it.
        case .listUpdate(let list): if cluster.owner(of: list.user) == peer { calls.onListUpdate(list, &edge, &cluster) }
        case .end(let session, let user, let reason): edge.onEnd(session, of: user, reason, &cluster)
        case .offer(let ring, let offerSequence, let slots, let isFirst, let isLast):
            let outputs = SlotTransfer.onOffer(
                slots, ring: ring, offerSequence: offerSequence, isFirst: isFirst, isLast: isLast, from: peer, owner, &cluster, at: now)
            perform(outputs, at: now)
        case .fetch(let ring, let slots): SlotTransfer.onFetch(slots, ring: ring, from: peer, owner, &cluster)
        case .sent(let ring, let slotsCount):
            perform(SlotTransfer.onSent(slotsCount: slotsCount, ring: ring, from: peer, owner, &cluster, at: now), at: now)
        case .transferComplete(let ring, let offerSequence):
            SlotTransfer.onTransferComplete(ring: ring, offerSequence: offerSequence, from: peer, &owner, &replication, &cluster)
        case .requestOffer: SlotTransfer.onRequestOffer(from: peer, owner, &cluster)
        case .membership(let message):
            cluster.membership.receive(message, from: cluster.peers[peer].peer.id, at: now)
            followMembership(at: now)
        case .replicate(let ticket, let rows): onReplicate(rows, ticket: ticket, from: peer, at: now)
        case .replicated(let ticket):
            if let outcome = replication.onReplicated(ticket, from: peer) { owner.carryOut(outcome, &cluster) }
        case .askFollowed(let id, let ring, let users): removal.onAskFollowed(users, id: id, ring: ring, from: peer, owner, &cluster)
        case .areFollowed(let id, let users): removal.onAreFollowed(users, id: id, from: peer, &owner, &cluster, at: now)
        case .digest(let hashes, let wantsAnswer): repair.onDigest(hashes, wantsAnswer: wantsAnswer, from: peer, owner, &cluster)
        // Even if nothing can be sent yet: the peer's earlier claims do not hold before it has sent everything again.
        case .requestSync: resync(peer, at: now)
        case .complete(let version):
            // Later writes here are newer than any complete position that clients may have received.
            if owner.accepts(version, at: now) { edge.relays.onComplete(upTo: version.milliseconds, from: peer) }
        }
    }

    mutating func onReplicate(_ rows: [Row], ticket: UInt64, from peer: PeerIndex, at now: Now) {
        repair.onReplicate(
            rows, ticket: ticket, from: peer, staleCount: edge.fanOut.staleCount, &facts, &owner, &replication, &cluster, at: now)
        edge.endSessions(of: cluster.outbox.kicked.takeAll())
    }

    /// Handles an owner's rejection of `users`. An empty list says that it now decides about all its users.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, at now: Now) {
        if users.isEmpty {
            edge.retryMisrouted(by: peer, &owner, &cluster)
            calls.retryMisrouted(by: peer, &edge, &owner, &cluster, at: now)
        } else {
            edge.onMisrouted(users, from: peer, cluster, at: now)
            calls.onMisrouted(users, from: peer, retryInterval: cluster.settings.retryInterval, at: now)
        }
    }

    /// Removes expired facts. Called once an hour.
    private mutating func expire(at now: Now) {
        guard now.instant >= nextExpiryAt else { return }
        nextExpiryAt = now.instant + .seconds(3_600)
        facts.expireKicks(&cluster, at: now)
        remove(cluster.expiredPeers(at: now), at: now)
    }
}
