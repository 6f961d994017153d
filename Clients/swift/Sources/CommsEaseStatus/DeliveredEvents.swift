import PresenceClient

/// The events that a delegate has received of each user. A whole status arrives, and only its new parts are events.
struct DeliveredEvents {
    private struct Told: Equatable {
        var statusType: StatusType
        var since: Int64
    }

    /// Most users. Beyond it all are dropped, so that a login may be sent twice.
    private static let usersMax = 10_000

    /// Whether a login is sending the current state. Delegates consider everybody offline then (N21).
    var isSyncing = false
    /// The users whose current values were requested and have not been sent since (N8).
    var awaited: Set<UserKey> = []
    private var delivered: [UserKey: Told] = [:]
    private var raised = RaisedEvents()
    private var own: UserKey?

    /// Makes the state of a delegate. One that is added during a login starts with that login.
    init(_ session: Session? = nil) { if let session { begin(session) } }

    /// Records that a session was opened, for the first time or again.
    mutating func connected(_ session: Session) {
        isSyncing = true
        begin(session)
    }

    /// Records that all statuses of one type have arrived.
    mutating func synced(_ type: SubscribeType) { if type == .onlineStatus { isSyncing = false } }

    /// The events of a status. The own login and its end are none, because nobody follows itself.
    mutating func undelivered(of status: UserStatus) -> [NIMSubscribeEvent] {
        let user = UserKey(status.userID)
        let isAwaited = awaited.remove(user) != nil
        var events: [NIMSubscribeEvent] = []
        if user != own, isOnlineNew(status, of: user) || isAwaited { events.append(.online(status)) }
        let published = isAwaited ? raised.eventsInForce(of: status) : raised.events(of: status)
        return events + published.map { .published($0, by: status) }
    }

    private mutating func begin(_ session: Session) {
        raised.connected(session)
        own = UserKey(session.userID)
    }

    private mutating func isOnlineNew(_ status: UserStatus, of user: UserKey) -> Bool {
        let now = Told(statusType: status.statusType, since: status.lastOnlineStatusUpdateTime)
        if delivered.count >= Self.usersMax { delivered.removeAll() }
        let before = delivered.updateValue(now, forKey: user)
        let isTakenForOffline = isSyncing && before == nil && (now.statusType == .offline || now.statusType == .unlogined)
        return before != now && !isTakenForOffline
    }
}
