import PresenceClient

/// What a delegate has been told of each user: a whole status arrives, and only what is new in it is an event.
struct ToldEvents {
    private struct Told: Equatable {
        var statusType: StatusType
        var since: Int64
        var event: UserStatus.Event?
    }

    /// Beyond it all is forgotten; then an event may be told twice.
    private static let usersMax = 10_000

    /// A login is being told what is so: delegates take everybody for offline then (N21).
    var isSyncing = false
    /// Users whose present values were asked for and have not been told since (N8).
    var awaited: Set<UserKey> = []
    private var told: [UserKey: Told] = [:]

    /// The events that a status brings.
    mutating func untold(of status: UserStatus) -> [NIMSubscribeEvent] {
        let now = Told(statusType: status.statusType, since: status.lastOnlineStatusUpdateTime, event: status.event)
        if told.count >= Self.usersMax { told.removeAll() }
        let user = UserKey(status.userID)
        let before = told.updateValue(now, forKey: user)
        let isAwaited = awaited.remove(user) != nil
        let isTakenForOffline = isSyncing && before == nil && (now.statusType == .offline || now.statusType == .unlogined)
        let isOnlineNew = before?.statusType != now.statusType || before?.since != now.since
        var events: [NIMSubscribeEvent] = []
        if isAwaited || (isOnlineNew && !isTakenForOffline) { events.append(.online(status)) }
        if let event = now.event, isAwaited || event != before?.event { events.append(.published(event, by: status)) }
        return events
    }
}
