/// The newest status of each user that this client has received. It never goes back.
///
/// Statuses arrive by the stream, which listeners receive, and by answers, which only their callers receive. For each user the view keeps
/// what listeners have received, so that they miss nothing that an answer brought first.
struct StatusView {
    private struct Entry {
        var status: UserStatus
        /// The version that listeners received last.
        var delivered: String?
        /// The number of its last change.
        var changedAt: UInt64
    }

    private let usersMax: Int
    private var entries: [UserKey: Entry] = [:]
    private var changes: UInt64 = 0

    /// - Parameter usersMax: the most users. Beyond it the users without a change for longest are dropped.
    init(usersMax: Int) { self.usersMax = usersMax }

    /// The newest status of a user.
    subscript(userID: String) -> UserStatus? { entries[UserKey(userID)]?.status }

    /// The number of known users.
    var count: Int { entries.count }

    /// All known statuses, in no particular order.
    var statuses: [UserStatus] { entries.values.map(\.status) }

    /// Stores the statuses of an answer.
    mutating func store(_ statuses: some Sequence<UserStatus>) {
        for status in statuses { keep(status) }
        dropOldest()
    }

    /// Stores statuses of the stream. Returns those that listeners have not received, the newest of each user.
    mutating func deliver(_ statuses: some Sequence<UserStatus>) -> [UserStatus] {
        var undelivered: [UserStatus] = []
        for status in statuses {
            let delivered = entries[UserKey(status.userID)]?.delivered
            guard delivered.map({ status.version > $0 }) ?? true else {
                if replace(status) { undelivered.append(status) }
                continue
            }
            let newest = keep(status)
            entries[UserKey(status.userID)]?.delivered = newest.version
            undelivered.append(newest)
        }
        dropOldest()
        return undelivered
    }

    /// Replaces a delivered status by the same version of it, because the app's policy shows it in another way now, or because it is
    /// unsure or sure again. Returns whether they differ.
    private mutating func replace(_ status: UserStatus) -> Bool {
        let user = UserKey(status.userID)
        guard let known = entries[user], known.delivered == status.version, known.status.version == status.version,
            known.status != status
        else { return false }
        entries[user]?.status = status
        return true
    }

    @discardableResult private mutating func keep(_ status: UserStatus) -> UserStatus {
        if let known = entries[UserKey(status.userID)]?.status, known.version >= status.version { return known }
        changes += 1
        entries[UserKey(status.userID)] = Entry(status: status, delivered: entries[UserKey(status.userID)]?.delivered, changedAt: changes)
        return status
    }

    /// Drops an eighth of the users at once, so that a full view does not search its oldest at each change.
    private mutating func dropOldest() {
        guard entries.count > usersMax else { return }
        let oldest = entries.sorted { $0.value.changedAt < $1.value.changedAt }
        for (user, _) in oldest.prefix(entries.count - usersMax + usersMax / 8) { entries[user] = nil }
    }
}
