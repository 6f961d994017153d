/// What a reader is still to be told. State, not messages: a newer status replaces an older one of the same user, so a reader that
/// sleeps costs no more than the users it follows.
struct Mailbox {
    private enum Item: Equatable {
        case event(PresenceEvent)
        /// Where the changed statuses stand among the events.
        case statuses
    }

    private let usersMax: Int
    private let eventsMax: Int
    private var items: [Item] = []
    private var pending: [UserKey: UserStatus] = [:]
    /// Users of ``pending``, in the order in which they changed first.
    private var order: [UserKey] = []

    /// - Parameters:
    ///   - usersMax: beyond it the user that has waited longest is left out; it can still be read by `status(of:)`.
    ///   - eventsMax: other events that may wait; beyond it the oldest is left out.
    init(usersMax: Int, eventsMax: Int = 64) {
        self.usersMax = usersMax
        self.eventsMax = eventsMax
    }

    /// Whether nothing waits.
    var isEmpty: Bool { items.isEmpty }

    /// Adds an event, or lets it replace what it makes out of date.
    mutating func add(_ event: PresenceEvent) {
        switch event {
        case .userStatusChanged(let statuses): for status in statuses { add(status) }
        case .subscriptionChangedOnOtherDevices(let change): add(change)
        default: append(.event(event))
        }
    }

    /// Leaves out all that waits.
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
        guard let place = items.firstIndex(of: .statuses) else { return append(.statuses) }
        // The status belongs to the newest session, so its reader is told of that session first.
        guard items[place...].contains(where: { if case .event(.connected) = $0 { true } else { false } }) else { return }
        items.append(items.remove(at: place))
    }

    private mutating func add(_ change: SubscriptionChange) {
        for (place, item) in items.enumerated() {
            guard case .event(.subscriptionChangedOnOtherDevices(var earlier)) = item else { continue }
            earlier.merge(change)
            items[place] = .event(.subscriptionChangedOnOtherDevices(earlier))
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
