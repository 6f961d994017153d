import PresenceWire

/// The exchange between replicas: rows to keep, and digests by which they find and repair differences.
struct ReplicaRepair {
    private var nextDigestAt = Instant(nanoseconds: 0)
    private var nextPeer = 0
    /// The first range of the next answer to a digest. One answer has room for only a part of the differences.
    private var nextRange = 0
    /// Digests of another node that differed from this node's.
    private(set) var differences: UInt64 = 0
    /// Rows of other nodes that could not be read.
    private(set) var rowsRefusedCount: UInt64 = 0

    // MARK: Rows

    /// Handles rows of another replica. Rows that this node cannot read or accept are not acknowledged.
    ///
    /// - Parameter staleCount: the number of views here that may be outdated.
    mutating func onReplicate(
        _ rows: [Row], ticket: UInt64?, from peer: PeerIndex, staleCount: Int, _ facts: inout SharedFacts, _ owner: inout Owner,
        _ replication: inout Replication, _ cluster: inout Cluster, at now: Now
    ) {
        do throws(RowError) {
            try facts.receive(rows.filter(\.kind.isForAll), &owner, &cluster, at: now)
            let isOwned = { [ownership = cluster.ownership] (user: UserID) in ownership.decides(user.slot) }
            let rowsOfUsers = rows.filter { $0.kind.isOfUser }
            recordMisplacedRows(among: rowsOfUsers, from: peer, &cluster)
            guard let ticket else {
                countMoved(rowsOfUsers, from: peer, &cluster)
                return try cluster.outbox.writeInBulk { (outbox) throws(RowError) in
                    _ = try owner.receive(rowsOfUsers, isOwned: isOwned, isAwaited: false, at: now, into: &outbox)
                }
            }
            let isAcknowledged = try owner.receive(rowsOfUsers, isOwned: isOwned, isAwaited: true, at: now, into: &cluster.outbox)
            guard isAcknowledged else { return }
            replication.acknowledge(ticket, to: peer, isBarrier: rows.isEmpty, staleCount: staleCount, &cluster.outbox)
        } catch {
            rowsRefusedCount += 1
        }
    }

    /// Records rows that this node does not keep: their sender uses another ring, perhaps the next one.
    ///
    /// The sender relies on this node until the replicas by this node's ring have the rows (``SlotTransfer/offerMisplacedRows(_:_:)``).
    private func recordMisplacedRows(among rows: [Row], from peer: PeerIndex, _ cluster: inout Cluster) {
        let isNotKept = cluster.ownership.isNotKept
        guard peer != 0, rows.contains(where: { isNotKept($0.user.slot) }) else { return }
        // The disk may be about to delete the moved slots. Rows that arrive after that decision stay.
        cluster.outbox.deletedSlots.removeAll { slot in rows.contains { $0.user.slot == slot } }
        cluster.ownership.withTransfer(.present) { $0.recordMisplacedRows() }
    }

    /// Counts the requested rows. Rows of other slots, which are written meanwhile, are not part of the transfer.
    private func countMoved(_ rows: [Row], from peer: PeerIndex, _ cluster: inout Cluster) {
        guard cluster.ownership.awaits(peer) else { return }
        for row in rows where cluster.ownership.awaits(row.user.slot, from: peer) {
            cluster.ownership.withTransfer(.present) { $0.count(row) }
        }
    }

    // MARK: Digests

    /// Sends a digest to one of the other nodes, in turn, once in ``CoreSettings/digestInterval``.
    mutating func compare(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard now.instant >= nextDigestAt else { return }
        nextDigestAt = now.instant + cluster.settings.digestInterval
        let alive = cluster.peers.alive.filter { cluster.links.isUp($0) }
        guard !alive.isEmpty else { return }
        nextPeer = (nextPeer + 1) % alive.count
        let peer = alive[nextPeer]
        cluster.send(.digest(digest(with: peer, owner, cluster), wantsAnswer: true), to: peer)
    }

    /// The hashes of the slots that this node and `peer` both keep.
    private func digest(with peer: PeerIndex, _ owner: borrowing Owner, _ cluster: Cluster) -> [UInt64] {
        let placement = cluster.placement
        return owner.users.digest { placement.isShared($0, with: peer) }
    }

    /// Sends the rows of ranges that differ, at most a page. The peer does the same after the answer.
    mutating func onDigest(
        _ digest: [UInt64], wantsAnswer: Bool, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        let own = self.digest(with: peer, owner, cluster)
        // During a handoff many ranges differ, and their rows are on their way.
        guard digest.count == own.count, digest != own, cluster.ownership.transfer.isComplete else { return }
        differences += 1
        let slotsInRange = Ring.slotsCount / Message.digestRangesCount
        let start = nextRange
        let placement = cluster.placement
        var rows: [Row] = []
        for step in digest.indices where rows.count < Handoff.rowsSentMax {
            let range = (start + step) % digest.count
            guard digest[range] != own[range] else { continue }
            nextRange = range + 1
            for slot in (range * slotsInRange..<(range + 1) * slotsInRange).map(Slot.init) where placement.isShared(slot, with: peer) {
                rows += owner.users.rows(of: slot)
            }
        }
        cluster.send(rows, to: peer)
        if wantsAnswer { cluster.send(.digest(own, wantsAnswer: false), to: peer) }
    }
}
