import PresenceWire

/// Facts on more than one disk: each row goes from its owner to the slot's replicas, and an answer waits for one of them (2 of 3).
struct Replication {
    /// Acknowledgements that wait at a time. Beyond it a call that this node knows nothing about is answered 50001.
    private static let heldMax = 10_000

    private(set) var writes = PendingWrites()
    private(set) var disk = DiskHealth()
    private(set) var lease = ClockLease()
    private(set) var completeness = DiskCompleteness()
    /// The slots whose users may have rows on disk.
    private(set) var writtenSlots = SlotSet()
    /// The barriers of other nodes that wait because views here may be outdated (``PendingWrites/Write/barrierTicket``).
    private var heldBarriers: [(peer: PeerIndex, ticket: UInt64)] = []

    // MARK: Refusals

    /// The reason why a change of `user` cannot become durable now; nil if it can. Then nothing has changed.
    func refusalOfChange(of user: UserID, _ cluster: borrowing Cluster) -> Refusal? {
        if disk.isFailing { return .notDurable }
        // The other side of a split may decide otherwise.
        if !cluster.reach.hasMajority { return .notReplicated }
        return !cluster.peers.isReplicated || !cluster.replicas(of: user).isEmpty ? nil : .notReplicated
    }

    // MARK: Writing

    /// Records that the disk has a row of this slot.
    mutating func noteWritten(_ slot: Slot) { writtenSlots.insert(slot) }

    private mutating func noteWritten(_ rows: [Row]) { for row in rows where row.kind.isOfUser { noteWritten(row.user.slot) } }

    /// Hands the rows of the machines to the disk and to the replicas, under one ticket; bulk rows under another one.
    ///
    /// - Returns: the ticket of the disk; nil if there was nothing.
    @discardableResult mutating func persist(_ cluster: inout Cluster, at now: Now) -> UInt64? {
        persistBulk(&cluster)
        guard !cluster.outbox.rows.isEmpty || !cluster.outbox.continuations.isEmpty else { return nil }
        let ticket = cluster.nextTicket()
        let continuations = cluster.outbox.continuations.takeAll()
        let hasAnswers = continuations.waitForReplicas
        let owned = cluster.outbox.rows.filter {
            ($0.kind.isOfUser || ($0.kind.isForAll && hasAnswers)) && cluster.owner(of: $0.user) == 0
        }
        var write = PendingWrites.Write(
            ticket: ticket, replicaTicket: ticket, continuations: continuations, rows: hasAnswers ? owned : [],
            deadline: now.instant + cluster.settings.replicationTimeout)
        if cluster.outbox.needsBarrier { for peer in cluster.peers.alive { cluster.links[peer].sendRecordsAlone() } }
        if hasAnswers, cluster.peers.isReplicated { write.needs = PendingWrites.needs(of: owned) { cluster.keepers(of: $0) } }
        replicate(owned, ticket: hasAnswers ? ticket : nil, &cluster)
        // On a link deltas and rows go before messages. A node that answers this message knows what they say.
        if cluster.outbox.needsBarrier || (hasAnswers && owned.contains { $0.kind.isForAll }) {
            write.barrierTicket = cluster.nextTicket()
            write.barrierPeers = cluster.peers.alive
        }
        cluster.outbox.needsBarrier = false
        for peer in write.barrierPeers { cluster.send(.replicate(ticket: write.barrierTicket, []), to: peer) }
        writes.add(write)
        noteWritten(cluster.outbox.rows)
        cluster.outbox.effects.append(.persist(cluster.outbox.rows, ticket: ticket, isUrgent: true))
        cluster.outbox.rows.removeAll(keepingCapacity: true)
        return ticket
    }

    private mutating func persistBulk(_ cluster: inout Cluster) {
        guard !cluster.outbox.rowsInBulk.isEmpty || cluster.ownership.transfer.progress == .received else { return }
        let ticket = cluster.nextTicket()
        if cluster.ownership.transfer.progress == .received { cluster.ownership.withTransfer(.present) { $0.write(with: ticket) } }
        replicateBulk(&cluster)
        noteWritten(cluster.outbox.rowsInBulk)
        cluster.outbox.effects.append(.persist(cluster.outbox.rowsInBulk, ticket: ticket, isUrgent: false))
        cluster.outbox.rowsInBulk.removeAll(keepingCapacity: true)
    }

    /// Sends the bulk rows that this node owns to the replicas of their users, except to the one that has sent the same row.
    private func replicateBulk(_ cluster: inout Cluster) {
        let received = cluster.outbox.receivedInBulk
        cluster.outbox.receivedInBulk = []
        let rows = cluster.outbox.rowsInBulk.filter { $0.kind.isOfUser && cluster.owner(of: $0.user) == 0 }
        guard cluster.peers.count > 1, !rows.isEmpty else { return }
        send(rows, ticket: nil, &cluster) { row, cluster in
            cluster.keepers(of: row).filter { !received.contains(ReceivedRow(row: row, sender: $0)) }
        }
        replicateAhead(rows, &cluster)
    }

    /// Takes the actions of the outbox that are deferred until earlier rows are durable. Those whose rows are being written wait with
    /// them, and the others are returned.
    mutating func takeDeferred(_ outbox: inout Outbox) -> [DeferredContinuation.Action] {
        outbox.deferred.takeAll().compactMap { deferred in
            guard outbox.writesLists(of: deferred.users) else { return writes.hold(deferred) ? nil : deferred.action }
            outbox.continuations.append(deferred.action.continuation)
            return nil
        }
    }

    /// Sends rows to the replicas of their users, also by the prepared ring. When that ring holds, no such row is left to fetch.
    ///
    /// - Parameter ticket: what the replicas acknowledge; nil for rows that nobody waits for.
    func replicate(_ rows: [Row], ticket: UInt64?, _ cluster: inout Cluster) {
        guard cluster.peers.count > 1 else { return }
        send(rows, ticket: ticket, &cluster) { $1.keepers(of: $0) }
        replicateAhead(rows, &cluster)
    }

    private func replicateAhead(_ rows: [Row], _ cluster: inout Cluster) {
        guard let next = cluster.ownership.next else { return }
        send(rows.filter(\.kind.isOfUser), ticket: nil, &cluster) { row, cluster in
            next.replicas(of: row.user).filter { !cluster.placement.isKept(row.user.slot, by: $0) }
        }
    }

    /// Sends each row to its receivers, in one message to each node.
    private func send(_ rows: [Row], ticket: UInt64?, _ cluster: inout Cluster, to receivers: (Row, borrowing Cluster) -> [PeerIndex]) {
        var groups: [[Row]] = Array(repeating: [], count: cluster.peers.count)
        for row in rows { for peer in receivers(row, cluster) { groups[peer].append(row) } }
        for (peer, rows) in groups.enumerated() where !rows.isEmpty { cluster.send(.replicate(ticket: ticket, rows), to: peer) }
    }

    /// Assigns pending writes to the replicas of a new ring, and stops waiting for dead nodes. Returns the writes that this completes.
    mutating func replan(_ cluster: inout Cluster) -> [PendingWrites.Outcome] {
        for write in writes.replan(nextTicket: { cluster.nextTicket() }, { cluster.keepers(of: $0) }) {
            replicate(write.rows, ticket: write.replicaTicket, &cluster)
        }
        return writes.dropPeers { !cluster.peers[$0].isAlive }
    }

    /// Deletes from the disk the slots for which `isNotKept` holds.
    mutating func deleteSlots(where isNotKept: (Slot) -> Bool, _ outbox: inout Outbox) {
        outbox.deletedSlots += writtenSlots.take(where: isNotKept)
    }

    // MARK: Answers of disks

    /// Records that the disk has finished with a ticket.
    mutating func stored(_ ticket: UInt64, isDurable: Bool, _ settings: CoreSettings, at now: Now) {
        disk.note(isDurable: isDurable, retryAfter: settings.diskRetryInterval, at: now)
        lease.stored(ticket, isDurable: isDurable)
    }

    /// Sends the acknowledgements of the rows in a write, because this node's disk has them.
    mutating func acknowledge(_ ticket: UInt64, _ outbox: inout Outbox) {
        for (peer, ticket) in writes.takeAcknowledgements(of: ticket) { outbox.send(.replicated(ticket: ticket), to: peer) }
    }

    /// Completes the write of a ticket. Returns what to send.
    mutating func complete(_ ticket: UInt64, isDurable: Bool) -> PendingWrites.Outcome? { writes.stored(ticket, isDurable: isDurable) }

    /// Records that a replica has the rows of a ticket on disk, or has acknowledged a barrier.
    mutating func onReplicated(_ ticket: UInt64, from peer: PeerIndex) -> PendingWrites.Outcome? { writes.replicated(ticket, by: peer) }

    /// Ends the writes that have waited for too long. Called at every tick.
    mutating func overdue(at now: Now) -> [PendingWrites.Outcome] { writes.overdue(at: now.instant) }

    /// Retries a disk that cannot write. Called at every tick.
    mutating func retryDisk(_ cluster: inout Cluster, at now: Now) {
        guard disk.tick(retryAfter: cluster.settings.diskRetryInterval, at: now) else { return }
        cluster.outbox.effects.append(.persist([], ticket: cluster.nextTicket(), isUrgent: true))
    }

    // MARK: Barriers

    /// Acknowledges rows of another node once they are on disk, and a barrier at once: it asks what this node knows.
    ///
    /// A barrier has no rows. A node that may show outdated records has not read the change of the barrier, which may have been lost with a
    /// link. Its acknowledgement waits for ``releaseBarriers(staleCount:_:)``.
    mutating func acknowledge(_ ticket: UInt64, to peer: PeerIndex, isBarrier: Bool, staleCount: Int, _ outbox: inout Outbox) {
        guard isBarrier else { return outbox.continuations.append(.acknowledgement(ticket: ticket, to: peer)) }
        if staleCount == 0 {
            outbox.send(.replicated(ticket: ticket), to: peer)
        } else if heldBarriers.count < Self.heldMax {
            heldBarriers.append((peer, ticket))
        }
    }

    /// Acknowledges the held barriers once no view here is outdated.
    mutating func releaseBarriers(staleCount: Int, _ outbox: inout Outbox) {
        guard staleCount == 0 else { return }
        for (peer, ticket) in heldBarriers.takeAll() { outbox.send(.replicated(ticket: ticket), to: peer) }
    }

    // MARK: The clock's lease

    /// Loads the row of the clock's bound.
    mutating func load(clock row: Row) { completeness.load(row) }

    /// Records whether the disk is complete. Called at every tick.
    mutating func followCompleteness(_ cluster: borrowing Cluster, at now: Now) {
        completeness.follow(cluster, isDiskFailing: disk.isFailing, at: now)
    }

    /// Writes a new bound of the version clock in time.
    ///
    /// - Parameter clock: the version clock.
    mutating func renewLease(clock: Milliseconds, _ cluster: inout Cluster, at now: Now) {
        guard lease.isDue(clock: clock, at: now) else { return }
        cluster.outbox.rows.append(lease.next(of: cluster.own.id, clock: clock, complete: completeness.mark, at: now))
        lease.hold(until: persist(&cluster, at: now))
    }

    /// Writes the first bound of a process at once, before any message is sent.
    ///
    /// - Parameter isKept: puts a row on disk at once, and returns whether it is there.
    mutating func beginLease(clock: Milliseconds, _ cluster: Cluster, at now: Now, isKept: (Row) -> Bool) {
        if isKept(lease.next(of: cluster.own.id, clock: clock, complete: completeness.mark, at: now)) {
            lease.keep()
        } else {
            disk.note(isDurable: false, retryAfter: cluster.settings.diskRetryInterval, at: now)
        }
    }
}
