import PresenceWire

/// Carries out what ``Ownership`` decides: offers, requests and rows to other nodes, and the roles of the users.
extension Node {
    /// Whether this node decides about a user now.
    func decides(_ user: UserID) -> Bool { ownership.decides(user.slot) }

    /// The other members.
    var alivePeers: [PeerIndex] { peers.indices.dropFirst().filter { peers[$0].isAlive } }

    /// Former members that are dead.
    var missingCount: Int { peers.missedCount }

    /// No contact point leads to another node: this one is the first. Where former members are missing, it waits for them for a while, because
    /// they may have what was acknowledged.
    public mutating func joinedNobody(at now: Now) {
        guard ownership.acquiringCount > 0, !peers.hasAlive else { return }
        if let output = ownership.foundNobody(missingCount: missingCount, at: now) { perform(output, at: now) }
        advanceTransfer(at: now)
        run(at: now)
    }

    /// Carries out one output.
    mutating func perform(_ output: Ownership.Output, at now: Now) {
        switch output {
        case .computeRing: effects.append(.place(ringMembers))
        case .change(let placement): changePlacement(to: placement, at: now)
        case .beginTransfer: beginTransfer(isDemoted: false, at: now)
        case .offerPrepared:
            guard let next = ownership.ring.preparation?.placement else { return }
            for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer, by: next, .prepared) }
        case .announcePrepared: announceComplete(ownership.prefetch)
        case .listsMayLackEntries: owners.isUnheard = true
        case .listsAreComplete: owners.noteHeard(into: &outbox)
        case .activated(let isFirst): activated(isFirst: isFirst, at: now)
        }
    }

    // MARK: The ring

    /// Asks all members again, by the present ring.
    mutating func beginTransfer(isDemoted: Bool, at now: Now) {
        ownership.beginTransfer(isDemoted: isDemoted, clock: owners.clock.current(at: now.wall), at: now)
        offerAll(at: now)
    }

    /// The transfer has just begun.
    private mutating func offerAll(at now: Now) {
        owners.reassign(roles, at: now, into: &outbox)
        for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer, by: ownership.placement, .present) }
        for peer in peers.indices.dropFirst() { request(from: peer) }
        advanceTransfer(at: now)
    }

    private var roles: (Slot) -> Reassignment.Role {
        let ownership = ownership
        return { Reassignment.Role(owner: ownership.placement.owner(of: $0), decides: ownership.decides($0)) }
    }

    /// Makes a ring the present one: writes go to its replicas, and the users whose owner is another one are registered there.
    mutating func changePlacement(to new: Placement, at now: Now) {
        let old = ownership.placement
        owners.nodesCount = max(new.ring.members.count, 1)
        if ownership.change(to: new, clock: owners.clock.current(at: now.wall), at: now) {
            for peer in peers.indices.dropFirst() { send(.requestOffer, to: peer) }
        }
        offerAll(at: now)
        var ticket = nextTicket
        for write in writes.replan(nextTicket: &ticket, { [self] in keepers(of: $0) }) {
            replicate(write.rows, ticket: write.replicaTicket)
        }
        nextTicket = ticket
        for outcome in writes.forget(where: { [peers] in !peers[$0].isAlive }) { carryOut(outcome) }
        resumeWaiting(at: now)
        let isMoved = { (user: UserID) in new.owner(of: user) != old.owner(of: user) }
        misrouted.removeAll(where: isMoved)
        reregister(where: isMoved)
        retryRequests(at: now) { isMoved($0.request.user) }
    }

    /// The ring of the effect ``Effect/place(_:)``. If the members have changed meanwhile nothing happens: another one is on its way.
    public mutating func placed(_ ring: Ring, at now: Now) {
        guard ownership.awaits(Placement.id(of: ring.members)) else { return }
        let next = Placement(ring: ring) { peerIndices[$0] ?? 0 }
        let output = ownership.ringComputed(next, peersCount: peers.count, isAlive: { [peers] in peers[$0].isAlive }, at: now)
        perform(output, at: now)
        if case .change = output { joinPreparation(at: now) } else { advancePreparation(at: now) }
        run(at: now)
    }

    // MARK: Transfers

    /// Offers a peer what this node holds of the slots that the peer is to keep.
    mutating func offer(to peer: PeerIndex, by placement: Placement, _ which: Ownership.Transfer) {
        var held: [SlotHash] = []
        owners.users.forEachSlot { slot, hash in
            if placement.isKept(slot, by: peer) { held.append(SlotHash(slot: slot, hash: hash)) }
        }
        let (ring, round) = ownership.withTransfer(which) { ($0.ring, $0.round) }
        var start = 0
        repeat {
            let end = min(start + Message.offerSlotsMax, held.count)
            let (page, isLast) = (Array(held[start..<end]), end == held.count)
            send(.offer(ring: ring, round: round, page, isFirst: start == 0, isLast: isLast), to: peer)
            start = end
        } while start < held.count
    }

    /// The link to a peer is new, so that offers and requests may be lost: both sides begin again.
    mutating func renewOffers(to peer: PeerIndex) {
        offer(to: peer, by: ownership.placement, .present)
        ownership.withTransfer(.present) { $0.restart(peer) }
        request(from: peer)
        if ownership.transfer.isWritten { send(ownership.transfer.transferComplete(to: peer), to: peer) }
        guard let next = ownership.preparedPlacement(for: peer) else { return }
        offer(to: peer, by: next, .prepared)
        ownership.withTransfer(.prepared) { $0.restart(peer) }
        if ownership.prefetch.isComplete { send(ownership.prefetch.transferComplete(to: peer), to: peer) }
    }

    /// A peer has lost what this node offered.
    mutating func onRequestOffer(from peer: PeerIndex) {
        guard peers[peer].isLinked else { return }
        offer(to: peer, by: ownership.placement, .present)
        if ownership.transfer.isWritten { send(ownership.transfer.transferComplete(to: peer), to: peer) }
    }

    mutating func onOffer(_ slots: [SlotHash], ring: UInt64, round: UInt64, isFirst: Bool, isLast: Bool, from peer: PeerIndex, at now: Now)
    {
        let which = Ownership.transfer(of: ring)
        if which == .present { ownership.changed(peer, to: ring, at: now) }
        ownership.withTransfer(which) { $0.offered(slots, ring: ring, round: round, isFirst: isFirst, isLast: isLast, by: peer) }
        if which == .prepared { return joinPreparation(at: now) }
        request(from: peer)
        advanceTransfer(at: now)
    }

    /// Requests the next slots that differ.
    mutating func request(from peer: PeerIndex) {
        let (users, placement) = (owners.users, ownership.placement)
        let wanted = ownership.withTransfer(.present) {
            $0.next(from: peer, isPaced: false, isOwned: { placement.owner(of: $0) == 0 }) { users.wants($0, by: placement) }
        }
        if !wanted.isEmpty { send(.want(ring: ownership.transfer.ring, wanted), to: peer) }
    }

    /// A peer requests slots: it is sent a page of rows, then how many of the slots these were.
    mutating func onWant(_ slots: [Slot], ring: UInt64, from peer: PeerIndex) {
        var rows: [Row] = []
        var slotsCount = 0
        for slot in slots where rows.count < Handoff.rowsSentMax {
            rows += owners.users.rows(of: slot)
            slotsCount += 1
        }
        send(rows, to: peer)
        send(.sent(ring: ring, slotsCount: slotsCount), to: peer)
    }

    /// Counts the rows that were requested. Rows of other slots, which are written meanwhile, are no part of the transfer.
    mutating func countMoved(_ rows: [Row], from peer: PeerIndex) {
        guard ownership.awaits(peer) else { return }
        for row in rows where ownership.awaits(row.user.slot, from: peer) { ownership.withTransfer(.present) { $0.count(row) } }
    }

    mutating func onSent(slotsCount: Int, ring: UInt64, from peer: PeerIndex, at now: Now) {
        let which = Ownership.transfer(of: ring)
        let (unsent, present) = ownership.withTransfer(which) { ($0.sent(slotsCount, ring: ring, by: peer), $0.ring) }
        if which == .prepared {
            if !unsent.isEmpty { send(.want(ring: ring, unsent), to: peer) }
            return
        }
        if unsent.isEmpty { request(from: peer) } else { send(.want(ring: present, unsent), to: peer) }
        advanceTransfer(at: now)
    }

    mutating func onTransferComplete(ring: UInt64, round: UInt64, from peer: PeerIndex) {
        let which = Ownership.transfer(of: ring)
        ownership.withTransfer(which) { $0.completed(ring, round: round, peer: peer) }
        if which == .present { deleteMoved() }
    }

    /// Activates the slots about which all members have been asked, or that have waited for long enough.
    mutating func advanceTransfer(at now: Now) {
        let alive = peers.indices.dropFirst().lazy.filter { [peers] in peers[$0].isAlive }
        for output in ownership.advance(alive: alive, hasAlive: peers.hasAlive, missingCount: missingCount, at: now) {
            perform(output, at: now)
        }
    }

    private mutating func activated(isFirst: Bool, at now: Now) {
        // A missing member may have gone on when all others had left.
        if isFirst, missingCount > 0 { owners.doubtPositions(at: now) }
        owners.reassign(roles, at: now, into: &outbox)
        if isFirst { renewAlone(at: now) }
        resumeWaiting(at: now)
        // Peers that were sent away meanwhile need not wait for their next attempt. This follows the message that sends them away, which may be
        // as fresh: the last offer by this ring may have come before the ring.
        for peer in peers.indices { outbox.send(.misrouted([]), to: peer) }
    }

    /// All that was received is on disk: the other nodes need not keep it for this one.
    mutating func onTransferWritten(_ ticket: UInt64, isDurable: Bool) {
        guard ownership.withTransfer(.present, { $0.written(ticket, isDurable: isDurable) }) else { return }
        announceComplete(ownership.transfer)
        deleteMoved()
    }

    /// Tells each member that this node has received all that it is to keep by a ring.
    private mutating func announceComplete(_ transfer: Handoff) {
        for peer in peers.indices.dropFirst() where peers[peer].isAlive { send(transfer.transferComplete(to: peer), to: peer) }
    }

    /// Offers misplaced rows to the nodes that are to keep them. It waits until all have completed what was offered before: until then their sender
    /// uses another ring.
    mutating func offerStrays() {
        guard ownership.transfer.hasStrays, isCompleteEverywhere else { return }
        ownership.withTransfer(.present) { $0.beginRound() }
        for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer, by: ownership.placement, .present) }
    }

    /// Whether each member has all that it is to keep, also of what this node has offered.
    private var isCompleteEverywhere: Bool {
        peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || ownership.transfer.isComplete(at: $0) }
    }

    /// Deletes what this node is not to keep, in memory and on disk, once each member has what it is to keep.
    ///
    /// A node that drains keeps it, because it is asked again if the others end before it does. So does a node while another ring is awaited: a
    /// member that was to keep it is gone, and the next ring says which node keeps it then. On disk, too: a node that came back with it much later
    /// would bring subscriptions back whose removals nobody remembers (``Subscriptions/tombstoneHorizon``).
    private mutating func deleteMoved() {
        guard !isDraining, ownership.isInForce, isCompleteEverywhere, ownership.transfer.isWritten, !ownership.transfer.hasStrays else {
            return
        }
        let isNotKept = ownership.isNotKept
        owners.forget(where: isNotKept)
        outbox.discarded += writtenSlots.take(where: isNotKept)
    }

    /// Whether this node decides about all the slots that it owns.
    public var isWarm: Bool { ownership.acquiringCount == 0 && ownership.isInForce }

    /// Whether everything that this node held is where it belongs: then a node that drains may end.
    public var isHandedOver: Bool {
        ownership.isStable && isCompleteEverywhere && !ownership.transfer.hasStrays
            && peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || peers[$0].link.isIdle }
    }

    // MARK: Preparation

    /// Requests the next slots of the ring that is prepared: a share at each tick, because nobody waits for it, and users wait for what the loop
    /// does besides.
    mutating func fetchPrepared() {
        guard let next = ownership.ring.preparation?.placement else { return }
        let users = owners.users
        for peer in peers.indices.dropFirst() {
            let wanted = ownership.withTransfer(.prepared) {
                $0.next(from: peer, isPaced: true, isOwned: { _ in true }) { users.wants($0, by: next) }
            }
            if !wanted.isEmpty { send(.want(ring: ownership.prefetch.ring, wanted), to: peer) }
        }
    }

    /// Takes part where others prepare the ring that this node uses already.
    mutating func joinPreparation(at now: Now) {
        if let output = ownership.joinPreparation(peers: peers.indices, at: now) { perform(output, at: now) }
    }

    /// Changes the ring where all are prepared. Called between two inputs only: what an input has written is sent to the replicas of the ring by
    /// which it was decided.
    mutating func changePrepared(at now: Now) {
        guard ownership.ring.preparation != nil else { return }
        advancePreparation(at: now)
        run(at: now)
    }

    mutating func advancePreparation(at now: Now) {
        guard ownership.ring.preparation != nil else { return }
        let alive = peers.indices.dropFirst().lazy.filter { [peers] in peers[$0].isAlive }
        for output in ownership.advancePreparation(alive: alive, at: now) { perform(output, at: now) }
    }
}
