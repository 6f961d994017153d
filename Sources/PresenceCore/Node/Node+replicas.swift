import PresenceWire

/// Facts on more than one disk: each row goes from its owner to the slot's replicas, and an answer waits for one of them (design §6).
extension Node {
    /// Whether a change must be on a second disk.
    var isReplicated: Bool { peers.isReplicated }

    /// The nodes that keep a user besides this one. Where nobody else stays those that drain keep it, up to their end.
    func replicas(of user: UserID) -> [PeerIndex] {
        let replicas = placement.replicas(of: user)
        guard replicas.isEmpty else { return replicas }
        return Array(peers.indices.dropFirst().filter { peers[$0].isAlive && peers[$0].isDraining }.prefix(Ring.replicasMax - 1))
    }

    /// Of each of these groups of nodes one at least must have a row before what it says is answered: a replica, and of what is for all everybody.
    func keepers(of row: Row) -> [[PeerIndex]] {
        guard row.kind.isForAll else { return [replicas(of: row.user)] }
        return peers.indices.dropFirst().filter { peers[$0].isAlive }.map { [$0] }
    }

    /// Whether a change of `user` can be made durable now; otherwise it is refused before anything is changed.
    func canBeDurable(_ user: UserID) -> Bool { !isReplicated || !replicas(of: user).isEmpty }

    // MARK: Writing

    /// Hands what the machines wrote to the disk and to the replicas, under one ticket; what can wait under one of its own.
    ///
    /// - Returns: the ticket of the disk; nil if there was nothing.
    @discardableResult mutating func persist(at now: Now) -> UInt64? {
        persistBulk()
        guard !outbox.rows.isEmpty || !outbox.answersWhenStored.isEmpty || !outbox.acknowledgementsWhenStored.isEmpty else { return nil }
        nextTicket += 1
        let hasAnswers = !outbox.answersWhenStored.isEmpty
        let owned = outbox.rows.filter { ($0.kind.isOfUser || ($0.kind.isForAll && hasAnswers)) && owner(of: $0.user) == 0 }
        var write = PendingWrites.Write(
            ticket: nextTicket, replicaTicket: nextTicket, answers: outbox.answersWhenStored, interests: outbox.interestsWhenStored,
            acknowledgements: outbox.acknowledgementsWhenStored,
            rows: hasAnswers ? owned : [], deadline: now.instant + settings.replicationTimeout)
        if hasAnswers, isReplicated { write.needs = PendingWrites.needs(of: owned) { keepers(of: $0) } }
        replicate(owned, ticket: hasAnswers ? nextTicket : 0)
        // On a link changes go before what is said: who answers this has heard of them.
        if outbox.needsWitnesses {
            nextTicket += 1
            write.witnessTicket = nextTicket
            write.witnesses = peers.indices.dropFirst().filter { peers[$0].isAlive }
        }
        outbox.needsWitnesses = false
        for peer in write.witnesses { send(.replicate(ticket: write.witnessTicket, []), to: peer) }
        writes.add(write)
        noteWritten(outbox.rows)
        effects.append(.persist(outbox.rows, ticket: write.ticket, isUrgent: true))
        outbox.rows.removeAll(keepingCapacity: true)
        outbox.answersWhenStored.removeAll(keepingCapacity: true)
        outbox.interestsWhenStored.removeAll(keepingCapacity: true)
        outbox.acknowledgementsWhenStored.removeAll(keepingCapacity: true)
        return write.ticket
    }

    private mutating func persistBulk() {
        guard !outbox.rowsInBulk.isEmpty || ownership.transfer.writing == .due else { return }
        nextTicket += 1
        if ownership.transfer.writing == .due { ownership.withTransfer(.present) { [nextTicket] in $0.write(with: nextTicket) } }
        replicate(outbox.rowsInBulk.filter { $0.kind.isOfUser && owner(of: $0.user) == 0 }, ticket: 0)
        noteWritten(outbox.rowsInBulk)
        effects.append(.persist(outbox.rowsInBulk, ticket: nextTicket, isUrgent: false))
        outbox.rowsInBulk.removeAll(keepingCapacity: true)
    }

    private mutating func noteWritten(_ rows: [Row]) { for row in rows where row.kind.isOfUser { writtenSlots.insert(row.user.slot) } }

    /// What `body` writes can wait: nobody is told that it is on disk. Whatever is promised later is written with the promise, because what
    /// is known here need not be on disk yet.
    mutating func writeInBulk<Failure: Error>(_ body: (inout OwnerShards, inout Outbox) throws(Failure) -> Void) throws(Failure) {
        let start = outbox.rows.count
        defer {
            if outbox.rows.count > start {
                outbox.rowsInBulk += outbox.rows[start...]
                outbox.rows.removeSubrange(start...)
            }
        }
        try body(&owners, &outbox)
    }

    mutating func replicate(_ rows: [Row], ticket: UInt64) {
        guard peers.count > 1 else { return }
        var groups: [[Row]] = Array(repeating: [], count: peers.count)
        for row in rows { for peer in keepers(of: row).joined() { groups[peer].append(row) } }
        for (peer, rows) in groups.enumerated() where !rows.isEmpty { send(.replicate(ticket: ticket, rows), to: peer) }
        replicateAhead(rows)
    }

    /// Who is to keep a user by the ring that is prepared hears of what is written meanwhile: then nothing is left to fetch when that holds.
    private mutating func replicateAhead(_ rows: [Row]) {
        guard let next = ownership.next else { return }
        var groups: [[Row]] = Array(repeating: [], count: peers.count)
        for row in rows where row.kind.isOfUser {
            for peer in next.replicas(of: row.user) where !placement.isKept(row.user.slot, by: peer) { groups[peer].append(row) }
        }
        for (peer, rows) in groups.enumerated() where !rows.isEmpty { send(.replicate(ticket: 0, rows), to: peer) }
    }

    /// The store has finished with what a ticket asked for.
    public mutating func stored(_ ticket: UInt64, isDurable: Bool, at now: Now) {
        noteDisk(isDurable: isDurable, at: now)
        noteLease(ticket, isDurable: isDurable)
        onTransferWritten(ticket, isDurable: isDurable)
        if let outcome = writes.stored(ticket, isDurable: isDurable) { carryOut(outcome) }
        run(at: now)
    }

    mutating func onReplicated(_ ticket: UInt64, from peer: PeerIndex) {
        if let outcome = writes.replicated(ticket, by: peer) { carryOut(outcome) }
    }

    mutating func failOverdueWrites(at now: Now) { for outcome in writes.overdue(at: now.instant) { carryOut(outcome) } }

    mutating func carryOut(_ outcome: PendingWrites.Outcome) {
        switch outcome {
        case .done(let write):
            for (peer, interest) in owners.noteTold(write.interests) { send(.interest(interest), to: peer) }
            for (peer, id, answer) in write.answers {
                send(.answer(id: id, isUndone(answer, of: write) ? .refused(.unavailable) : answer), to: peer)
            }
            for (peer, ticket) in write.acknowledgements { send(.replicated(ticket: ticket), to: peer) }
        case .failed(let write, let refusal):
            for (peer, interest) in owners.noteTold(write.interests) { send(.interest(interest.toldNothing), to: peer) }
            for (peer, id, _) in write.answers { send(.answer(id: id, .refused(refusal)), to: peer) }
        }
    }

    /// Whether a rule of who may see a user has been replaced before it could be acknowledged: another side of a split had a newer one.
    private func isUndone(_ answer: Answer, of write: PendingWrites.Write) -> Bool {
        guard case .visibility(let privacy) = answer,
            let row = write.rows.first(where: { $0.kind == .visibility && $0.version == privacy.version }),
            let user = owners.index(ofKnown: row.user)
        else { return false }
        return owners.users[user].record.privacy?.visibility != privacy.visibility
    }

    // MARK: Keeping

    /// Another node that keeps the same slots says what it knows.
    mutating func onReplicate(_ rows: [Row], ticket: UInt64, from peer: PeerIndex, at now: Now) {
        // What cannot be read or believed is not acknowledged: the sender is not told that its rows are safe here.
        do throws(RowError) {
            try onRowsForAll(rows.filter(\.kind.isForAll), at: now)
            let isOwned = { [ownership] (user: UserID) in ownership.decides(user.slot) }
            let facts = rows.filter { $0.kind.isOfUser }
            noteStrays(among: facts, from: peer)
            guard ticket != 0 else {
                countMoved(facts, from: peer)
                return try writeInBulk { (owners, outbox) throws(RowError) in
                    _ = try owners.receive(facts, isOwned: isOwned, isAwaited: false, at: now, into: &outbox)
                }
            }
            guard try owners.receive(facts, isOwned: isOwned, isAwaited: true, at: now, into: &outbox) else { return }
            // Who shows what may have been replaced has not heard of what it is asked about, if that was lost with a link.
            if rows.isEmpty, fanOut.staleCount > 0, witnessed.count < Self.witnessedMax { return witnessed.append((peer, ticket)) }
            outbox.acknowledgementsWhenStored.append((peer, ticket))
        } catch {
            rowsRefusedCount += 1
        }
    }

    /// Who has this node keep what it is not to keep goes by another ring, perhaps the next one: it counts on it, until those who are to keep
    /// it by this one have it (``offerStrays()``).
    private mutating func noteStrays(among facts: [Row], from peer: PeerIndex) {
        let isNotKept = ownership.isNotKept
        guard peer != 0, facts.contains(where: { isNotKept($0.user.slot) }) else { return }
        // The disk may be about to forget what moved: what comes after that was decided stays.
        outbox.discarded.removeAll { slot in facts.contains { $0.user.slot == slot } }
        ownership.withTransfer(.present) { $0.noteStrays() }
    }

    /// Beyond it the oldest call of which nothing is known here is answered 50001.
    static let witnessedMax = 10_000

    /// What this node shows is what the owners know: it has heard of all that it was asked about.
    mutating func acknowledgeWitnessed() {
        if fanOut.staleCount == 0 { outbox.acknowledgementsWhenStored += witnessed.takeAll() }
    }

    /// See ``Outbox/rowsForOwners``.
    mutating func tellOwners() {
        for row in outbox.rowsForOwners.takeAll() { send(.replicate(ticket: 0, [row]), to: owner(of: row.user)) }
    }

    mutating func send(_ rows: [Row], to peer: PeerIndex) {
        var page: [Row] = []
        var bytesCount = 0
        for row in rows {
            page.append(row)
            bytesCount += row.value?.count ?? 0
            guard page.count == Message.replicateRowsMax || bytesCount > Message.replicateBytesMax else { continue }
            send(.replicate(ticket: 0, page), to: peer)
            (page, bytesCount) = ([], 0)
        }
        if !page.isEmpty { send(.replicate(ticket: 0, page), to: peer) }
    }

    // MARK: Repair

    /// Compares what this node and `peer` hold of the slots that both keep; what differs is sent both ways, at most a page at a time.
    mutating func sendDigest(to peer: PeerIndex, wantsAnswer: Bool) {
        send(.digest(owners.users.digest { placement.isShared($0, with: peer) }, wantsAnswer: wantsAnswer), to: peer)
    }

    mutating func onDigest(_ digest: [UInt64], wantsAnswer: Bool, from peer: PeerIndex) {
        let own = owners.users.digest { placement.isShared($0, with: peer) }
        // While slots change hands much differs, and is on its way.
        guard digest.count == own.count, digest != own, ownership.transfer.isComplete else { return }
        digestDifferences += 1
        let slotsInRange = Ring.slotsCount / Message.digestRangesCount
        let start = nextRepairRange
        var rows: [Row] = []
        for step in digest.indices where rows.count < Handoff.rowsSentMax {
            let range = (start + step) % digest.count
            guard digest[range] != own[range] else { continue }
            nextRepairRange = range + 1
            for slot in (range * slotsInRange..<(range + 1) * slotsInRange).map(Slot.init) where placement.isShared(slot, with: peer) {
                rows += owners.users.rows(of: slot)
            }
        }
        send(rows, to: peer)
        if wantsAnswer { send(.digest(own, wantsAnswer: false), to: peer) }
    }

    /// Once in ``CoreSettings/digestInterval`` one of the other nodes, in turn.
    mutating func compareDigests(at now: Now) {
        guard now.instant >= nextDigestAt else { return }
        nextDigestAt = now.instant + settings.digestInterval
        let alive = peers.indices.dropFirst().filter { peers[$0].isAlive && peers[$0].isLinked }
        guard !alive.isEmpty else { return }
        nextDigestPeer = (nextDigestPeer + 1) % alive.count
        sendDigest(to: alive[nextDigestPeer], wantsAnswer: true)
    }
}
