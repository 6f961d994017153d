import PresenceWire

/// Owners and gateways compare all the time what is watched and hosted where: whatever was lost between them is repaired within
/// ``CoreSettings/digestInterval`` (design §5).
struct ViewDigests {
    /// Most digests that a node sends in a period, unless it has more peers: then a digest covers more ranges.
    static let sentMax = 4_096

    fileprivate var nextAt = Instant(nanoseconds: 0)
    fileprivate var nextRange = 0
    /// Digests sent.
    var sent: UInt64 = 0
    /// Ranges of another node's digests that were not like what is here.
    var differences: UInt64 = 0
}

extension Node {
    /// Tells every peer what this node knows that it watches and hosts of the next ranges of slots. One walk over the users of a range serves
    /// all peers. A digest leaves after all deltas that were queued before it.
    mutating func compareViews(at now: Now) {
        guard let ranges = nextRanges(at: now), ownership.acquiringCount == 0 else { return }
        let linked = peers.indices.dropFirst().filter { peers[$0].isLinked && peers[$0].isAlive }
        guard !linked.isEmpty else { return }
        let hashes = owners.users.viewHashes(of: ranges, peersCount: peers.count)
        for peer in linked {
            let own = Array(hashes[peer * ranges.count..<(peer + 1) * ranges.count])
            send(.viewDigest(ring: placement.id, first: UInt8(ranges.lowerBound), own), to: peer)
            viewDigests.sent += 1
        }
    }

    /// The ranges whose turn it is: all of them have theirs once in ``CoreSettings/digestInterval``.
    private mutating func nextRanges(at now: Now) -> Range<Int>? {
        let total = Message.viewRangesCount
        let together = min(max(1, total * peers.count / ViewDigests.sentMax), total)
        let share = settings.digestInterval / total * together
        if viewDigests.nextAt + settings.digestInterval < now.instant { viewDigests.nextAt = now.instant }
        var count = 0
        while viewDigests.nextAt <= now.instant, count < total {
            viewDigests.nextAt += share
            count += together
        }
        guard count > 0 else { return nil }
        let first = viewDigests.nextRange
        let end = min(first + count, total)
        viewDigests.nextRange = end % total
        return first..<end
    }

    /// An owner says what it knows that this node watches and hosts: of ranges where that is not so, all is said anew. A change under way
    /// is a false alarm, which costs an exchange and changes nothing.
    mutating func onViewDigest(_ hashes: [UInt64], first: Int, ring: UInt64, from peer: PeerIndex) {
        guard ring == placement.id, first + hashes.count <= Message.viewRangesCount, peers[peer].isLinked else { return }
        // What is being said anew will be compared when it has been said.
        guard peers[peer].registrations.isEmpty, !peers[peer].registrations.isComparing, !peers[peer].link.hasOverflowed else { return }
        var differing: SlotRanges?
        var count: UInt64 = 0
        let isOwned = { [placement] (slot: Slot) in placement.owner(of: slot) == peer }
        for (place, hash) in hashes.enumerated() where viewHash(of: first + place, where: isOwned) != hash {
            for fine in ViewDigest.fineRanges(of: first + place) {
                differing = differing ?? SlotRanges()
                differing?.insert(fine)
            }
            count += 1
        }
        guard let differing else { return }
        viewDigests.differences += count
        resync(peer, ranges: differing)
    }

    /// What this node watches and hosts of the users in a range of slots for which `isOwned` holds. Changes nothing; but what does not say
    /// that it may is called on a copy of the node.
    private mutating func viewHash(of range: Int, where isOwned: (Slot) -> Bool) -> UInt64 {
        let slots = ViewDigest.slots(of: range)
        return fanOut.hash(of: slots, where: isOwned) ^ sessions.hash(of: slots, where: isOwned)
    }

    // MARK: After a reset

    /// An owner says what it knows that this node watches and hosts: the rest is told to it, and then this node knows what it knows. Had
    /// anything been lost on the way it would not be the answer to the last question on the present links.
    mutating func onRegistered(_ hashes: [UInt64], epoch: UInt64, from peer: PeerIndex) {
        guard let ring = peers[peer].registrations.compared(epoch: epoch) else { return }
        let isComparable = ring == placement.id && hashes.count == Message.digestRangesCount
        let differing = isComparable ? rangesUnlike(hashes, of: peer) : .all
        let isEqual = { [placement] (slot: Slot) in placement.owner(of: slot) == peer && !differing.contains(slot) }
        sessions.confirm(slots: isEqual)
        for delivery in fanOut.confirm(slots: isEqual) { tell(delivery) }
        if !differing.isEmpty { resync(peer, ranges: differing) }
    }

    /// The ranges of slots of which this node watches or hosts something else of a peer's users.
    private func rangesUnlike(_ hashes: [UInt64], of peer: PeerIndex) -> SlotRanges {
        let isOwned = { [placement] (slot: Slot) in placement.owner(of: slot) == peer }
        var ranges = SlotRanges()
        for (range, hash) in hashes.enumerated() {
            let slots = SlotRanges.slots(of: range)
            let own = fanOut.fullHash(of: slots, where: isOwned) ^ sessions.fullHash(of: slots, where: isOwned)
            if own != hash { ranges.insert(range) }
        }
        return ranges
    }

    /// A peer asks what this node knows that it watches and hosts. The answer leaves after all that has been told to it before.
    mutating func onRequestRegistered(epoch: UInt64, ring: UInt64, from peer: PeerIndex) {
        let isComparable = ring == placement.id && ownership.acquiringCount == 0
        outbox.send(.registered(epoch: epoch, isComparable ? owners.users.registeredHashes(of: peer) : []), to: peer)
    }
}
