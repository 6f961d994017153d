import PresenceWire

/// The part of a node that serves its clients: the sessions and views of its gateways, and their registrations with the owners.
package struct Edge: ~Copyable {
    /// The registrations that one peer still has to receive.
    private struct PeerState {
        /// The number of registrations sent to the peer.
        var registrationID: UInt64 = 0
        /// The users to register when the link has room.
        var registrations = Registrations()
    }

    var fanOut: FanOut
    var sessions = LocalSessions()
    /// The complete position of each peer, and the records that relays forward.
    var relays = RelayTree()
    /// Compares the views and sessions here with those that the owners know.
    var comparison = ViewComparison()
    private var peers = [PeerState()]
    /// Users whose owner does not decide about them yet. They are registered again soon.
    private(set) var misrouted: [UserID] = []
    private var misroutedRetryAt = Instant.farFuture
    /// The time up to which all views here are complete.
    private(set) var position: Milliseconds = 0
    /// Sessions opened on this node.
    private(set) var loginsCount: UInt64 = 0

    /// Most users of one registration: some 20 KiB without records.
    private static let watchesMax = 500

    init(settings: CoreSettings) { fanOut = FanOut(settings: settings) }

    /// The ID of the last registration sent to a peer.
    func registrationID(of peer: PeerIndex) -> UInt64 { peers[peer].registrationID }

    /// Whether a peer has received everything and has answered.
    func isSettled(_ peer: PeerIndex) -> Bool { peers[peer].registrations.isEmpty && !peers[peer].registrations.isComparing }

    /// Whether every registration has been answered.
    package var isComplete: Bool { fanOut.unconfirmedCount == 0 && misrouted.isEmpty }

    // MARK: Peers

    /// Adds the state of a node with a new index.
    mutating func add(_ peer: PeerIndex) {
        if peer == peers.count { peers.append(PeerState()) } else { peers[peer] = PeerState() }
        relays.add(peer)
    }

    /// Resets the state of a peer, because the link is new or gone.
    mutating func reset(_ peer: PeerIndex) {
        peers[peer].registrations.reset()
        relays.dropNames(of: peer)
    }

    // MARK: Gateways

    /// Handles a message of a gateway of this node.
    mutating func receive(_ message: GatewayMessage, from gateway: Int, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        switch message {
        case .open(let attach):
            if attach.kind == .session { loginsCount += 1 }
            sessions.open(attach, gateway: gateway)
            cluster.send(.attach(attach), toOwnerOf: attach.user)
        case .close(let detach):
            sessions.close(detach.session, of: detach.user)
            cluster.send(.detach(detach), toOwnerOf: detach.user)
        case .subscribe(let users):
            let (new, deliveries) = fanOut.subscribe(users, gateway: gateway)
            register(new, owner, &cluster)
            for delivery in deliveries { cluster.deliver(delivery) }
        case .release(let users):
            fanOut.release(users, gateway: gateway, at: now)
        }
    }

    /// Pushes the records whose wait is over (`rate.changes`). Called at every tick, and when the first one is due.
    mutating func pushDue(_ policies: Policies, _ cluster: inout Cluster, at now: Now) {
        guard fanOut.pacing.nextPushAt <= now.instant else { return }
        for delivery in fanOut.takeDue(policies, at: now.instant) { cluster.deliver(delivery) }
    }

    /// Ends the views without a subscription for a while. Called at every tick.
    mutating func sweep(_ cluster: inout Cluster, at now: Now) {
        let dropped = fanOut.sweep(at: now)
        for (peer, users) in cluster.placement.grouped(dropped) { cluster.send(.unwatch(users), to: peer) }
    }

    /// Handles an owner's end of a session.
    mutating func onEnd(_ session: SessionID, of user: UserID, _ reason: String, _ cluster: inout Cluster) {
        // The ID may be one that a user has made up: it ends no session of somebody else.
        // The owner waits for the end all the same (``EndedSession``).
        guard sessions.end(session, of: user) else {
            return cluster.send(.detach(Detach(session: session, user: user, cause: .lost)), toOwnerOf: user)
        }
        cluster.sendToGateways(.end(session, reason: reason), mask: sessions.gateways(of: user))
    }

    /// Handles a newer token of a session here, whose renewal has arrived at its user's owner.
    func onRenew(_ session: SessionID, of user: UserID, until expiresAt: Milliseconds, _ cluster: inout Cluster) {
        cluster.sendToGateways(.renew(session, until: expiresAt), mask: sessions.gateways(of: user))
    }

    /// Ends the sessions of users who were kicked.
    mutating func endSessions(of users: [UserID]) {
        for user in users { for attach in sessions.sessions(of: user) { _ = sessions.end(attach.session, of: user) } }
    }

    /// Handles an owner's answer to a registration of watches.
    ///
    /// An answer that comes before that to the last question (``resync(_:_:)``) was sent before the question arrived, and may be old.
    mutating func onWatched(_ watched: [Watched], from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        guard peer == 0 || (cluster.links.isUp(peer) && !peers[peer].registrations.isComparing) else { return }
        for one in watched where owner.accepts(one.record?.version ?? .zero, at: now) {
            if let delivery = fanOut.receive(one, at: owner.clock.milliseconds(at: now.wall)) { cluster.deliver(delivery) }
        }
    }

    /// Moves the complete position of this node: the oldest sign of life among the members.
    ///
    /// It stays while registrations are open. Events carry it as their ID, so that a resumed stream misses nothing.
    mutating func updatePosition(durable: Milliseconds, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        // While a ring is being computed, no node has been asked yet for the last writes of a dead member.
        guard cluster.ownership.isInForce, cluster.ownership.incompleteSince == nil else { return }
        guard fanOut.unconfirmedCount == 0, sessions.registeringCount == 0, cluster.peers.isMajority else { return }
        var oldest: Milliseconds?
        for peer in cluster.peers.others where cluster.peers[peer].isAlive { oldest = min(oldest ?? .max, relays.knownUpTo(peer)) }
        let complete = min(oldest ?? now.wall, now.wall, durable)
        // A stream that resumes is then sent the records that wait.
        let reached = min(complete, fanOut.pacing.pushedUpTo)
        guard reached > position else { return }
        position = reached
        fanOut.completeUpTo = reached
        // The wall clock may go back. Later writes here are newer all the same.
        owner.observe(Version(milliseconds: position, counter: 0, node: 0))
        cluster.sendToGateways(.position(position))
    }

    // MARK: Registrations

    /// Registers newly watched users with their owners, one message for each owner.
    mutating func register(_ users: [UserID], _ owner: borrowing Owner, _ cluster: inout Cluster) {
        for (peer, users) in cluster.placement.grouped(users) {
            if mayKnowLess(peer, cluster) {
                for user in users { peers[peer].registrations.append(viewOf: user) }
                fill(peer, owner, &cluster)
                continue
            }
            for start in stride(from: 0, to: users.count, by: Self.watchesMax) {
                let part = users[start..<min(start + Self.watchesMax, users.count)]
                cluster.send(.watch(part.compactMap { fanOut.watch(for: $0, withRecord: false) }), to: peer)
            }
        }
    }

    /// Registers the sessions and views of the users for which `isMoved` holds.
    mutating func reregister(where isMoved: (UserID) -> Bool, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        reregister(sessionsOf: sessions.reregister(where: isMoved), viewsOf: fanOut.unconfirm(where: isMoved), owner, &cluster)
    }

    private mutating func reregister(_ users: [UserID], _ owner: borrowing Owner, _ cluster: inout Cluster) {
        reregister(
            sessionsOf: users.filter { sessions.reregister($0) }, viewsOf: users.filter { fanOut.unconfirm($0) }, owner, &cluster)
    }

    private mutating func reregister(
        sessionsOf hosted: [UserID], viewsOf watched: [UserID], _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        for user in hosted { peers[cluster.owner(of: user)].registrations.append(sessionsOf: user) }
        for user in watched { peers[cluster.owner(of: user)].registrations.append(viewOf: user) }
        for peer in Set((hosted + watched).map { cluster.owner(of: $0) }).sorted() { fill(peer, owner, &cluster) }
    }

    /// Asks `peer` for its hashes of this node's sessions and views, to register the ranges that differ
    /// (``onRegistered(_:registrationID:from:_:_:)``).
    ///
    /// Messages on the links between the two nodes may be lost. Until the answer no record of the peer's users counts as the newest.
    mutating func resync(_ peer: PeerIndex, _ cluster: inout Cluster) {
        let placement = cluster.placement
        peers[peer].registrationID += 1
        peers[peer].registrations.compare(registrationID: peers[peer].registrationID, ring: placement.id)
        let isOwned = { (slot: Slot) in placement.owner(of: slot) == peer }
        sessions.reregister(slots: isOwned)
        fanOut.unconfirm(slots: isOwned)
        cluster.send(.requestRegistered(registrationID: peers[peer].registrationID, ring: placement.id), to: peer)
    }

    /// Registers all sessions and views of a peer's users in some ranges of slots. Those that are not named have ended.
    mutating func resync(_ peer: PeerIndex, ranges: SlotRanges, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        let placement = cluster.placement
        peers[peer].registrationID += 1
        peers[peer].registrations.begin(registrationID: peers[peer].registrationID)
        cluster.send(.beginSync(registrationID: peers[peer].registrationID, ranges: ranges), to: peer)
        let isConcerned = { (slot: Slot) in placement.owner(of: slot) == peer && ranges.contains(slot) }
        for user in sessions.reregister(slots: isConcerned) { peers[peer].registrations.append(sessionsOf: user) }
        for user in fanOut.unconfirm(slots: isConcerned) { peers[peer].registrations.append(viewOf: user) }
        fill(peer, owner, &cluster)
    }

    /// Handles an owner's hashes of this node's sessions and views: registers the ranges that differ.
    ///
    /// Only the answer to the last question on the current links counts, because nothing was lost before it.
    mutating func onRegistered(
        _ hashes: [UInt64], registrationID: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        guard let ring = peers[peer].registrations.compared(registrationID: registrationID) else { return }
        let placement = cluster.placement
        let isComparable = ring == placement.id && hashes.count == Message.digestRangesCount
        let differing = isComparable ? rangesUnlike(hashes, of: peer, by: placement) : .all
        let isEqual = { (slot: Slot) in placement.owner(of: slot) == peer && !differing.contains(slot) }
        sessions.confirm(slots: isEqual)
        for delivery in fanOut.confirm(slots: isEqual) { cluster.deliver(delivery) }
        if !differing.isEmpty { resync(peer, ranges: differing, owner, &cluster) }
    }

    /// The ranges of slots in which this node's sessions and views differ from a peer's hashes.
    private func rangesUnlike(_ hashes: [UInt64], of peer: PeerIndex, by placement: Placement) -> SlotRanges {
        let isOwned = { (slot: Slot) in placement.owner(of: slot) == peer }
        var ranges = SlotRanges()
        for (range, hash) in hashes.enumerated() {
            let slots = SlotRanges.slots(of: range)
            let own = fanOut.fullHash(of: slots, where: isOwned) ^ sessions.fullHash(of: slots, where: isOwned)
            if own != hash { ranges.insert(range) }
        }
        return ranges
    }

    /// Schedules sending a user's subscription list to a peer, as its owner.
    mutating func owe(listOf user: UserID, to peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        if peer == 0 { return cluster.send(.listUpdate(owner.list(of: user)), to: 0) }
        guard cluster.links.isUp(peer) else { return }
        peers[peer].registrations.append(listOf: user)
        fill(peer, owner, &cluster)
    }

    /// Adds views of users to the registration of a peer.
    mutating func append(viewsOf users: [UserID], to peer: PeerIndex) {
        for user in users { peers[peer].registrations.append(viewOf: user) }
    }

    /// Sends the registration of a peer, as long as its link has room.
    mutating func fill(_ peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        guard !peers[peer].registrations.isEmpty else { return }
        guard cluster.links.isUp(peer) else { return peers[peer].registrations.reset() }
        var watches: [Watch] = []
        var bytesCount = 0
        let isBehind = mayKnowLess(peer, cluster)
        while peer == 0 || cluster.links[peer].hasRoom, let next = peers[peer].registrations.next() {
            switch next {
            case .sessions(let user): if cluster.owner(of: user) == peer { attach(user, to: peer, &cluster) }
            case .view(let user):
                guard cluster.owner(of: user) == peer, var watch = fanOut.watch(for: user, withRecord: true) else { continue }
                if isBehind, case let kept = owner.record(of: user), kept.version > watch.held { watch.record = kept }
                watches.append(watch)
                bytesCount += watch.record?.privacy?.bytesCount ?? 0
                guard watches.count == Self.watchesMax || bytesCount > Link.batchBytesTarget else { continue }
                flush(&watches, to: peer, &cluster)
                bytesCount = 0
            case .list(let user): if cluster.decides(user) { cluster.send(.listUpdate(owner.list(of: user)), to: peer) }
            case .end(let registrationID):
                flush(&watches, to: peer, &cluster)
                cluster.send(.endSync(registrationID: registrationID), to: peer)
            }
        }
        flush(&watches, to: peer, &cluster)
    }

    private func flush(_ watches: inout [Watch], to peer: PeerIndex, _ cluster: inout Cluster) {
        if !watches.isEmpty { cluster.send(.watch(watches), to: peer) }
        watches.removeAll(keepingCapacity: true)
    }

    private func attach(_ user: UserID, to peer: PeerIndex, _ cluster: inout Cluster) {
        for var attach in sessions.sessions(of: user) {
            attach.record = fanOut.recordHeld(of: user)
            cluster.send(.attach(attach), to: peer)
        }
    }

    /// Whether a peer has not confirmed yet that all rows of this node's offers are on its disk.
    ///
    /// Rows that this node keeps, and published as the owner, may then be newer than the peer's answer.
    private func mayKnowLess(_ peer: PeerIndex, _ cluster: borrowing Cluster) -> Bool {
        peer != 0 && !cluster.ownership.transfer.isComplete(at: peer)
    }

    // MARK: Misrouted users

    /// Handles an owner's rejection of users: its ring or this node's is about to change, or rows are missing.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, _ cluster: borrowing Cluster, at now: Now) {
        // The users of another owner were registered with it when the ring changed here.
        let waiting = users.filter { cluster.owner(of: $0) == peer }
        if !waiting.isEmpty { misroutedRetryAt = min(misroutedRetryAt, now.instant + cluster.settings.retryInterval) }
        misrouted += waiting
    }

    /// Registers again the users that a peer has rejected, because it now decides about all its users.
    mutating func retryMisrouted(by peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        let (users, placement) = (misrouted.takeAll(), cluster.placement)
        misrouted = users.filter { placement.owner(of: $0) != peer }
        reregister(Self.distinct(users.filter { placement.owner(of: $0) == peer }), owner, &cluster)
    }

    /// Registers misrouted users again when it is time. Called at every tick.
    mutating func retryMisrouted(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard misroutedRetryAt <= now.instant else { return }
        misroutedRetryAt = .farFuture
        reregister(Self.distinct(misrouted.takeAll()), owner, &cluster)
    }

    /// Drops misrouted users for whom `isMoved` holds, because a new ring registers them with their new owner.
    mutating func dropMisrouted(where isMoved: (UserID) -> Bool) { misrouted.removeAll(where: isMoved) }

    private static func distinct(_ users: [UserID]) -> [UserID] {
        var known: Set<UserID> = []
        return users.filter { known.insert($0).inserted }
    }
}

extension Cluster {
    /// Sends a record to the gateways that subscribe to its user.
    mutating func deliver(_ delivery: FanOut.Delivery) { sendToGateways(.deliver(delivery.record), mask: delivery.mask) }
}
