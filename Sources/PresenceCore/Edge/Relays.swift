import PresenceWire

/// What others pass on between this node and one peer, in both directions, and how far it is known to have arrived.
///
/// An owner does not claim that a node has all its records while it has not named to it those that others were to pass on; the node does
/// not believe the claim while it misses one of those named. So a relay that dies costs time, never the truth of a position.
struct Relays {
    /// This node's users whose records others were to pass on to the peer, and that have not been named to it since.
    private var users: [Owner.Index] = []
    /// Before the first change of those users the peer has been told everything; nil when all have been named.
    private(set) var namedFrom: Version?
    /// Records of the peer that others were to pass on to this node, and that have not come.
    var missing: [SlotHash] = []
    /// Until then `missing` is waited for.
    private(set) var deadline = Instant.farFuture
    /// What the peer says is complete, once nothing is missing.
    var claimedUpTo: Milliseconds = 0

    private static let compactAbove = 4_096

    /// Others are to pass on a user's record to the peer.
    mutating func append(_ user: Owner.Index, changedAt: Version) {
        if namedFrom == nil { namedFrom = changedAt }
        users.append(user)
        if users.count % Self.compactAbove == 0 { users = users.sortedSet }
    }

    /// The users to name now, each once.
    mutating func takeUsers() -> [Owner.Index] {
        guard namedFrom != nil else { return [] }
        defer { forgetNames() }
        return users.sortedSet
    }

    /// The link to the peer is new: it asks for all that it watches.
    mutating func forgetNames() { (users, namedFrom) = ([], nil) }

    /// Others were to pass on these, and have not yet.
    mutating func miss(_ slots: [SlotHash], until deadline: Instant) {
        if missing.isEmpty { self.deadline = deadline }
        missing += slots
    }
}

/// What a node counts of relays.
struct RelayCounters: Equatable, Sendable {
    /// Records sent with a share of other nodes to pass them on to.
    var sent: UInt64 = 0
    /// Records passed on for another node.
    var passedOn: UInt64 = 0
    /// Nodes that a record could not be passed on to.
    var dropped: UInt64 = 0
    /// Records asked of their owner because nobody had passed them on.
    var missed: UInt64 = 0
}

extension [Owner.Index] {
    /// Sorted, each once.
    fileprivate var sortedSet: Self {
        var result: Self = []
        for element in sorted() where result.last != element { result.append(element) }
        return result
    }
}
