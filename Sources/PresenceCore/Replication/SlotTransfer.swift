import PresenceWire

/// Moves the rows of slots between nodes when the ring changes.
///
/// Each node offers every peer the hashes of the slots that the peer keeps. The peer requests the slots that differ, a page at a time, and
/// reports when all of them are on its disk. ``Ownership`` decides what follows. This type composes the messages, and
/// ``Composition/perform(_:at:)`` carries out the outputs.
///
/// Each function returns the outputs that follow. The caller carries them out in order, each with those that follow from it.
enum SlotTransfer {
    // MARK: The ring

    /// Asks the shell for the ring of the members.
    static func computeRing(_ cluster: inout Cluster) {
        cluster.outbox.effects.append(.computeRing(cluster.peers.ringMembers(isDraining: cluster.isDraining)))
    }

    /// Changes the ring, and starts its transfer.
    static func change(to new: Placement, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        let old = cluster.placement
        owner.ringChanged(nodesCount: max(new.ring.members.count, 1))
        if cluster.ownership.change(to: new, clock: owner.clock.current(at: now.wall), at: now) {
            for peer in cluster.peers.others { cluster.send(.requestOffer, to: peer) }
        }
        return begin(&owner, &cluster, at: now) + [.changed(from: old, to: new)]
    }

    /// Asks all members again by the present ring.
    static func restart(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        cluster.ownership.beginTransfer(isDemoted: false, clock: owner.clock.current(at: now.wall), at: now)
        return begin(&owner, &cluster, at: now)
    }

    /// Offers each linked peer the slots that it keeps by the prepared ring, if there is one.
    static func offerPrepared(_ owner: borrowing Owner, _ cluster: inout Cluster) {
        if let next = cluster.ownership.ring.preparation?.placement { offerAll(by: next, .prepared, owner, &cluster) }
    }

    /// Starts a transfer: every user gets its role, and all members are asked.
    static func begin(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        owner.reassign(roles(cluster), in: &cluster.outbox[at: now])
        offerAll(by: cluster.placement, .present, owner, &cluster)
        requestFromAll(owner, &cluster)
        return advance(&cluster, at: now)
    }

    /// Activates slots about which all members have answered, or whose wait has ended. Called at every tick.
    static func advance(_ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        let (alive, missingCount) = (cluster.peers.alive, cluster.peers.missedCount)
        return cluster.ownership.advance(alive: alive, hasAlive: !alive.isEmpty, missingCount: missingCount, at: now)
    }

    /// Takes part if others prepare the ring that this node already uses.
    static func joinPreparation(_ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        cluster.ownership.joinPreparation(peers: cluster.peers.indices, at: now).map { [$0] } ?? []
    }

    /// Changes the ring if all nodes are prepared.
    static func advancePreparation(_ cluster: inout Cluster, at now: Now) -> [Ownership.Output] {
        guard cluster.ownership.ring.preparation != nil else { return [] }
        return cluster.ownership.advancePreparation(alive: cluster.peers.alive, at: now)
    }

    /// Receives the computed ring of the members.
    static func ringComputed(_ ring: Ring, _ cluster: inout Cluster, at now: Now) -> Ownership.Output {
        let peers = cluster.peers
        let next = Placement(ring: ring) { peers.index(of: $0) ?? 0 }
        return cluster.ownership.ringComputed(next, peersCount: peers.count, isAlive: { peers[$0].isAlive }, at: now)
    }

    // MARK: Offers

    /// Offers a peer the hashes of the slots that the peer keeps.
    static func offer(
        to peer: PeerIndex, by placement: Placement, _ which: Ownership.Transfer, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        var held: [SlotHash] = []
        owner.users.forEachSlot { slot, hash in
            if placement.isKept(slot, by: peer) { held.append(SlotHash(slot: slot, hash: hash)) }
        }
        let (ring, offerSequence) = cluster.ownership.withTransfer(which) { ($0.ring, $0.offerSequence) }
        var start = 0
        repeat {
            let end = min(start + Message.offerSlotsMax, held.count)
            let (page, isLast) = (Array(held[start..<end]), end == held.count)
            cluster.send(.offer(ring: ring, offerSequence: offerSequence, page, isFirst: start == 0, isLast: isLast), to: peer)
            start = end
        } while start < held.count
    }

    /// Offers every linked peer the slots that it keeps by a ring.
    static func offerAll(by placement: Placement, _ which: Ownership.Transfer, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        for peer in cluster.peers.others where cluster.links.isUp(peer) { offer(to: peer, by: placement, which, owner, &cluster) }
    }

    /// Starts offers and requests again on both sides, because they may be lost with the earlier link.
    static func renewOffers(to peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        offer(to: peer, by: cluster.placement, .present, owner, &cluster)
        cluster.ownership.withTransfer(.present) { $0.restart(peer) }
        request(from: peer, owner, &cluster)
        if cluster.ownership.transfer.isWritten { cluster.send(cluster.ownership.transfer.transferComplete(to: peer), to: peer) }
        guard let next = cluster.ownership.preparedPlacement(for: peer) else { return }
        offer(to: peer, by: next, .prepared, owner, &cluster)
        cluster.ownership.withTransfer(.prepared) { $0.restart(peer) }
        if cluster.ownership.prefetch.isComplete { cluster.send(cluster.ownership.prefetch.transferComplete(to: peer), to: peer) }
    }

    /// Repeats this node's offer to a peer that has lost it.
    static func onRequestOffer(from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        guard cluster.links.isUp(peer) else { return }
        offer(to: peer, by: cluster.placement, .present, owner, &cluster)
        if cluster.ownership.transfer.isWritten { cluster.send(cluster.ownership.transfer.transferComplete(to: peer), to: peer) }
    }

    /// Handles a peer's offer of slots of the present ring, or of the prepared one.
    static func onOffer(
        _ slots: [SlotHash], ring: UInt64, offerSequence: UInt64, isFirst: Bool, isLast: Bool, from peer: PeerIndex,
        _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) -> [Ownership.Output] {
        let which = Ownership.transfer(of: ring)
        if which == .present { cluster.ownership.changed(peer, to: ring, at: now) }
        cluster.ownership.withTransfer(which) {
            $0.offered(slots, ring: ring, offerSequence: offerSequence, isFirst: isFirst, isLast: isLast, by: peer)
        }
        if which == .prepared { return joinPreparation(&cluster, at: now) }
        request(from: peer, owner, &cluster)
        return advance(&cluster, at: now)
    }

    // MARK: Requests

    /// Requests the next slots that differ.
    static func request(from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        let (users, placement) = (owner.users, cluster.placement)
        let wanted = cluster.ownership.withTransfer(.present) {
            $0.next(from: peer, isPaced: false, isOwned: { placement.owner(of: $0) == 0 }) { users.wants($0, by: placement) }
        }
        if !wanted.isEmpty { cluster.send(.fetch(ring: cluster.ownership.transfer.ring, wanted), to: peer) }
    }

    /// Requests the next slots that differ from every peer.
    static func requestFromAll(_ owner: borrowing Owner, _ cluster: inout Cluster) {
        for peer in cluster.peers.others { request(from: peer, owner, &cluster) }
    }

    /// Requests the next slots of the prepared ring: a share at each tick, because no user waits for it.
    static func fetchPrepared(_ owner: borrowing Owner, _ cluster: inout Cluster) {
        guard let next = cluster.ownership.ring.preparation?.placement else { return }
        let users = owner.users
        for peer in cluster.peers.others {
            let wanted = cluster.ownership.withTransfer(.prepared) {
                $0.next(from: peer, isPaced: true, isOwned: { _ in true }) { users.wants($0, by: next) }
            }
            if !wanted.isEmpty { cluster.send(.fetch(ring: cluster.ownership.prefetch.ring, wanted), to: peer) }
        }
    }

    /// Sends a peer a page of requested rows, and then the number of complete slots.
    static func onFetch(_ slots: [Slot], ring: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        var rows: [Row] = []
        var slotsCount = 0
        for slot in slots where rows.count < Handoff.rowsSentMax {
            rows += owner.users.rows(of: slot)
            slotsCount += 1
        }
        cluster.send(rows, to: peer)
        cluster.send(.sent(ring: ring, slotsCount: slotsCount), to: peer)
    }

    /// Handles the end of a page. Slots without room are requested again.
    static func onSent(
        slotsCount: Int, ring: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) -> [Ownership.Output] {
        let which = Ownership.transfer(of: ring)
        let (unsent, present) = cluster.ownership.withTransfer(which) { ($0.sent(slotsCount, ring: ring, by: peer), $0.ring) }
        if which == .prepared {
            if !unsent.isEmpty { cluster.send(.fetch(ring: ring, unsent), to: peer) }
            return []
        }
        if unsent.isEmpty { request(from: peer, owner, &cluster) } else { cluster.send(.fetch(ring: present, unsent), to: peer) }
        return advance(&cluster, at: now)
    }

    // MARK: Completion

    /// Records that a peer has all rows of a ring on its disk.
    static func onTransferComplete(
        ring: UInt64, offerSequence: UInt64, from peer: PeerIndex, _ cluster: inout Cluster
    ) -> [Ownership.Output] {
        let which = Ownership.transfer(of: ring)
        cluster.ownership.withTransfer(which) { $0.completed(ring, offerSequence: offerSequence, peer: peer) }
        return which == .present ? [.settled] : []
    }

    /// Reports that all received rows are on this node's disk, so that the other nodes need not keep them for this node.
    static func written(_ ticket: UInt64, isDurable: Bool, _ cluster: inout Cluster) -> [Ownership.Output] {
        guard cluster.ownership.withTransfer(.present, { $0.written(ticket, isDurable: isDurable) }) else { return [] }
        announceComplete(cluster.ownership.transfer, &cluster)
        return [.settled]
    }

    /// Sends each member the completion of a ring.
    static func announceComplete(_ transfer: Handoff, _ cluster: inout Cluster) {
        for peer in cluster.peers.alive { cluster.send(transfer.transferComplete(to: peer), to: peer) }
    }

    /// Offers misplaced rows to their replicas.
    ///
    /// It waits until all members have completed the earlier offers, because until then the sender of the rows uses another ring.
    static func offerMisplacedRows(_ owner: borrowing Owner, _ cluster: inout Cluster) {
        guard cluster.ownership.transfer.hasMisplacedRows, cluster.isCompleteEverywhere else { return }
        cluster.ownership.withTransfer(.present) { $0.beginOffer() }
        offerAll(by: cluster.placement, .present, owner, &cluster)
    }

    /// The slots whose rows this node deletes, in memory and on disk, once each member has its rows; nil while there are none.
    ///
    /// - A draining node keeps them, because the other nodes ask it again if they end first.
    /// - A node keeps them while another ring is awaited: the member that should keep them may be dead, and the next ring names the new
    ///   replica.
    /// - The disk must not keep them: a node that came back with them much later would revive subscriptions whose tombstones have expired
    ///   (``CoreSettings/tombstoneHorizon``).
    static func moved(_ cluster: Cluster) -> ((Slot) -> Bool)? {
        guard !cluster.isDraining, cluster.ownership.isInForce, cluster.isCompleteEverywhere, cluster.ownership.transfer.isWritten,
            !cluster.ownership.transfer.hasMisplacedRows
        else { return nil }
        return cluster.ownership.isNotKept
    }

    /// The role of this node for each slot, by the present ring.
    static func roles(_ cluster: Cluster) -> (Slot) -> Reassignment.Role {
        let ownership = cluster.ownership
        return { Reassignment.Role(owner: ownership.placement.owner(of: $0), decides: ownership.decides($0)) }
    }
}
