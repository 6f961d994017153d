import DequeModule
import PresenceWire

/// The users that this node still has to register with one peer: names, not messages.
///
/// The node looks up the facts of a user when the link has room for the message. So they are never old, and a registration of any length
/// fits through a queue of any length.
struct Registrations {
    /// Users with sessions here, for their owner.
    private var sessions: Deque<UserID> = []
    /// Users watched here, for their owner.
    private var views: Deque<UserID> = []
    /// Users with sessions at the peer, whose subscription lists this node, their owner, still has to send.
    private var lists: Deque<UserID> = []
    /// The ID of the registration to end when all has been sent.
    private var registrationID: UInt64?
    /// The last comparison that the peer has not answered, and its ring.
    private var comparison: (registrationID: UInt64, ring: UInt64)?

    /// Whether nothing is left to send.
    var isEmpty: Bool { count == 0 && registrationID == nil }

    /// The number of users left to send.
    var count: Int { sessions.count + views.count + lists.count }

    /// Starts a new registration, and drops what was left of the last one except the lists.
    mutating func begin(registrationID: UInt64) {
        sessions.removeAll()
        views.removeAll()
        self.registrationID = registrationID
    }

    /// Starts a comparison with the peer. Its answer decides what is registered, also of what was left before.
    mutating func compare(registrationID: UInt64, ring: UInt64) {
        sessions.removeAll()
        views.removeAll()
        self.registrationID = nil
        comparison = (registrationID, ring)
    }

    /// Ends the comparison with this ID; returns its ring, or nil if it is not the last one.
    mutating func compared(registrationID: UInt64) -> UInt64? {
        guard let comparison, comparison.registrationID == registrationID else { return nil }
        self.comparison = nil
        return comparison.ring
    }

    /// Whether a comparison has no answer yet.
    var isComparing: Bool { comparison != nil }

    /// Drops everything, because the connection is new or gone.
    mutating func reset() { self = Registrations() }

    mutating func append(sessionsOf user: UserID) { sessions.append(user) }
    mutating func append(viewOf user: UserID) { views.append(user) }
    mutating func append(listOf user: UserID) { if lists.last != user { lists.append(user) } }

    /// The next message to send.
    enum Next {
        case sessions(UserID)
        case view(UserID)
        case list(UserID)
        case end(registrationID: UInt64)
    }

    /// Takes the next message. The end of a registration follows the sessions and the views.
    mutating func next() -> Next? {
        if let user = lists.popFirst() { return .list(user) }
        if let user = sessions.popFirst() { return .sessions(user) }
        if let user = views.popFirst() { return .view(user) }
        defer { registrationID = nil }
        return registrationID.map { .end(registrationID: $0) }
    }
}
