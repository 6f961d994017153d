import PresenceWire

/// The users that the sessions of a gateway follow, indexed in both directions.
///
/// A record finds the sessions that watch its user, and a session finds the users that it follows, both without a search.
/// Orders depend only on the order of the calls, so two runs push in the same order.
struct WatchIndex: ~Copyable {
    typealias UserIndex = UserTable<Int>.Index
    typealias SessionIndex = Gateway.SessionIndex

    /// The outcome of a request to follow a user.
    enum OnFollow: Equatable {
        /// The session follows the user already.
        case unchanged
        /// The session follows the user from now on. `isFirst`: no session followed the user before.
        case followed(isFirst: Bool)
    }

    private struct User {
        var record: Record?
        /// The sessions of the user itself, in the order in which they were opened.
        var sessions: [SessionIndex] = []
        /// The newest version of the user's subscription list that a message named.
        var listVersion = Version.zero
    }

    private var users = UserTable<User>()
    /// The records that are withheld until they are delivered again; empty unless the node stood still a moment ago.
    private var withheld: [UserIndex: Record] = [:]
    /// The users that are followed for their statuses.
    private var statuses = FollowIndex()
    /// The users whose profiles are followed. Nothing here is read when a status changes.
    private(set) var profiles = FollowIndex()

    init() {}

    // MARK: Users

    /// Users that a session follows, or that have a session.
    var usersCount: Int { users.count }

    /// The index of `user`, if it is here.
    func index(of user: UserID) -> UserIndex? { users.index(of: user) }

    /// The index of `user`, which is added if it is not here.
    mutating func insert(_ user: UserID) -> UserIndex { users.index(of: user, orInsert: User()).index }

    /// The user at an index.
    func user(at index: UserIndex) -> UserID { users.user(at: index) }

    /// The newest record of a user; nil until the first one is here, and while the record is withheld.
    func record(of user: UserIndex) -> Record? { users[user].record }

    /// Stores a newer record of a user.
    mutating func store(_ record: Record, of user: UserIndex) { users[user].record = record }

    /// Withholds all records. Returns their users, in order.
    mutating func withholdRecords() -> [UserIndex] {
        let known = users.allIndices.filter { users.isLive($0) && users[$0].record != nil }
        for user in known { withheld[user] = users[user].record.take() }
        return known
    }

    /// Whether the record of a user is withheld.
    func isWithheld(_ user: UserIndex) -> Bool { withheld[user] != nil }

    /// Withholds the record of a user no longer. Returns whether it was withheld.
    mutating func release(recordOf user: UserIndex) -> Bool {
        guard !withheld.isEmpty, let record = withheld.removeValue(forKey: user) else { return false }
        users[user].record = record
        return true
    }

    /// Stores since when the owner knows the record that is here already.
    mutating func raiseKnownSince(of user: UserIndex, to time: Milliseconds) {
        guard let known = users[user].record?.knownSince, known < time else { return }
        users[user].record?.knownSince = time
    }

    /// The sessions that follow a user.
    func watchers(of user: UserIndex) -> [SessionIndex] { statuses.watchers(of: user) }

    /// The sessions of a user.
    func sessions(of user: UserIndex) -> [SessionIndex] { users[user].sessions }

    /// The newest version of a user's subscription list that a message named.
    func listVersion(of user: UserIndex) -> Version { users[user].listVersion }

    /// Raises the version of a user's subscription list. A lower one changes nothing.
    mutating func raiseListVersion(of user: UserIndex, to version: Version) {
        users[user].listVersion = max(users[user].listVersion, version)
    }

    /// Removes those of `candidates` that no session follows and that have no session. Returns them, in order.
    mutating func removeUnused(_ candidates: [UserIndex]) -> [UserID] {
        var removed: [UserID] = []
        for user in candidates where users.isLive(user) && !isUsed(user) {
            removed.append(users.user(at: user))
            users.remove(user)
            withheld[user] = nil
        }
        return removed
    }

    /// Whether a session follows a user or the profile of it, or the user has a session.
    private func isUsed(_ user: UserIndex) -> Bool { !users[user].sessions.isEmpty || isFollowed(user) }

    private func isFollowed(_ user: UserIndex) -> Bool {
        !statuses.watchers(of: user).isEmpty || !profiles.watchers(of: user).isEmpty
    }

    // MARK: Profiles

    /// Has a session follow the profile of a user.
    mutating func followProfile(of user: UserIndex, by session: SessionIndex) -> OnFollow {
        let isFirst = !isFollowed(user)
        return profiles.follow(user, by: session) ? .followed(isFirst: isFirst) : .unchanged
    }

    /// Has a session stop following the profile of a user. Returns false if it did not.
    mutating func unfollowProfile(of user: UserIndex, by session: SessionIndex) -> Bool { profiles.unfollow(user, by: session) }

    // MARK: Sessions

    /// Adds a session of a user. The session follows no user yet.
    mutating func addSession(_ session: SessionIndex, of user: UserIndex) {
        precondition(!statuses.hasTargets(session), "session \(session) follows users before it is opened")
        users[user].sessions.append(session)
    }

    /// Removes a session of a user. The session must have stopped following.
    mutating func removeSession(_ session: SessionIndex, of user: UserIndex) {
        precondition(!statuses.hasTargets(session), "session \(session) still follows users when it is closed")
        users[user].sessions.removeAll { $0 == session }
    }

    /// The users that a session follows, sorted.
    func targets(of session: SessionIndex) -> [UserIndex] { statuses.targets(of: session) }

    /// Whether a session follows a user.
    func follows(_ user: UserIndex, _ session: SessionIndex) -> Bool { statuses.follows(user, session) }

    /// Has a session follow a user.
    mutating func follow(_ user: UserIndex, by session: SessionIndex) -> OnFollow {
        let isFirst = !isFollowed(user)
        return statuses.follow(user, by: session) ? .followed(isFirst: isFirst) : .unchanged
    }

    /// Has a session stop following a user. Returns false if the session did not follow the user.
    mutating func unfollow(_ user: UserIndex, by session: SessionIndex) -> Bool { statuses.unfollow(user, by: session) }

    // MARK: Invariants

    /// Stops the process if the two directions of the index differ.
    func checkInvariants() {
        for user in users.allIndices where users.isLive(user) {
            precondition(isUsed(user), "user \(user) has no watcher and no session, and is kept")
        }
        // The order does not matter: each is only looked up.
        for user in withheld.keys { precondition(users.isLive(user) && users[user].record == nil, "a record of user \(user) is withheld") }
        statuses.checkInvariants { users.isLive($0) }
        profiles.checkInvariants { users.isLive($0) }
    }
}
