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

    private var told: [String: Told] = [:]

    /// The events that a status brings.
    mutating func untold(of status: UserStatus) -> [NIMSubscribeEvent] {
        let now = Told(statusType: status.statusType, since: status.lastOnlineStatusUpdateTime, event: status.event)
        if told.count >= Self.usersMax { told.removeAll() }
        let before = told.updateValue(now, forKey: status.userID)
        var events: [NIMSubscribeEvent] = []
        if before?.statusType != now.statusType || before?.since != now.since { events.append(.online(status)) }
        if let event = now.event, event != before?.event { events.append(.published(event, by: status)) }
        return events
    }
}
