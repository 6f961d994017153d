import PresenceWire

/// The records that other nodes forward between this node and one peer, in both directions, and the position up to which they have arrived.
///
/// An owner claims a complete position to a node only after it has listed the records that relays should have forwarded. The node does not
/// believe the claim while a listed record is missing. So a relay that dies costs time, but no position becomes wrong.
struct Relays {
    /// This node's users whose records relays forward to the peer, and that have not been listed to the peer since.
    private var users: [Owner.Index] = []
    /// The peer has all records of versions before the oldest of those users' changes; nil if all have been listed.
    private(set) var namedFrom: Version?
    /// The peer's records that relays should have forwarded to this node, and that have not arrived.
    var missing: [SlotHash] = []
    /// The time until which this node waits for `missing`.
    private(set) var deadline = Instant.farFuture
    /// The complete position that the peer claims, valid once no record is missing.
    var claimedUpTo: Milliseconds = 0

    private static let compactAbove = 4_096

    /// Adds a user whose record relays forward to the peer.
    mutating func append(_ user: Owner.Index, changedAt: Version) {
        namedFrom = min(namedFrom ?? changedAt, changedAt)
        users.append(user)
        if users.count % Self.compactAbove == 0 { users = users.sortedSet }
    }

    /// The users to list now, each once.
    mutating func takeUsers() -> [Owner.Index] {
        guard namedFrom != nil else { return [] }
        defer { dropNames() }
        return users.sortedSet
    }

    /// Drops the users to list, because the link to the peer is new: the peer requests all that it watches.
    mutating func dropNames() { (users, namedFrom) = ([], nil) }

    /// Adds records that relays should have forwarded and have not yet.
    mutating func miss(_ slots: [SlotHash], until deadline: Instant) {
        if missing.isEmpty { self.deadline = deadline }
        missing += slots
    }
}

/// The relay counts of a node.
public struct RelayCounters: Equatable, Sendable {
    /// Records sent together with targets to which the receiver forwards them.
    public internal(set) var sent: UInt64 = 0
    /// Records forwarded for another node.
    public internal(set) var forwarded: UInt64 = 0
    /// Targets to which a record could not be forwarded.
    public internal(set) var dropped: UInt64 = 0
    /// Records requested from their owner because no relay had forwarded them.
    public internal(set) var fetched: UInt64 = 0
}

extension [Owner.Index] {
    /// Sorted, each once.
    fileprivate var sortedSet: Self {
        var result: Self = []
        for element in sorted() where result.last != element { result.append(element) }
        return result
    }
}
