/// The events that a reader has not received yet.
///
/// They are state, not messages: a newer status replaces an older one of the same user. A sleeping reader costs no more than the users that
/// it follows.
struct Mailbox {
    private enum Item: Equatable {
        case event(PresenceEvent)
        /// The position of the changed statuses among the events.
        case statuses
    }

    private let usersMax: Int
    private let eventsMax: Int
    private var items: [Item] = []
    private var pending: [UserKey: UserStatus] = [:]
    /// The users of ``pending``, in the order of their first changes.
    private var order: [UserKey] = []

    /// - Parameters:
    ///   - usersMax: the most users. Beyond it the user that has waited longest is dropped; `status(of:)` still returns its status.
    ///   - eventsMax: the most other events. Beyond it the oldest is dropped.
    init(usersMax: Int, eventsMax: Int = 64) {
        self.usersMax = usersMax
        self.eventsMax = eventsMax
    }

    /// Whether nothing waits.
    var isEmpty: Bool { items.isEmpty }

    /// Adds an event, which may replace an outdated one.
    mutating func add(_ event: PresenceEvent) {
        switch event {
        case .userStatusChanged(let statuses): for status in statuses { add(status) }
        case .subscriptionChangedOnOtherDevices(let change): add(change)
        case .sessionsChanged:
            // It has all sessions, in the place of those that its reader has not received.
            items.removeAll { if case .event(.sessionsChanged) = $0 { true } else { false } }
            append(.event(event))
        default: append(.event(event))
        }
    }

    /// Drops all waiting events.
    mutating func removeAll() {
        items.removeAll()
        pending.removeAll()
        order.removeAll()
    }

    /// The next event.
    mutating func take() -> PresenceEvent? {
        guard !items.isEmpty else { return nil }
        switch items.removeFirst() {
        case .event(let event): return event
        case .statuses:
            let statuses = order.compactMap { pending[$0] }
            pending.removeAll()
            order.removeAll()
            return .userStatusChanged(statuses)
        }
    }

    private mutating func add(_ status: UserStatus) {
        let user = UserKey(status.userID)
        if pending.updateValue(status, forKey: user) == nil { order.append(user) }
        if order.count > usersMax { pending[order.removeFirst()] = nil }
        guard let index = items.firstIndex(of: .statuses) else { return append(.statuses) }
        // The status belongs to the newest session, so its reader receives the session first.
        guard items[index...].contains(where: { if case .event(.connected) = $0 { true } else { false } }) else { return }
        items.append(items.remove(at: index))
    }

    private mutating func add(_ change: SubscriptionChange) {
        for (index, item) in items.enumerated() {
            guard case .event(.subscriptionChangedOnOtherDevices(var earlier)) = item else { continue }
            earlier.merge(change)
            items[index] = .event(.subscriptionChangedOnOtherDevices(earlier))
            return
        }
        append(.event(.subscriptionChangedOnOtherDevices(change)))
    }

    private mutating func append(_ item: Item) {
        items.append(item)
        guard items.count > eventsMax, let oldest = items.firstIndex(where: { $0 != .statuses }) else { return }
        items.remove(at: oldest)
    }
}
