/// The newest status of each user that this client has heard of; never goes back.
///
/// Statuses come by the stream, which is told to the listeners, and by answers, which only their callers see. So that a listener misses
/// nothing an answer told first, it is kept for each user what was told.
struct StatusView {
    private struct Entry {
        var status: UserStatus
        /// The version that listeners were told last.
        var told: String?
        /// When it changed last, counted.
        var changedAt: UInt64
    }

    private let usersMax: Int
    private var entries: [UserKey: Entry] = [:]
    private var changes: UInt64 = 0

    /// - Parameter usersMax: beyond it the users are forgotten whose status has not changed for longest.
    init(usersMax: Int) { self.usersMax = usersMax }

    /// The newest status of a user.
    subscript(userID: String) -> UserStatus? { entries[UserKey(userID)]?.status }

    /// Users known.
    var count: Int { entries.count }

    /// All that is known, in no particular order.
    var statuses: [UserStatus] { entries.values.map(\.status) }

    /// Takes what an answer says.
    mutating func learn(_ statuses: some Sequence<UserStatus>) {
        for status in statuses { keep(status) }
        forgetSurplus()
    }

    /// Takes what the stream says; returns what listeners have not been told, the newest of each user.
    mutating func tell(_ statuses: some Sequence<UserStatus>) -> [UserStatus] {
        var untold: [UserStatus] = []
        for status in statuses {
            let told = entries[UserKey(status.userID)]?.told
            guard told.map({ status.version > $0 }) ?? true else { continue }
            let newest = keep(status)
            entries[UserKey(status.userID)]?.told = newest.version
            untold.append(newest)
        }
        forgetSurplus()
        return untold
    }

    @discardableResult private mutating func keep(_ status: UserStatus) -> UserStatus {
        if let known = entries[UserKey(status.userID)]?.status, known.version >= status.version { return known }
        changes += 1
        entries[UserKey(status.userID)] = Entry(status: status, told: entries[UserKey(status.userID)]?.told, changedAt: changes)
        return status
    }

    /// Forgets an eighth at once, so that a full view does not look for its oldest at each change.
    private mutating func forgetSurplus() {
        guard entries.count > usersMax else { return }
        let oldest = entries.sorted { $0.value.changedAt < $1.value.changedAt }
        for (user, _) in oldest.prefix(entries.count - usersMax + usersMax / 8) { entries[user] = nil }
    }
}
