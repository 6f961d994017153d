import PresenceWire

/// Receives the rows of other nodes: those that a replica keeps for their owner, and those of a transfer of slots.
struct RowReceiver {
    /// Messages of other nodes whose rows could not be read.
    private(set) var refusedCount: UInt64 = 0
    /// Rows that this node's disk had before the start and has lost: other nodes have sent them.
    private(set) var lostCount: UInt64 = 0

    private struct RowName: Hashable {
        let kind: Row.Kind
        let key: String
    }

    /// Counts a message whose rows could not be read.
    mutating func countRefused() { refusedCount += 1 }

    /// Counts the rows of a transfer that the disk has lost. Called before they are received.
    mutating func countLost(
        _ rows: [Row], from peer: PeerIndex, _ completeness: DiskCompleteness, _ owner: borrowing Owner, _ cluster: borrowing Cluster
    ) {
        guard completeness.former != nil, cluster.ownership.awaits(peer) else { return }
        let ring = cluster.placement.id
        var user: UserID?
        var held: [RowName: Version] = [:]
        for row in rows where completeness.had(row, by: ring) && cluster.ownership.awaits(row.user.slot, from: peer) {
            if row.user != user {
                user = row.user
                held = [:]
                if let index = owner.index(ofKnown: row.user) {
                    for own in owner.users.rows(of: index) { held[RowName(kind: own.kind, key: own.key)] = own.version }
                }
            }
            if held[RowName(kind: row.kind, key: row.key)] ?? .zero < row.version { lostCount += 1 }
        }
    }

    /// Stores the rows of users that another node has sent.
    ///
    /// - Parameter isAwaited: whether the sender waits for the disk of this node. Other rows are written in bulk.
    /// - Returns: whether the rows are acknowledged when they are stored.
    func receive(
        _ rows: [Row], isAwaited: Bool, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) throws(RowError) -> Bool {
        let isOwned = { [ownership = cluster.ownership] (user: UserID) in ownership.decides(user.slot) }
        recordMisplacedRows(among: rows, from: peer, &cluster)
        if isAwaited { return try owner.receive(rows, isOwned: isOwned, isAwaited: true, in: &cluster.outbox[at: now]) }
        countMoved(rows, from: peer, &cluster)
        let bulkCount = cluster.outbox.rowsInBulk.count
        try cluster.outbox.writeInBulk { (outbox) throws(RowError) in
            _ = try owner.receive(rows, isOwned: isOwned, isAwaited: false, in: &outbox[at: now])
        }
        if cluster.outbox.rowsInBulk.count > bulkCount {
            cluster.outbox.receivedInBulk.formUnion(rows.map { ReceivedRow(row: $0, sender: peer) })
        }
        return false
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
}
