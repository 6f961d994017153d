/// The profiles that a client has fetched (P3, P4). A value without a clock: times are durations since a fixed moment.
struct ProfileCache {
    private struct Entry {
        let profile: UserProfile
        let fetchedAt: Duration
    }

    private let usersMax: Int
    private let expiry: Duration
    private var entries: [UserKey: Entry] = [:]

    /// - Parameters:
    ///   - usersMax: most profiles. Beyond it those fetched earliest are dropped.
    ///   - expiry: the time after which a profile is fetched again.
    init(usersMax: Int, expiry: Duration) { (self.usersMax, self.expiry) = (usersMax, expiry) }

    /// The number of profiles.
    var count: Int { entries.count }

    /// The profile of a user; nil if it is unknown or too old.
    func profile(of userID: String, at now: Duration) -> UserProfile? {
        guard let entry = entries[UserKey(userID)], now - entry.fetchedAt < expiry else { return nil }
        return entry.profile
    }

    mutating func store(_ profiles: [UserProfile], at now: Duration) {
        for profile in profiles { entries[UserKey(profile.userID)] = Entry(profile: profile, fetchedAt: now) }
        guard entries.count > usersMax else { return }
        // An eighth at once, so that a full cache does not search its oldest at each change.
        let oldest = entries.sorted { $0.value.fetchedAt < $1.value.fetchedAt }
        for (user, _) in oldest.prefix(entries.count - usersMax + usersMax / 8) { entries[user] = nil }
    }

    /// The user's profile has changed.
    mutating func remove(_ userID: String) { entries[UserKey(userID)] = nil }

    mutating func removeAll() { entries = [:] }
}
