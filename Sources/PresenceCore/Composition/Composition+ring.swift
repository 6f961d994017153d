import PresenceWire

/// Changes of the ring.
///
/// A step that returns a boolean returns whether it has changed anything, so that outputs may wait.
extension Composition {
    /// Begins as the first node, because no contact point leads to another one: see ``Node/joinedNobody(at:)``.
    mutating func joinedNobody(at now: Now) -> Bool {
        guard cluster.ownership.acquiringCount > 0, !cluster.peers.hasAlive else { return false }
        if let output = cluster.ownership.foundNobody(missingCount: cluster.peers.missedCount, at: now) { perform([output], at: now) }
        perform(SlotTransfer.advance(&cluster, at: now), at: now)
        return true
    }

    /// Receives the computed ring: see ``Node/ringComputed(_:at:)``.
    mutating func ringComputed(_ ring: Ring, at now: Now) -> Bool {
        guard cluster.ownership.awaits(Placement.id(of: ring.members)) else { return false }
        let output = SlotTransfer.ringComputed(ring, &cluster, at: now)
        perform([output], at: now)
        if case .change = output {
            perform(SlotTransfer.joinPreparation(&cluster, at: now), at: now)
        } else {
            perform(SlotTransfer.advancePreparation(&cluster, at: now), at: now)
        }
        return true
    }

    /// Changes the ring if all are prepared.
    ///
    /// It is called only between two inputs: the rows of an input go to the replicas of the ring by which it was decided.
    mutating func changePrepared(at now: Now) -> Bool {
        guard cluster.ownership.ring.preparation != nil else { return false }
        perform(SlotTransfer.advancePreparation(&cluster, at: now), at: now)
        return true
    }

    /// Carries out outputs of ``Ownership`` in order, each with those that follow from it.
    mutating func perform(_ outputs: [Ownership.Output], at now: Now) {
        for output in outputs {
            switch output {
            case .computeRing: SlotTransfer.computeRing(&cluster)
            case .change(let new): perform(SlotTransfer.change(to: new, &owner, &cluster, at: now), at: now)
            case .changed(let old, let new): placementChanged(from: old, to: new, at: now)
            case .beginTransfer: perform(SlotTransfer.restart(&owner, &cluster, at: now), at: now)
            case .offerPrepared: SlotTransfer.offerPrepared(owner, &cluster)
            case .announcePrepared: SlotTransfer.announceComplete(cluster.ownership.prefetch, &cluster)
            case .listsMayLackEntries: owner.listsMayLackEntries()
            case .listsAreComplete: owner.listsBecameComplete(into: &cluster.outbox)
            case .settled: deleteMoved()
            case .activated(let isFirst): activated(isFirst: isFirst, at: now)
            }
        }
    }

    /// Deletes the rows that this node does not keep, if no other node needs them.
    mutating func deleteMoved() {
        guard let isMoved = SlotTransfer.moved(cluster) else { return }
        owner.dropUsers(where: isMoved)
        replication.deleteSlots(where: isMoved, &cluster.outbox)
    }

    /// Handles an offer of slots, which also tells the ring that the peer uses.
    mutating func onOffer(
        _ slots: [SlotHash], ring: UInt64, offerSequence: UInt64, isFirst: Bool, isLast: Bool, from peer: PeerIndex, at now: Now
    ) {
        let isOtherRing = isFirst && !cluster.ownership.transfer.isOffered(ring, by: peer)
        if isOtherRing, Ownership.transfer(of: ring) == .present { reports.rejectAll(from: peer, &cluster) }
        let outputs = SlotTransfer.onOffer(
            slots, ring: ring, offerSequence: offerSequence, isFirst: isFirst, isLast: isLast, from: peer, owner, &cluster, at: now)
        perform(outputs, at: now)
    }

    /// Moves pending writes to the replicas of the new ring, and registers users whose owner has changed.
    private mutating func placementChanged(from old: Placement, to new: Placement, at now: Now) {
        for outcome in replication.replan(&cluster) { carryOut(outcome, at: now) }
        reports.resumePostponed(facts.kicks, owner: &owner, &cluster, at: now)
        let isMoved = { (user: UserID) in new.owner(of: user) != old.owner(of: user) }
        chain.drop(where: isMoved, owner, &cluster, at: now)
        calls.hides.drop(where: isMoved)
        edge.dropMisrouted(where: isMoved)
        edge.reregister(where: isMoved, owner, &cluster)
        calls.retry(at: now) { isMoved($0.request.user) }
    }

    private mutating func activated(isFirst: Bool, at now: Now) {
        // A dead member may have gone on after all others had left.
        if isFirst, cluster.peers.missedCount > 0 { owner.distrustPositions(at: now) }
        owner.reassign(SlotTransfer.roles(cluster), in: &cluster.outbox[at: now])
        chain.reopen(owner, &cluster, at: now)
        webhooks.reopen(owner)
        if isFirst { owner.renewAlone(in: cluster, at: now) }
        reports.resumePostponed(facts.kicks, owner: &owner, &cluster, at: now)
        // Peers whose users were rejected repeat them at once.
        //
        // On each link this message follows the rejections.
        for peer in cluster.peers.indices { cluster.outbox.send(.misrouted([]), to: peer) }
    }
}
