import DequeModule
import PresenceWire

/// The deciding part of a node: routes each message to the machine that it is for, by the same path whether the other side is this
/// node or another (design §2). A value without I/O: inputs and the time go in, effects come out in ``effects``.
public struct Node {
    /// What the shell, or the simulation, is to do.
    public enum Effect: Sendable {
        /// Hand a message to a gateway of this node.
        case tell(gateway: Int, NodeMessage)
        /// Answer a client's operation.
        case answer(gateway: Int, token: UInt64, CallAnswer)
        /// Make rows durable and report with ``Node/stored(_:isDurable:at:)``. What is not urgent may be passed by what is; nothing else
        /// changes places: a ticket that is urgent is reported after all urgent ones before it, another one after all before it.
        case persist([Row], ticket: UInt64, isUrgent: Bool)
        /// Remove from the disk what it has of the users of these slots. Like an urgent write: what was to be written before goes too, what is
        /// to be written after it stays. A crash, or a disk that takes nothing, may leave some of it.
        case discard([Slot])
        /// Remove these rows from the disk where it has just these versions of them. It gives way to all that is written; a crash, or a disk that
        /// takes nothing, may leave some: they are forgotten again at the next start.
        case forget([Row])
        /// Open a link to a node that is not linked.
        case connect(Peer)
        /// The link to this peer has something to send: ask ``Node/nextBatch(for:at:)`` until it returns nil.
        case transmit(PeerIndex)
        /// A peer has become, or ceased to be, a member.
        case membership(NodeID, isAlive: Bool)
        /// Compute the ring of these members, which takes some ms, away from the event loop, and report with ``Node/placed(_:at:)``.
        case place([Ring.Member])
        /// Another process runs under this node's ID and was started later: this one is not a member any more.
        case superseded(by: Peer)
    }

    /// What this node knows of another one.
    struct PeerState {
        var peer: Peer { didSet { ringID = Placement.id(of: peer) } }
        /// What it adds to ``Placement/id`` as a member.
        private(set) var ringID: UInt64
        var link: Link
        /// The link to it is up.
        var isLinked = false
        var state = MemberState.left
        /// All that it had written up to here has been received.
        var knownUpTo: Milliseconds = 0
        /// What others pass on between this node and it.
        var relays = Relays()
        /// Counts the registrations sent to it.
        var epoch: UInt64 = 0
        /// The newest connection that it has opened to this node. Batches of an earlier one are void.
        var connection = ConnectionID(generation: 0, number: 0)
        /// What is still to be told to it when there is room.
        var registrations = Registrations()
        /// An effect asks for transmission already.
        var isTransmitting = false
        /// Records that it has sent, believed or not.
        var deltasReceived: UInt64 = 0
        /// It has been a member since this node started.
        var wasMember = false
        /// It gives its slots away and will end; a gateway until then.
        var isDraining = false
        /// It is a member: alive, or suspected but not given up.
        var isAlive: Bool { state.isLive }
        /// It ended on purpose and is not missed.
        var hasLeft: Bool { state == .left }
        /// When it was last written down; of one that was never a member, when it was met.
        var noted: Version
        /// Nobody is here: the next node that is new takes the place.
        var isVacant = false

        init(peer: Peer, link: Link, isLinked: Bool = false, state: MemberState = .left, noted: Version = .zero) {
            (self.peer, self.link, self.isLinked, self.state, self.noted) = (peer, link, isLinked, state, noted)
            ringID = Placement.id(of: peer)
        }
    }

    /// Taken by the caller after each input.
    public var effects: [Effect] = []
    public let selfPeer: Peer
    let cluster: String
    let settings: CoreSettings
    var owners: OwnerShards
    var fanOut: FanOut
    var sessions = LocalSessions()
    var calls: PendingCalls
    var membership: Membership
    var peers: [PeerState]
    var peerIndices: [NodeID: PeerIndex]
    /// The peers by ``Peer/versionNode``, as relays name them.
    var peerNumbers: [UInt32: PeerIndex]
    /// Places in ``peers`` where nobody is.
    var vacantPeers: [PeerIndex] = []
    /// Which slots this node may decide about, and by which ring.
    var ownership: Ownership
    var placement: Placement { ownership.placement }
    var gatewaysCount: Int
    var outbox = Outbox()
    /// Messages of this node to itself.
    var local: Deque<Message> = []
    /// The batch that is being done; empty otherwise.
    private var incoming: Deque<Message> = []
    /// Users whose owner said that it is not: registered again soon.
    var misrouted: [UserID] = []
    var misroutedRetryAt = Instant.farFuture
    /// The disk may have something of the users of these.
    var writtenSlots = SlotSet()
    /// Who asked whether this node has heard of a rule, while it could not say so (``PendingWrites/Write/witnessTicket``).
    var witnessed: [(peer: PeerIndex, ticket: UInt64)] = []
    /// See ``Node/postpone(_:from:)``.
    var waiting = Waiting()
    /// This node has contact points: it waits for them before it believes that it knows all.
    let joins: Bool
    var writes = PendingWrites()
    var rates = RateLimits()
    var kicks = Kicks()
    var nextForgetting = Instant(nanoseconds: 0)
    /// See ``askFollowed(at:)``.
    var followedQuestion: FollowedQuestion?
    var nextQuestionAt = Instant(nanoseconds: 0)
    var lease = ClockLease()
    var nextTicket: UInt64
    var disk = Disk()
    var nextDigestAt = Instant(nanoseconds: 0)
    var nextDigestPeer = 0
    /// Where the next answer to a digest begins: it has room for a part of what differs.
    var nextRepairRange = 0
    /// This node gives its slots away and will end.
    public var isDraining: Bool { membership.isDraining }
    /// Rows of other nodes that could not be read.
    public internal(set) var rowsRefusedCount: UInt64 = 0
    /// Digests of another node that were not like this node's.
    public internal(set) var digestDifferences: UInt64 = 0
    var viewDigests = ViewDigests()
    var relayCounters = RelayCounters()
    private var nextBeatPeer = 1
    /// Connections that this node has opened to others.
    var connectionsCount: UInt64 = 0
    var position: Milliseconds = 0
    public internal(set) var misroutedCount: UInt64 = 0
    /// Sessions opened on this node.
    public private(set) var loginsCount: UInt64 = 0

    /// - Parameters:
    ///   - selfPeer: this node's card.
    ///   - cluster: the cluster's name; nodes of another one are refused.
    ///   - gatewaysCount: 1–64.
    ///   - joins: whether there are contact points. Then nothing is decided before another node was met, or ``joinedNobody(at:)``.
    public init(selfPeer: Peer, cluster: String, gatewaysCount: Int, joins: Bool = false, settings: CoreSettings = CoreSettings()) {
        precondition((1...FanOut.gatewaysMax).contains(gatewaysCount), "a node has 1 to 64 gateways, not \(gatewaysCount)")
        self.selfPeer = selfPeer
        self.cluster = cluster
        self.settings = settings
        self.gatewaysCount = gatewaysCount
        self.joins = joins
        let clock = VersionClock(node: selfPeer.versionNode)
        owners = OwnerShards(clock: clock, settings: settings)
        fanOut = FanOut(settings: settings)
        peers = [PeerState(peer: selfPeer, link: Link(messagesMax: settings.linkMessagesMax), isLinked: true, state: .alive)]
        peerIndices = [selfPeer.id: 0]
        peerNumbers = [selfPeer.versionNode: 0]
        // An answer to the process before this one must not pass for one to this.
        nextTicket = selfPeer.generation &<< 20
        calls = PendingCalls(after: nextTicket)
        let seed = StableHash.mix(UInt64(selfPeer.versionNode), selfPeer.generation)
        membership = Membership(own: selfPeer, settings: settings.membership, seed: seed)
        ownership = Ownership(own: selfPeer, joins: joins, settings: settings)
    }

    // MARK: Inputs

    /// Takes a durable row back; before any other input.
    ///
    /// Throws for a row that is too far ahead of the wall clock, where there are other nodes: they would refuse all that this one writes
    /// after it. A node alone goes on from there.
    public mutating func load(_ row: Row, at now: Now) throws(RowError) {
        guard !joins || owners.clock.accepts(row.version, at: now.wall) else { throw RowError(aheadOfTime: row, at: now.wall) }
        switch row.kind {
        case .member: try remember(row, at: now)
        case .policy: try load(policy: row)
        case .kick: try load(kick: row, at: now)
        case .clock: owners.clock.observe(row.version)
        case .status, .subscription, .visibility:
            writtenSlots.insert(row.user.slot)
            try owners.load(row, at: now)
        }
    }

    /// A gateway of this node says something.
    public mutating func receive(_ message: GatewayMessage, from gateway: Int, at now: Now) {
        switch message {
        case .open(let attach):
            loginsCount += 1
            sessions.open(attach, gateway: gateway)
            send(.attach(attach), toOwnerOf: attach.user)
        case .close(let detach):
            sessions.close(detach.session, of: detach.user)
            send(.detach(detach), toOwnerOf: detach.user)
        case .subscribe(let users):
            let (register, deliveries) = fanOut.want(users, gateway: gateway)
            self.register(register)
            for delivery in deliveries { tell(delivery) }
        case .release(let users):
            fanOut.unwant(users, gateway: gateway, at: now)
        }
        run(at: now)
    }

    /// Another node has sent a batch. Nothing of a batch that cannot be read whole is done.
    ///
    /// - Parameter connection: the one on which the batch came, from the hello on it.
    /// - Returns: false if the batch is void: the sender has opened a later connection, or a later process has taken its place.
    @discardableResult
    public mutating func receive(
        batch: UnsafeRawBufferPointer, from id: NodeID, on connection: ConnectionID, at now: Now
    ) throws(DecodeError) -> Bool {
        defer { incoming.removeAll(keepingCapacity: true) }
        var reader = WireReader(batch)
        while reader.remainingBytes > 0 { incoming.append(try reader.message()) }
        guard let peer = peerIndices[id], connection >= peers[peer].connection, connection.generation >= peers[peer].peer.generation
        else { return false }
        membership.heard(from: id, at: now)
        while let message = incoming.popFirst() { handle(message, from: peer, at: now) }
        run(at: now)
        changePrepared(at: now)
        return true
    }

    /// Time has passed. Call every 10–50 ms.
    public mutating func tick(at now: Now) {
        membership.tick(at: now)
        followMembership(at: now)
        owners.tick(at: now, into: &outbox)
        owners.expireTombstones(at: now, into: &outbox)
        askFollowed(at: now)
        writeInBulk { owners, outbox in owners.writeRenewed(into: &outbox) }
        let dropped = fanOut.sweep(at: now)
        for (peer, users) in placement.grouped(dropped) { send(.unwatch(users), to: peer) }
        forgetOld(at: now)
        retryMisrouted(at: now)
        advanceTransfer(at: now)
        fetchPrepared()
        offerStrays()
        tickCalls(at: now)
        rates.tick(at: now.instant)
        resyncOverflown(at: now)
        failOverdueWrites(at: now)
        retryDisk(at: now)
        compareDigests(at: now)
        renewLease(at: now)
        verifyRelayed(at: now)
        updatePosition(at: now)
        run(at: now)
        changePrepared(at: now)
    }

    /// When something about a user ends by itself; far away if nothing does.
    public var nextReview: Instant { owners.nextDeadline }

    /// Ends what ends by itself about users. ``tick(at:)`` does so, too, but some milliseconds late; and users whose graces end in one tick
    /// get versions that differ by a counter, by which a viewer could tell them from users who hide.
    public mutating func review(at now: Now) {
        owners.tick(at: now, into: &outbox)
        run(at: now)
    }

    /// A proof of life is due to every peer; it carries the clock, and what is to be compared. Of very many, each has its turn. Call every
    /// 250 ms.
    public mutating func beat(at now: Now) {
        compareViews(at: now)
        for _ in 0..<min(peers.count - 1, settings.beatPeersMax) {
            let peer = nextBeatPeer
            nextBeatPeer = nextBeatPeer % (peers.count - 1) + 1
            guard peers[peer].isLinked else { continue }
            nameRelayed(to: peer)
            peers[peer].link.beat()
            transmit(peer)
        }
    }

    // MARK: Routing

    /// Carries out what the machines want until nothing is left.
    mutating func run(at now: Now) {
        while true {
            if !outbox.changes.isEmpty { for (record, watchers) in outbox.changes.takeAll() { tell(record, to: watchers, at: now) } }
            if !outbox.messages.isEmpty { for (peer, message) in outbox.messages.takeAll() { send(message, to: peer) } }
            if !outbox.lists.isEmpty { for (peer, user) in outbox.lists.takeAll() { owe(listOf: user, to: peer) } }
            if let message = local.popFirst() {
                handle(message, from: 0, at: now)
            } else if outbox.messages.isEmpty, outbox.lists.isEmpty, outbox.changes.isEmpty {
                break
            }
        }
        tellOwners()
        acknowledgeWitnessed()
        persist(at: now)
        if !outbox.discarded.isEmpty { effects.append(.discard(outbox.discarded.takeAll())) }
        if !outbox.forgotten.isEmpty { effects.append(.forget(outbox.forgotten.takeAll())) }
    }

    mutating func send(_ message: Message, to peer: PeerIndex) {
        if peer == 0 { return local.append(message) }
        guard peers[peer].isLinked else { return }
        if !peers[peer].link.append(message), let notice = membership.deathNotice(to: peers[peer].peer.id) {
            // Nothing else repeats it, and the peer must read it before it is asked anything.
            peers[peer].link.append(.membership(notice))
        }
        transmit(peer)
    }

    mutating func send(_ message: Message, toOwnerOf user: UserID) { send(message, to: owner(of: user)) }

    /// The peer that owns a user by this node's ring.
    func owner(of user: UserID) -> PeerIndex { ownership.owner(of: user) }

    private mutating func transmit(_ peer: PeerIndex) {
        guard !peers[peer].isTransmitting, peers[peer].link.isReady else { return }
        peers[peer].isTransmitting = true
        effects.append(.transmit(peer))
    }

    /// Does what a node says, this one or another.
    mutating func handle(_ message: Message, from peer: PeerIndex, at now: Now) {
        switch message {
        case .attach(let attach): onAttach(attach, from: peer, at: now)
        case .detach(let detach): onDetach(detach, from: peer, at: now)
        case .watch(let watches): onWatch(watches, from: peer, at: now)
        case .unwatch(let users): onUnwatch(users, from: peer)
        case .request(let request): onRequest(request, from: peer, at: now)
        case .requestRegistered(let epoch, let ring): onRequestRegistered(epoch: epoch, ring: ring, from: peer)
        case .registered(let epoch, let hashes): onRegistered(hashes, epoch: epoch, from: peer)
        case .beginSync(let epoch, let ranges):
            waiting.drop(from: peer) { ranges.contains($0.slot) }
            owners.beginSync(from: peer, OwnerShards.Round(epoch: epoch, ranges: ranges))
        case .endSync(let epoch): owners.endSync(from: peer, epoch: epoch, at: now, into: &outbox)
        case .delta(let record): _ = onDelta(record, from: peer, at: now)
        case .relay(let record, let targets): onRelay(record, toPassOnTo: targets, from: peer, at: now)
        case .relayed(let slots): onRelayed(slots, from: peer, at: now)
        case .viewDigest(let ring, let first, let hashes): onViewDigest(hashes, first: Int(first), ring: ring, from: peer)
        case .watched(let watched):
            for one in watched where owners.accepts(one.record?.version ?? .zero, at: now) {
                if let delivery = fanOut.receive(one, at: owners.clock.milliseconds(at: now.wall)) { tell(delivery) }
            }
        // What another one says was on its way when it was the owner: who is it now tells the whole list when the session is registered there.
        case .interest(let interest): if owner(of: interest.user) == peer { onInterest(interest) }
        case .end(let session, let user, let reason):
            sessions.end(session, of: user)
            tell(.end(session, reason: reason), mask: sessions.gateways(of: user))
        case .answer(let id, let answer): onAnswer(answer, to: id, from: peer, at: now)
        case .misrouted(let users): onMisrouted(users, from: peer, at: now)
        case .offer(let ring, let round, let slots, let isFirst, let isLast):
            onOffer(slots, ring: ring, round: round, isFirst: isFirst, isLast: isLast, from: peer, at: now)
        case .want(let ring, let slots): onWant(slots, ring: ring, from: peer)
        case .sent(let ring, let slotsCount): onSent(slotsCount: slotsCount, ring: ring, from: peer, at: now)
        case .settled(let ring, let round): onTransferComplete(ring: ring, round: round, from: peer)
        case .requestOffer: onRequestOffer(from: peer)
        case .membership(let message):
            membership.receive(message, from: peers[peer].peer.id, at: now)
            followMembership(at: now)
        case .replicate(let ticket, let rows): onReplicate(rows, ticket: ticket, from: peer, at: now)
        case .replicated(let ticket): onReplicated(ticket, from: peer)
        case .askFollowed(let id, let ring, let users): onAskFollowed(users, id: id, ring: ring, from: peer)
        case .areFollowed(let id, let users): onAreFollowed(users, id: id, from: peer, at: now)
        case .digest(let hashes, let wantsAnswer): onDigest(hashes, wantsAnswer: wantsAnswer, from: peer)
        // Also where nothing can be said to it yet: what it told is not complete before all has been said.
        case .requestSync: resync(peer, at: now)
        case .complete(let version):
            // What is written here from now on is newer than what clients may have been told is complete.
            if owners.accepts(version, at: now) { onComplete(upTo: version.milliseconds, from: peer) }
        }
    }

    private mutating func onRequest(_ request: Request, from peer: PeerIndex, at now: Now) {
        if case .explain(let other, .view) = request.operation {
            return send(.answer(id: request.id, explanation(of: request, about: other, .view, at: now)), to: peer)
        }
        if case .followers(let targets) = request.operation {
            // Some of those whom it owns may not be here yet.
            guard ownership.acquiringCount == 0 else { return send(.misrouted([request.user]), to: peer) }
            return send(.answer(id: request.id, .followers(targets.map { UInt64(owners.users.shareFollowersCount(of: $0)) })), to: peer)
        }
        // A count needs nothing that is known of the user.
        if case .countQuery(let isMade) = request.operation {
            return send(.answer(id: request.id, count(request, isMade: isMade, at: now)), to: peer)
        }
        guard decides(request.user, for: peer) else { return }
        guard request.subjects.allSatisfy({ decides($0) }) else { return send(.misrouted([request.user]), to: peer) }
        if request.operation.isDurable, let refusal = refusalOfChange(of: request.user) {
            return send(.answer(id: request.id, .refused(refusal)), to: peer)
        }
        if let seconds = waitOf(request, at: now) {
            return send(.answer(id: request.id, .tooOften(retryAfter: UInt64(seconds))), to: peer)
        }
        switch request.operation {
        // A smaller side of a split decides nothing for all.
        case .setPolicy where !peers.isMajority, .kick where !peers.isMajority:
            send(.answer(id: request.id, .refused(.unavailable)), to: peer)
        case .setPolicy(let change): setPolicy(of: String(request.user.app), change, id: request.id, from: peer, at: now)
        case .explain(let other, let part):
            send(.answer(id: request.id, explanation(of: request, about: other, part, at: now)), to: peer)
        case .kick(let reason): kick(request, reason: reason, from: peer, at: now)
        default:
            owners.perform(request, from: peer, at: now, into: &outbox)
            owners.removeBlank(request.user)
        }
    }

    /// Whether this node decides about `user` now; the sender is told to try again when it does not.
    mutating func decides(_ user: UserID, for peer: PeerIndex) -> Bool {
        if decides(user) { return true }
        if owner(of: user) != 0 { misroutedCount += 1 }
        send(.misrouted([user]), to: peer)
        return false
    }

    // MARK: Gateways

    mutating func tell(_ delivery: FanOut.Delivery) { tell(.deliver(delivery.record), mask: delivery.mask) }

    mutating func tell(_ message: NodeMessage, mask: UInt64) {
        for gateway in 0..<gatewaysCount where mask & (1 << UInt64(gateway)) != 0 {
            effects.append(.tell(gateway: gateway, message))
        }
    }

    /// Moves the time up to which everything shown here is complete: the oldest proof of life among the members, unless
    /// registrations are open (design §1.7). Events carry it as their id, so that a resumed stream misses nothing.
    private mutating func updatePosition(at now: Now) {
        // While a ring is being computed, nobody has been asked yet for what a member that is gone had written.
        guard ownership.isInForce, ownership.incompleteSince == nil else { return }
        guard fanOut.unconfirmedCount == 0, sessions.registeringCount == 0, peers.isMajority else { return }
        var oldest: Milliseconds?
        for peer in peers.indices.dropFirst() where peers[peer].isAlive { oldest = min(oldest ?? .max, peers[peer].knownUpTo) }
        let reached = min(oldest ?? now.wall, now.wall, lease.durable)
        guard reached > position else { return }
        position = reached
        fanOut.completeUpTo = reached
        // The wall clock may go back; what is written here from now on is newer all the same.
        owners.clock.observe(Version(milliseconds: position, counter: 0, node: 0))
        tell(.position(position), mask: .max)
    }

    // MARK: Links

    /// The name of a peer.
    public func peerID(_ peer: PeerIndex) -> NodeID { peers[peer].peer.id }

    /// The place of a peer, if it is known.
    public func peerIndex(_ id: NodeID) -> PeerIndex? { peerIndices[id] }

    /// The next batch for a peer; nil when nothing waits or enough is in flight.
    public mutating func nextBatch(for peer: PeerIndex, at now: Now) -> [UInt8]? {
        peers[peer].isTransmitting = false
        fill(peer)
        peers[peer].isTransmitting = false
        var claim = ownership.incompleteSince
        if let named = peers[peer].relays.namedFrom { claim = min(claim ?? named, named) }
        return peers[peer].link.nextBatch(clock: claim ?? owners.clock.current(at: now.wall))
    }

    /// A peer has taken a batch.
    public mutating func acknowledged(by peer: PeerIndex, at now: Now) {
        peers[peer].link.acknowledge()
        transmit(peer)
    }
}

/// What is asked at every tick, of the peers alone: a method of the node would be called on a copy of it.
extension [Node.PeerState] {
    /// Whether this node is on a side of a split that the others cannot be larger than: changes of a larger side are not known here.
    var isMajority: Bool { side.count * 2 > side.of }

    /// Whether this node is on a side of a split that others are larger than together.
    var isMinority: Bool { side.count * 2 < side.of }

    /// How many are on this node's side, of all who have not left.
    private var side: (count: Int, of: Int) {
        let known = indices.dropFirst().count { self[$0].wasMember && self[$0].state != .left }
        return (known - missedCount + 1, known + 1)
    }

    /// Somebody else is alive.
    var hasAlive: Bool { indices.dropFirst().contains { self[$0].isAlive } }

    /// Members that are gone without having left.
    var missedCount: Int { indices.dropFirst().count { self[$0].wasMember && self[$0].state == .dead } }

    /// Whether a change must be on a second disk: not in a cluster of one, where nobody else is missed. A node that drains and is gone is not.
    var isReplicated: Bool {
        indices.dropFirst().contains {
            let state = self[$0].state
            return self[$0].wasMember && state != .left && (!self[$0].isDraining || state.isLive)
        }
    }

    /// The ``Placement/id`` of those who are alive, and of those among them who stay; and how many these are. `isDraining` is of this node.
    func ringIDs(isDraining: Bool) -> (alive: (id: UInt64, count: Int), staying: (id: UInt64, count: Int)) {
        var alive = (id: UInt64(0), count: 0)
        var staying = alive
        for peer in indices where peer == 0 || self[peer].state.isLive {
            let id = self[peer].ringID
            alive = (alive.id ^ id, alive.count + 1)
            let stays = peer == 0 ? !isDraining : !self[peer].isDraining
            if stays { staying = (staying.id ^ id, staying.count + 1) }
        }
        return (alive, staying)
    }
}

extension Peer {
    /// The number that breaks ties between versions, and marks sessions: a hash of the node's ID.
    public var versionNode: UInt32 { UInt32(truncatingIfNeeded: StableHash.hash64(Array(id.rawValue.utf8))) }
}
