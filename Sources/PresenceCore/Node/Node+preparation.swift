import PresenceWire

/// A ring that comes without anybody having gone, because a node joins or drains, is prepared while the present one holds: each node
/// fetches what it is to keep, and all change when all have it. What was written meanwhile is all that the handoff proper has to move, and
/// the time in which a slot is cold is short (design §5, "warming").
///
/// Safe whoever keeps to it: what is fetched is a copy as any replica's, and the handoff after it asks everybody about everything anew. The
/// messages are those of the handoff, with ``Placement/preparedID``.
extension Node {
    /// What is prepared.
    struct Preparation {
        let placement: Placement
        /// Then it comes whoever is missing.
        var deadline: Instant
    }

    /// Whether the present ring holds, with all its members, while the next one is prepared.
    var isPreparing: Bool { preparation != nil && preparation?.placement.id == awaitedRing && !cannotWait }

    /// Somebody is gone, has begun anew or comes back, or this node was taken for gone: what holds is wrong already.
    private var cannotWait: Bool { isChilled || isMissed || isAbrupt }

    /// Whether the present ring is at rest: all who keep anything by it are here, have said that they have it, and have not changed already.
    /// Then nobody decides by an older one, and whoever changes first is followed by all.
    private func canPrepare(_ next: Placement) -> Bool {
        guard settings.preparationTimeout > .zero, !cannotWait, handoff.coldCount == 0, handoff.isSettled, peers.count > 1 else {
            return false
        }
        return placement.members.allSatisfy {
            $0 == 0 || (peers[$0].isAlive && handoff.isSettled($0) && !handoff.isOffered(next.id, by: $0))
        }
    }

    /// The next ring is known. Returns whether the present one holds until it is prepared.
    mutating func prepares(_ next: Placement, at now: Now) -> Bool {
        guard canPrepare(next) else {
            preparation = nil
            return false
        }
        prepare(next, at: now)
        return true
    }

    /// Offers the others what they are to keep, and asks for what this node is to keep.
    private mutating func prepare(_ next: Placement, at now: Now) {
        preparation = Preparation(placement: next, deadline: now.instant + settings.preparationTimeout)
        prefetch.begin(ring: next.preparedID, isChilled: false, deadline: .farFuture, isOwned: SlotSet())
        for peer in peers.indices.dropFirst() where peers[peer].isLinked { offer(to: peer, by: next, in: prefetch) }
    }

    /// Asks for the next slots of what is prepared: a share at each tick, because nobody waits for it, and users wait for what the loop does
    /// besides.
    mutating func fetchPrepared() {
        guard let next = preparation?.placement else { return }
        let owners = owners
        for peer in peers.indices.dropFirst() {
            let wanted = prefetch.next(from: peer, isPaced: true, isOwned: { _ in true }) { owners.wants($0, by: next) }
            if !wanted.isEmpty { send(.want(ring: prefetch.ring, wanted), to: peer) }
        }
    }

    /// This node could not wait, because it has just begun, but others prepare what holds here: it hears from them when they have changed.
    /// Meanwhile others may decide about its slots: also if it has gone by another ring and comes back to this one (seed 11052916).
    mutating func joinPreparation(at now: Now) {
        let ring = placement.preparedID
        let arePreparing = peers.indices.contains { prefetch.isOffered(ring, by: $0) && !handoff.isOffered(placement.id, by: $0) }
        guard preparation == nil, arePreparing else { return }
        handoff.wait(for: settings.preparationTimeout + settings.takeoverTimeout, at: now.instant)
        if prefetch.ring != ring || !prefetch.isSettled { prepare(placement, at: now) }
    }

    /// Says so when all has come, and changes when all have said so. Only between two inputs: what one has written is sent to those who
    /// keep it by the ring by which it was decided.
    mutating func changePrepared(at now: Now) {
        guard preparation != nil else { return }
        advancePreparation(at: now)
        run(at: now)
    }

    mutating func advancePreparation(at now: Now) {
        guard let preparation else { return }
        let others = peers.indices.dropFirst().filter { peers[$0].isAlive }
        if others.allSatisfy({ prefetch.isTaken(from: $0) }) { settlePrefetch() }
        let isPrepared = prefetch.isSettled && others.allSatisfy { prefetch.isSettled($0) }
        // One that has changed already still takes part: others wait for it.
        let isOver = cannotWait && preparation.placement.id == awaitedRing
        guard isPrepared || isOver || now.instant >= preparation.deadline else { return }
        endPreparation(at: now)
    }

    /// Tells the others that they need not wait for this node.
    private mutating func settlePrefetch() {
        guard !prefetch.isSettled else { return }
        prefetch.settle()
        tellSettled(prefetch)
    }

    /// A peer that keeps something by the present ring has changed already: this node changes as soon as it has done with what has come.
    mutating func follow(_ ring: UInt64, changedBy peer: PeerIndex, at now: Now) {
        guard let next = preparation?.placement, ring == next.id, ring == awaitedRing, placement.members.contains(peer) else { return }
        preparation?.deadline = now.instant
    }

    /// As ``renewOffers(to:)``; also where this node has changed, and the peer has not.
    mutating func renewPreparation(with peer: PeerIndex) {
        let isAwaited = placement.preparedID == prefetch.ring && !handoff.isSettled(peer)
        guard let next = preparation?.placement ?? (isAwaited ? placement : nil) else { return }
        offer(to: peer, by: next, in: prefetch)
        prefetch.restart(peer)
        if prefetch.isSettled { send(prefetch.settled(to: peer), to: peer) }
    }

    private mutating func endPreparation(at now: Now) {
        guard let next = preparation?.placement else { return }
        settlePrefetch()
        preparation = nil
        guard next.id == awaitedRing else { return }
        awaitedRing = nil
        changePlacement(to: next, at: now)
    }
}

extension Placement {
    /// The ID under which this ring is prepared: those of rings that hold are even.
    var preparedID: UInt64 { id | 1 }
}
