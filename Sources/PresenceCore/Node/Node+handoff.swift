import PresenceWire

/// Slots that change hands: what each node holds goes to those who are to keep it, and whoever owns something new asks all before it
/// decides (design §5, §6).
extension Node {
    /// Whether this node decides about a user now.
    func decides(_ user: UserID) -> Bool { owner(of: user) == 0 && handoff.isWarm(user.slot) }

    /// No contact point leads to another node: this one is the first, and knows all that there is. If it misses members of before its
    /// start it waits for them a while: what was acknowledged may be with them.
    public mutating func joinedNobody(at now: Now) {
        guard handoff.coldCount > 0, !peers.hasAlive else { return }
        if missedCount == 0 { warmUp(at: now) } else { handoff.wait(until: now.instant + settings.takeoverTimeout) }
        advanceHandoff(at: now)
        run(at: now)
    }

    /// The members have changed.
    mutating func beginHandoff(isChilled: Bool, at now: Now) {
        let deadline = now.instant + settings.takeoverTimeout
        handoff.begin(ring: placement.id, isChilled: isChilled, deadline: deadline, isOwned: placement.isOwn)
        if unheardSince == nil { unheardSince = owners.clock.current(at: now.wall) }
        owners.reassign(roles, at: now, into: &outbox)
        for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer) }
        for peer in peers.indices.dropFirst() { ask(peer) }
        advanceHandoff(at: now)
    }

    private var roles: (Slot) -> OwnerShards.Role {
        let (placement, handoff) = (placement, handoff)
        return { slot in
            let owner = placement.owner(of: slot)
            return OwnerShards.Role(owner: owner, decides: owner == 0 && handoff.isWarm(slot))
        }
    }

    /// Tells a peer what this node holds of the slots that the peer is to keep.
    mutating func offer(to peer: PeerIndex) { offer(to: peer, by: placement, in: handoff) }

    mutating func offer(to peer: PeerIndex, by placement: Placement, in handoff: Handoff) {
        var held: [SlotHash] = []
        owners.book.forEachSlot { slot, hash in
            if placement.isKept(slot, by: peer) { held.append(SlotHash(slot: slot, hash: hash)) }
        }
        var start = 0
        repeat {
            let end = min(start + Message.offerSlotsMax, held.count)
            let (page, isLast) = (Array(held[start..<end]), end == held.count)
            send(.offer(ring: handoff.ring, round: handoff.round, page, isFirst: start == 0, isLast: isLast), to: peer)
            start = end
        } while start < held.count
    }

    /// What was said on a link may be lost: both sides begin again.
    mutating func renewOffers(to peer: PeerIndex) {
        offer(to: peer)
        handoff.restart(peer)
        ask(peer)
        if handoff.isWritten { send(handoff.settled(to: peer), to: peer) }
        renewPreparation(with: peer)
    }

    /// A peer has forgotten what was said to it.
    mutating func receiveRequestOffer(from peer: PeerIndex) {
        guard peers[peer].isLinked else { return }
        offer(to: peer)
        if handoff.isWritten { send(handoff.settled(to: peer), to: peer) }
    }

    mutating func receive(
        offer slots: [SlotHash], ring: UInt64, round: UInt64, isFirst: Bool, isLast: Bool, from peer: PeerIndex, at now: Now
    ) {
        guard ring & 1 == 0 else {
            prefetch.offered(slots, ring: ring, round: round, isFirst: isFirst, isLast: isLast, by: peer)
            return joinPreparation(at: now)
        }
        follow(ring, changedBy: peer, at: now)
        handoff.offered(slots, ring: ring, round: round, isFirst: isFirst, isLast: isLast, by: peer)
        ask(peer)
        advanceHandoff(at: now)
    }

    /// Asks for the next slots that differ.
    mutating func ask(_ peer: PeerIndex) {
        let (owners, placement) = (owners, placement)
        let wanted = handoff.next(from: peer, isPaced: false, isOwned: { placement.owner(of: $0) == 0 }) { owners.wants($0, by: placement) }
        if !wanted.isEmpty { send(.want(ring: handoff.ring, wanted), to: peer) }
    }

    /// A peer asks for slots: a page of rows, then the word how many of the slots these were.
    mutating func receive(want slots: [Slot], ring: UInt64, from peer: PeerIndex) {
        var rows: [Row] = []
        var slotsCount = 0
        for slot in slots where rows.count < Handoff.rowsSentMax {
            rows += owners.rows(of: slot)
            slotsCount += 1
        }
        send(rows, to: peer)
        send(.sent(ring: ring, slotsCount: slotsCount), to: peer)
    }

    /// Counts what comes because it was asked for: what is written meanwhile of other slots is no part of the handoff.
    mutating func countMoved(_ rows: [Row], from peer: PeerIndex) {
        guard handoff.awaits(peer) || prefetch.awaits(peer) else { return }
        for row in rows where handoff.awaits(row.user.slot, from: peer) || prefetch.awaits(row.user.slot, from: peer) {
            handoff.count(row)
        }
    }

    mutating func receive(sent slotsCount: Int, ring: UInt64, from peer: PeerIndex, at now: Now) {
        guard ring & 1 == 0 else {
            let unsent = prefetch.sent(slotsCount, ring: ring, by: peer)
            if !unsent.isEmpty { send(.want(ring: ring, unsent), to: peer) }
            return
        }
        let unsent = handoff.sent(slotsCount, ring: ring, by: peer)
        if unsent.isEmpty { ask(peer) } else { send(.want(ring: handoff.ring, unsent), to: peer) }
        advanceHandoff(at: now)
    }

    mutating func receive(settled ring: UInt64, round: UInt64, from peer: PeerIndex, at now: Now) {
        guard ring & 1 == 0 else { return prefetch.settled(ring, round: round, peer: peer) }
        handoff.settled(ring, round: round, peer: peer)
        forgetMoved()
    }

    /// When everybody has been heard about the cold slots, or waited for long enough, they are this node's to decide about.
    mutating func advanceHandoff(at now: Now) {
        handoff.measure(at: now.instant)
        let isHeard = peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || handoff.isHeard(from: $0) }
        // With two of three keepers somewhere else nobody here may know what was acknowledged, also where this node has decided before: both may
        // have gone before anybody else had heard of it.
        let isMissingMuch = missedCount >= Ring.replicasMax - 1
        if isMissingMuch { owners.isUnheard = true } else if isHeard { owners.noteHeard(into: &outbox) }
        if isHeard, handoff.coldCount > 0, hasMet, isRenewed || !isMissingMuch { warmUp(at: now) }
        let isComplete = peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || handoff.isTaken(from: $0) }
        if isComplete, !handoff.isSettled {
            handoff.settle()
            unheardSince = nil
        }
        guard handoff.coldCount > 0, now.instant >= handoff.deadline else { return }
        if !isHeard { owners.isUnheard = true }
        warmUp(at: now)
    }

    /// Not a node that has just begun and does not know yet whether there are others. Nor one whose only others are gone again before it has
    /// heard what they hold: that may be with those whom it has not met yet (seed 27796096505186), see ``joinedNobody(at:)``.
    private var hasMet: Bool { !joins || isRenewed || peers.hasAlive }

    /// Members that are gone without having left.
    var missedCount: Int { peers.missedCount }

    private mutating func warmUp(at now: Now) {
        let placement = self.placement
        handoff.warm(isOwned: placement.isOwn)
        handoff.measure(at: now.instant)
        // Whoever is missed may have gone on when all others had left (seed 14000848).
        if !isRenewed, missedCount > 0 { owners.doubtPositions(at: now) }
        owners.reassign(roles, at: now, into: &outbox)
        if !isRenewed { renewAlone(at: now) }
        isRenewed = true
        resumeWaiting(at: now)
        // Whoever was sent away meanwhile need not wait for the time of its next attempt; behind the word that sends it away, which may be
        // as fresh: the last offer by this ring may have come before the ring.
        for peer in peers.indices { outbox.send(.misrouted([]), to: peer) }
    }

    /// Everything that has come is on disk: the others need keep nothing for this node.
    mutating func noteHandoff(_ ticket: UInt64, isDurable: Bool) {
        guard handoff.written(ticket, isDurable: isDurable) else { return }
        tellSettled(handoff)
        forgetMoved()
    }

    /// All that this node is to keep by a ring has come.
    mutating func tellSettled(_ handoff: Handoff) {
        for peer in peers.indices.dropFirst() where peers[peer].isAlive { send(handoff.settled(to: peer), to: peer) }
    }

    /// Strays are offered to those who are to keep them; not before all have settled what was offered before: whoever sends them goes by
    /// another ring until then.
    mutating func offerStrays() {
        guard handoff.hasStrays, areAllSettled else { return }
        handoff.beginRound()
        for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer) }
    }

    /// Whether everybody has what it is to keep, also of what this node has offered.
    private var areAllSettled: Bool { peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || handoff.isSettled($0) } }

    /// What this node is not to keep is forgotten once everybody has what it is to keep; not by a node that drains, which is asked again
    /// if the others end before it does, and not once somebody is gone who was to keep it: the next ring says who keeps it then (seed 13021991).
    /// On disk too: who came back with it much later would know subscriptions that ended, and that they ended nobody would remember
    /// (``Subscriptions/tombstoneHorizon``).
    private mutating func forgetMoved() {
        guard !isDraining, awaitedRing == nil || isPreparing, areAllSettled, handoff.isWritten, !handoff.hasStrays else { return }
        let isNotKept = isNotKept
        owners.forget(where: isNotKept)
        outbox.discarded += writtenSlots.take(where: isNotKept)
    }

    /// Which slots this node is to keep neither by the present ring nor by the one that is prepared.
    var isNotKept: (Slot) -> Bool {
        let (placement, next) = (placement, preparation?.placement)
        return { !placement.isKept($0, by: 0) && next?.isKept($0, by: 0) != true }
    }

    /// Whether this node decides about all the slots that it owns.
    public var isWarm: Bool { handoff.coldCount == 0 && (awaitedRing == nil || isPreparing) }

    /// Whether everything that this node held is where it belongs: then a node that drains may end.
    public var isHandedOver: Bool {
        awaitedRing == nil && areAllSettled && !handoff.hasStrays
            && peers.indices.dropFirst().allSatisfy { !peers[$0].isAlive || peers[$0].link.isIdle }
    }
}
