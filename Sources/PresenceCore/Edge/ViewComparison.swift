import PresenceWire

/// The comparison of views and sessions between owners and gateways.
///
/// It repairs everything lost between them within ``CoreSettings/digestInterval``.
struct ViewComparison {
    /// Most digests that a node sends in a period. With more peers a digest covers more ranges.
    private static let sentMax = 4_096

    private var nextAt = Instant(nanoseconds: 0)
    private var nextRange = 0
    /// Digests sent.
    private(set) var sentCount: UInt64 = 0
    /// Ranges of other nodes' digests that differed from those here.
    private(set) var differences: UInt64 = 0

    /// Sends every peer the hashes of its views and sessions, as known here, for the next ranges of slots. Called at every beat.
    ///
    /// One walk over the users of a range serves all peers. A digest leaves after all deltas that were queued before it.
    mutating func sendDigests(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard let ranges = nextRanges(peersCount: cluster.peers.count, cluster.settings, at: now), cluster.ownership.acquiringCount == 0
        else { return }
        let linked = cluster.peers.alive.filter { cluster.links.isUp($0) }
        guard !linked.isEmpty else { return }
        let hashes = owner.users.viewHashes(of: ranges, peersCount: cluster.peers.count)
        for peer in linked {
            let own = Array(hashes[peer * ranges.count..<(peer + 1) * ranges.count])
            cluster.send(.viewDigest(ring: cluster.placement.id, first: UInt8(ranges.lowerBound), own), to: peer)
            sentCount += 1
        }
    }

    /// The ranges to compare now. Each has its turn once in ``CoreSettings/digestInterval``.
    private mutating func nextRanges(peersCount: Int, _ settings: CoreSettings, at now: Now) -> Range<Int>? {
        let total = Message.viewRangesCount
        let together = min(max(1, total * peersCount / Self.sentMax), total)
        let share = settings.digestInterval / total * together
        if nextAt + settings.digestInterval < now.instant { nextAt = now.instant }
        var count = 0
        while nextAt <= now.instant, count < total {
            nextAt += share
            count += together
        }
        guard count > 0 else { return nil }
        let first = nextRange
        let end = min(first + count, total)
        nextRange = end % total
        return first..<end
    }

    /// Compares the digest of an owner with the views and sessions here. Returns the ranges to register again; nil for none.
    mutating func differing(_ hashes: [UInt64], first: Int, own: (Int) -> UInt64) -> SlotRanges? {
        var differing: SlotRanges?
        var count: UInt64 = 0
        for (offset, hash) in hashes.enumerated() where own(first + offset) != hash {
            for fine in ViewDigest.fineRanges(of: first + offset) {
                differing = differing ?? SlotRanges()
                differing?.insert(fine)
            }
            count += 1
        }
        differences += count
        return differing
    }
}

extension Edge {
    /// Handles an owner's digest: the ranges that differ are registered again.
    ///
    /// A change under way is a false alarm, which costs an exchange and changes nothing.
    mutating func onViewDigest(
        _ hashes: [UInt64], first: Int, ring: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        let placement = cluster.placement
        guard ring == placement.id, first + hashes.count <= Message.viewRangesCount, cluster.links.isUp(peer) else { return }
        // Open registrations are compared when they have been sent.
        guard isSettled(peer), !cluster.links[peer].hasOverflowed else { return }
        let isOwned = { (slot: Slot) in placement.owner(of: slot) == peer }
        let differing = comparison.differing(hashes, first: first) { [fanOut, sessions] range in
            let slots = ViewDigest.slots(of: range)
            return fanOut.hash(of: slots, where: isOwned) ^ sessions.hash(of: slots, where: isOwned)
        }
        if let differing { resync(peer, ranges: differing, owner, &cluster) }
    }

    /// Answers a peer with this owner's hashes of the peer's views and sessions. The answer leaves after everything sent before it.
    func onRequestRegistered(
        registrationID: UInt64, ring: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        let isComparable = ring == cluster.placement.id && cluster.ownership.acquiringCount == 0
        cluster.outbox.send(
            .registered(registrationID: registrationID, isComparable ? owner.users.registeredHashes(of: peer) : []), to: peer)
    }

    /// Requests from the owners the records that no relay has forwarded in time. Until the answer they count as unknown. Called at every
    /// tick.
    mutating func verifyRelayed(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        for peer in cluster.peers.indices where relays.isWaiting(for: peer) {
            if let overdue = relays.takeOverdue(from: peer, fanOut, at: now) { ask(peer, for: overdue, owner, &cluster) }
            relays.believe(peer)
        }
    }

    private mutating func ask(_ peer: PeerIndex, for missing: [SlotHash], _ owner: borrowing Owner, _ cluster: inout Cluster) {
        for slot in missing.map(\.slot) where cluster.placement.owner(of: slot) == peer {
            relays.countMissed()
            append(viewsOf: fanOut.unconfirm(slot), to: peer)
        }
        fill(peer, owner, &cluster)
    }
}
