import DequeModule
import PresenceWire

/// Users about whom one peer is still to be told all that this node knows: as names, not as messages. What is said of a user is looked up
/// when there is room for it on the link, so it is never old, and a register of any length fits through a queue of any length.
struct Registrations {
    /// Users with sessions here, for their owner.
    private var sessions: Deque<UserID> = []
    /// Users watched here, for their owner.
    private var views: Deque<UserID> = []
    /// Users with sessions there, whose lists are owed to the peer by this node, their owner.
    private var lists: Deque<UserID> = []
    /// The registration round to end when all has been said.
    private var epoch: UInt64?
    /// The last question what the peer knows, until it is answered, and the ring by which it was asked.
    private var comparison: (epoch: UInt64, ring: UInt64)?

    /// Nothing is owed.
    var isEmpty: Bool { count == 0 && epoch == nil }

    /// Users waiting.
    var count: Int { sessions.count + views.count + lists.count }

    /// All that was waiting is void, the lists owed to the peer apart: the peer is told from the beginning.
    mutating func begin(epoch: UInt64) {
        sessions.removeAll()
        views.removeAll()
        self.epoch = epoch
    }

    /// The peer is asked what it knows: the answer says what is to be said, of all that was waiting too.
    mutating func compare(epoch: UInt64, ring: UInt64) {
        sessions.removeAll()
        views.removeAll()
        self.epoch = nil
        comparison = (epoch, ring)
    }

    /// The answer to the question of this number has come; returns the ring by which it was asked, or nil if it is not the last one.
    mutating func compared(epoch: UInt64) -> UInt64? {
        guard let comparison, comparison.epoch == epoch else { return nil }
        self.comparison = nil
        return comparison.ring
    }

    /// What the peer knows is not known yet.
    var isComparing: Bool { comparison != nil }

    /// The connection is new or gone.
    mutating func reset() { self = Registrations() }

    mutating func append(sessionsOf user: UserID) { sessions.append(user) }
    mutating func append(viewOf user: UserID) { views.append(user) }
    mutating func append(listOf user: UserID) { if lists.last != user { lists.append(user) } }

    /// The next thing to say.
    enum Next {
        case sessions(UserID)
        case view(UserID)
        case list(UserID)
        case end(epoch: UInt64)
    }

    /// Takes the next thing to say; the end of a round comes after the sessions and the views.
    mutating func next() -> Next? {
        if let user = lists.popFirst() { return .list(user) }
        if let user = sessions.popFirst() { return .sessions(user) }
        if let user = views.popFirst() { return .view(user) }
        defer { epoch = nil }
        return epoch.map { .end(epoch: $0) }
    }
}
