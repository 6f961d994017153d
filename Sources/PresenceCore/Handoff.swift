import PresenceWire

/// Slots on their way to this node: which it may decide about, and what the other nodes have said they hold (design §5, "warming").
///
/// After every change of the members each node offers each other one what it holds of the slots that the other is to keep: a hash a slot.
/// The other asks for those that differ, some at a time. A slot that is new to its owner is cold until all have been heard: nothing is
/// said or written about its users, because what was acknowledged may be where nobody has asked yet. Whoever is never heard of is not
/// waited for longer than ``CoreSettings/takeoverTimeout``.
struct Handoff {
    /// Slots asked of one node at a time: a page of a few hundred kilobytes at most for 300 users a slot.
    static let slotsAskedMax = 64

    /// What one other node holds of this node's slots.
    private struct Offer {
        var ring: UInt64 = 0
        var slots: [SlotHash] = []
        var isWhole = false
        /// The next of `slots` to look at.
        var next = 0
        /// Slots that were asked for and have not come.
        var askedCount = 0

        var isTaken: Bool { isWhole && next == slots.count && askedCount == 0 }
    }

    /// The hash of the present members: nodes with the same view have the same.
    private(set) var ring: UInt64 = 0
    private var isWarm = [Bool](repeating: false, count: Ring.slotsCount)
    /// Slots of this node that are cold.
    private(set) var coldCount = 0
    /// Until then the others are waited for.
    private(set) var deadline = Instant.farFuture
    /// Everything that this node is to keep has come.
    private(set) var isSettled = true
    private var offers: [Offer] = []
    /// For each peer the ring for which it has said that everything has come.
    private var settledRings: [UInt64] = []

    /// Whether this node may decide about a slot that it owns.
    func isWarm(_ slot: Slot) -> Bool { isWarm[Int(slot)] }

    /// A new ring: what is new to this node is cold.
    ///
    /// - Parameter isChilled: nothing that this node has decided about counts: it was the smaller side of a split, or has just begun.
    mutating func begin(ring: UInt64, isChilled: Bool, deadline: Instant, isOwned: [Bool]) {
        self.ring = ring
        self.deadline = deadline
        isSettled = false
        coldCount = 0
        if isChilled { isWarm = Array(repeating: false, count: Ring.slotsCount) }
        for slot in 0..<Ring.slotsCount {
            guard isOwned[slot] else {
                isWarm[slot] = false
                continue
            }
            if !isWarm[slot] { coldCount += 1 }
        }
        for peer in offers.indices where offers[peer].ring == ring { (offers[peer].next, offers[peer].askedCount) = (0, 0) }
    }

    /// Nobody is there to be heard: they are waited for up to `deadline`, if nobody is waited for already.
    mutating func wait(until deadline: Instant) { if self.deadline == .farFuture { self.deadline = deadline } }

    /// This node may decide about all its slots.
    mutating func warm(isOwned: [Bool]) {
        coldCount = 0
        deadline = .farFuture
        isWarm = isOwned
    }

    /// A peer says what it holds, page by page.
    mutating func offered(_ slots: [SlotHash], ring: UInt64, isFirst: Bool, isLast: Bool, by peer: PeerIndex) {
        while offers.count <= peer { offers.append(Offer()) }
        if isFirst { offers[peer] = Offer(ring: ring) }
        guard offers[peer].ring == ring, !offers[peer].isWhole else { return }
        offers[peer].slots += slots
        offers[peer].isWhole = isLast
    }

    /// The next slots to ask of a peer: those that differ from what is here.
    mutating func next(from peer: PeerIndex, isWanted: (SlotHash) -> Bool) -> [Slot] {
        guard peer < offers.count, offers[peer].ring == ring else { return [] }
        var wanted: [Slot] = []
        while offers[peer].askedCount < Self.slotsAskedMax, offers[peer].next < offers[peer].slots.count {
            let offered = offers[peer].slots[offers[peer].next]
            offers[peer].next += 1
            guard isWanted(offered) else { continue }
            wanted.append(offered.slot)
            offers[peer].askedCount += 1
        }
        return wanted
    }

    /// A peer has sent all that it holds of so many slots.
    mutating func sent(_ count: Int, ring: UInt64, by peer: PeerIndex) {
        guard ring == self.ring, peer < offers.count, offers[peer].ring == ring else { return }
        offers[peer].askedCount = max(offers[peer].askedCount - count, 0)
    }

    /// Whether everything that a peer holds of this node's slots is here.
    func isTaken(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isTaken }

    /// What was asked of a peer, or its answer, may be lost.
    mutating func restart(_ peer: PeerIndex) {
        if peer < offers.count { (offers[peer].next, offers[peer].askedCount) = (0, 0) }
    }

    /// A peer is gone, or was restarted: what it said is void.
    mutating func lose(_ peer: PeerIndex) {
        if peer < offers.count { offers[peer] = Offer() }
        if peer < settledRings.count { settledRings[peer] = 0 }
    }

    /// All has come.
    mutating func settle() { isSettled = true }

    /// A peer says that all has come to it.
    mutating func settled(_ ring: UInt64, peer: PeerIndex) {
        while settledRings.count <= peer { settledRings.append(0) }
        settledRings[peer] = ring
    }

    /// Whether a peer has all that it is to keep by the present ring.
    func isSettled(_ peer: PeerIndex) -> Bool { peer < settledRings.count && settledRings[peer] == ring }
}
