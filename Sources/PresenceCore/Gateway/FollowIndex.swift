import PresenceWire

/// The users that the sessions of a gateway follow for one reason, indexed in both directions: for their statuses, or for their profiles.
///
/// Orders depend only on the order of the calls.
struct FollowIndex {
    typealias UserIndex = WatchIndex.UserIndex
    typealias SessionIndex = Gateway.SessionIndex

    private struct Target {
        let user: UserIndex
        /// The index of the session among the user's watchers.
        var position: UInt32
    }

    /// By user: the sessions that follow the user, in no particular order.
    private var watchers: [[SessionIndex]] = []
    /// By session; each list is sorted by user.
    private var targets: [[Target]] = []

    /// The sessions that follow a user.
    func watchers(of user: UserIndex) -> [SessionIndex] { Int(user) < watchers.count ? watchers[Int(user)] : [] }

    /// The users that a session follows, sorted.
    func targets(of session: SessionIndex) -> [UserIndex] {
        Int(session) < targets.count ? targets[Int(session)].map(\.user) : []
    }

    /// Whether a session follows any user.
    func hasTargets(_ session: SessionIndex) -> Bool { Int(session) < targets.count && !targets[Int(session)].isEmpty }

    /// Whether a session follows a user.
    func follows(_ user: UserIndex, _ session: SessionIndex) -> Bool {
        Int(session) < targets.count && find(user, in: session).isFound
    }

    /// Has a session follow a user. Returns false if it does already.
    mutating func follow(_ user: UserIndex, by session: SessionIndex) -> Bool {
        while targets.count <= Int(session) { targets.append([]) }
        while watchers.count <= Int(user) { watchers.append([]) }
        let (index, isFound) = find(user, in: session)
        if isFound { return false }
        targets[Int(session)].insert(Target(user: user, position: UInt32(watchers[Int(user)].count)), at: index)
        watchers[Int(user)].append(session)
        return true
    }

    /// Has a session stop following a user. Returns false if it did not follow the user.
    mutating func unfollow(_ user: UserIndex, by session: SessionIndex) -> Bool {
        guard Int(session) < targets.count else { return false }
        let (index, isFound) = find(user, in: session)
        guard isFound else { return false }
        let position = Int(targets[Int(session)].remove(at: index).position)
        // The last watcher moves to the position that is free now.
        let last = watchers[Int(user)].removeLast()
        // An empty list gives its memory back.
        if targets[Int(session)].isEmpty { targets[Int(session)] = [] }
        if watchers[Int(user)].isEmpty { watchers[Int(user)] = [] }
        guard position < watchers[Int(user)].count else { return true }
        watchers[Int(user)][position] = last
        targets[Int(last)][find(user, in: last).index].position = UInt32(position)
        return true
    }

    /// The index at which `user` is, or would be, among the targets of a session.
    private func find(_ user: UserIndex, in session: SessionIndex) -> (index: Int, isFound: Bool) {
        let index = targets[Int(session)].insertionIndex { $0.user < user }
        return (index, index < targets[Int(session)].count && targets[Int(session)][index].user == user)
    }

    // MARK: Invariants

    /// Stops the process if the two directions of the index differ, or if a user is followed who is not here.
    func checkInvariants(isLive: (UserIndex) -> Bool) {
        var targetsCount = 0
        for (session, targets) in targets.enumerated() {
            var previous: UserIndex?
            for target in targets {
                precondition(previous.map { $0 < target.user } ?? true, "the targets of session \(session) are not sorted")
                previous = target.user
                precondition(isLive(target.user), "session \(session) follows user \(target.user), which was removed")
                let watchers = watchers(of: target.user)
                let isListed = Int(target.position) < watchers.count && watchers[Int(target.position)] == SessionIndex(session)
                precondition(isListed, "user \(target.user) does not have session \(session) at position \(target.position)")
            }
            targetsCount += targets.count
        }
        let watchersCount = watchers.reduce(0) { $0 + $1.count }
        precondition(targetsCount == watchersCount, "\(targetsCount) targets, but \(watchersCount) watchers")
    }
}
