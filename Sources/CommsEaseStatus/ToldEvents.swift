import PresenceClient

/// What a delegate has been told of each user: a whole status arrives, and only what is new in it is an event.
struct ToldEvents {
    private struct Told: Equatable {
        var statusType: StatusType
        var since: Int64
    }

    /// Beyond it all is forgotten; then a login may be told twice.
    private static let usersMax = 10_000

    /// A login is being told what is so: delegates take everybody for offline then (N21).
    var isSyncing = false
    /// Users whose present values were asked for and have not been told since (N8).
    var awaited: Set<UserKey> = []
    private var told: [UserKey: Told] = [:]
    private var raised = RaisedEvents()
    private var own: UserKey?

    /// A delegate that is added while a user is logged in begins with that login.
    init(_ session: Session? = nil) { if let session { begin(session) } }

    /// A session was opened, for the first time or again.
    mutating func connected(_ session: Session) {
        isSyncing = true
        begin(session)
    }

    /// Everything of one type has been told.
    mutating func synced(_ type: SubscribeType) { if type == .onlineStatus { isSyncing = false } }

    /// The events that a status brings. The own login and its end are none: nobody follows oneself.
    mutating func untold(of status: UserStatus) -> [NIMSubscribeEvent] {
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
        if told.count >= Self.usersMax { told.removeAll() }
        let before = told.updateValue(now, forKey: user)
        let isTakenForOffline = isSyncing && before == nil && (now.statusType == .offline || now.statusType == .unlogined)
        return before != now && !isTakenForOffline
    }
}
