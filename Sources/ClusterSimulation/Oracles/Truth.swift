import PresenceCore
import PresenceWire

/// The true state, whatever the nodes believe: the sessions that exist, and the acknowledged changes.
struct Truth {
    /// Whether a user has sessions, and since when.
    struct Presence {
        var openCount = 0
        var platforms: [Int] = []
        /// The time since when watchers must see the user as present. Absences shorter than the grace do not count.
        var continuousSince: Nanoseconds?
        var absentSince: Nanoseconds = 0
        /// The time until which an owner that took over while the user was ONLINE on disk may consider the user present.
        var doubtedUntil: Nanoseconds = .min / 2
        /// The length below which an absence must not be seen.
        var tolerance: Nanoseconds = 0
        /// The time until which the last ended session may come back.
        var awaitedUntil: Nanoseconds = 0
        /// The time until which an OFFLINE is allowed, because the user asked for it.
        var excusedUntil: Nanoseconds = 0
        /// Whether the last session ended by a logout; nil if another one ended so shortly before that either may count.
        var endedByLogout: Bool?
        var lastEndAt: Nanoseconds = .min / 2
        /// The start of the last session.
        var lastOpenedAt: Nanoseconds = .min / 2
        /// The version of the newest record with OFFLINE, on whichever side of a split.
        var offlineVersion = Version.zero
    }

    /// A custom status whose call was made.
    struct ExpectedStatus {
        let text: String
        let expires: Bool
        /// The latest end of the status, if it was acknowledged and ends by itself.
        var endsBy: Nanoseconds?
        /// The acknowledged version; nil if the call had no answer.
        var version: Version?
        /// The time of the last change in the answered record. A visibility gives the record a version without a change.
        var changedAt: Milliseconds = .max
        var acknowledgedAt: Nanoseconds = .max
    }

    var presences: [Presence]
    /// Whether each user ever acted, or was a target. Nodes hold nothing of any other user.
    private(set) var isConcerned: [Bool]
    /// For each user the sessions that ended by a logout of which the user's owner has not learned yet. Users without any have no entry.
    var undeliveredLogouts: [Int: [SessionID]] = [:]
    var expectedStatuses: [[ExpectedStatus]]
    var subscriptions: [ExpectedSubscriptions]
    var oracles: [VisibilityOracle]
    var events: [ExpectedEvents]
    var reach: PushReach
    var contents: [Contents]
    /// The statuses that each viewer was shown of a user who may hide.
    var shownContents: [[Contents]]
    var sequences = SequenceContents()
    var ledger = SessionLedger()
    var policy: PolicyTruth
    var chain: ChainOracle
    var groups = GroupOracle()
    var profiles: ProfileOracle
    var repeats = RepeatOracle()
    /// The events that synced sessions must receive.
    var expectations: [Expectation] = []
    /// The acknowledged kicks.
    var kicks: [Kick] = []
    /// The times of kills.
    var killsAt: [Nanoseconds] = []

    init(usersCount: Int, settings: CoreSettings) {
        let quota = Int(settings.policy.subscriptionsMax)
        events = Array(repeating: ExpectedEvents(), count: usersCount)
        reach = PushReach(usersCount: usersCount)
        contents = Array(repeating: Contents(), count: usersCount)
        shownContents = Array(repeating: [], count: usersCount)
        policy = PolicyTruth(standard: settings.policy)
        chain = ChainOracle(usersCount: usersCount, friendsMax: Int(settings.policy.chain.friendsMax))
        profiles = ProfileOracle(usersCount: usersCount)
        presences = Array(repeating: Presence(), count: usersCount)
        isConcerned = Array(repeating: false, count: usersCount)
        expectedStatuses = Array(repeating: [], count: usersCount)
        oracles = Array(repeating: VisibilityOracle(), count: usersCount)
        subscriptions = Array(repeating: ExpectedSubscriptions(quota: quota), count: usersCount)
    }

    /// The users of ``isConcerned``, in order.
    var concerned: [Int] { isConcerned.indices.filter { isConcerned[$0] } }

    mutating func concern(_ user: Int) { isConcerned[user] = true }

    /// Excuses a user's absence for some time, because the user was asked to go, or was kicked.
    mutating func excuseAbsence(of user: Int, at now: Nanoseconds) {
        presences[user].excusedUntil = now + .milliseconds(8_000)
        (presences[user].endedByLogout, presences[user].lastEndAt) = (nil, now)
    }

    mutating func opened(_ user: Int, device: Int, at now: Nanoseconds) {
        concern(user)
        presences[user].openCount += 1
        presences[user].lastOpenedAt = now
        presences[user].platforms.append(device)
        guard presences[user].openCount == 1 else { return }
        let absence = now - presences[user].absentSince
        // A return in the same moment comes after the departure. That may be seen.
        if absence >= presences[user].tolerance { presences[user].continuousSince = now }
    }

    /// Records the end of a session.
    ///
    /// - Parameter tolerance: the grace of the user; nil if no remaining node may know the session. Then the grace of the earlier sessions
    /// applies.
    mutating func closed(_ user: Int, device: Int, tolerance: Nanoseconds?, at now: Nanoseconds) {
        presences[user].openCount -= 1
        if let index = presences[user].platforms.firstIndex(of: device) { presences[user].platforms.remove(at: index) }
        if let tolerance { presences[user].awaitedUntil = max(presences[user].awaitedUntil, now + tolerance) }
        guard presences[user].openCount == 0 else { return }
        presences[user].absentSince = now
        presences[user].tolerance = tolerance ?? max(presences[user].awaitedUntil - now, 0)
    }

    /// Records new owners of users. Each new owner waits for one reconnect grace for the sessions of users who are ONLINE on disk.
    ///
    /// Those are the users who are present, who have been away for less than `grace`, or who have been waited for until now.
    mutating func ownersChanged(of users: [Int], grace: Nanoseconds, reconnectGrace: Nanoseconds, at now: Nanoseconds) {
        for user in users {
            let presence = presences[user]
            guard presence.openCount > 0 || presence.absentSince >= now - grace || presence.doubtedUntil >= now - .milliseconds(2_000)
            else { continue }
            presences[user].doubtedUntil = now + reconnectGrace
        }
    }

    /// Records that nodes may follow another policy from now on.
    mutating func ask(_ policy: Policy, at now: Nanoseconds) {
        self.policy.ask(policy, at: now)
        chain.mayAllow(policy.chain.defaultAllowType)
    }

    /// Records how a session ended. The cluster knows it for certain only if no other session has just ended.
    ///
    /// - Parameter byLogout: nil if the owner may never have received it.
    mutating func noteEnd(of user: Int, byLogout: Bool?, at now: Nanoseconds) {
        let isAlone = now - presences[user].lastEndAt > .milliseconds(15_000)
        if isAlone { undeliveredLogouts[user] = nil }
        presences[user].endedByLogout = isAlone || presences[user].endedByLogout == byLogout ? byLogout : nil
        presences[user].lastEndAt = now
    }

    /// Records that a call gets no answer. It may have been carried out or not.
    mutating func unanswered(_ call: SimulatedCall) {
        if case .owner(.setVisibility) = call.call { oracles[call.user].end() }
        if case .setAppPolicy = call.call { policy.isBusy = false }
        chain.refused(call, mayTakeEffect: true, at: call.at + .milliseconds(5_000))
        guard call.call.changesSubscriptions else { return }
        subscriptions[call.user].isBusy = false
        subscriptions[call.user].doubt()
    }

    /// Records that a call was refused, and has changed nothing.
    mutating func refused(_ call: SimulatedCall, at now: Nanoseconds) {
        switch call.call {
        case .owner(.chain), .getFriendList: chain.refused(call, mayTakeEffect: false, at: now)
        case .owner(.friendCall(let asked)):
            chain.refused(call, mayTakeEffect: false, at: now)
            profiles.refused(call, mayTakeEffect: false)
            groups.refused(asked, by: call.user, at: now)
        case .owner(.setVisibility): oracles[call.user].refuse()
        case .setAppPolicy: policy.isBusy = false
        case .owner(.setSelfStatus(let text, _)): refuseStatus(text, of: call.user)
        default: if call.call.changesSubscriptions { subscriptions[call.user].isBusy = false }
        }
    }

    /// Records that a custom status was refused, and has changed nothing.
    private mutating func refuseStatus(_ text: String, of user: Int) {
        let index = expectedStatuses[user].lastIndex { $0.text == text && $0.version == nil && $0.acknowledgedAt == .max }
        if let index { expectedStatuses[user].remove(at: index) }
    }

    /// The newest custom status acknowledged before `moment`.
    func newestAcknowledged(_ user: Int, before moment: Nanoseconds = .max) -> ExpectedStatus? {
        expectedStatuses[user].filter { $0.version != nil && $0.acknowledgedAt < moment }.max { $0.version! < $1.version! }
    }
}

/// The subscriptions of a user by the rules alone. They are exact as long as every call was answered.
struct ExpectedSubscriptions {
    private struct Entry {
        let target: Int
        let addedAt: Nanoseconds
        let expiresAt: Nanoseconds?
    }

    private let quota: Int
    private var entries: [Entry] = []
    /// Those to friends (type 3), which end with the friendship.
    var friends = ExpectedFriendFollows()
    /// Whether a call of the user is under way.
    var isBusy = false
    /// Whether every call was answered.
    private(set) var isCertain = true
    /// Whether any target was ever removed. A target that is followed again is sent again.
    private var hasRemoved = false
    /// The time from which the call under way may have added a target that has expired since.
    private var removesFrom: Nanoseconds = .max
    /// The time of the last change by a call.
    private(set) var changedAt: Nanoseconds = .min / 2

    init(quota: Int) { self.quota = quota }

    mutating func doubt() {
        mayEndWithFriendships()
        friends.doubt()
    }

    /// Records that targets may cease to be followed at times that no answer names.
    mutating func mayEndWithFriendships() { (isCertain, hasRemoved) = (false, true) }

    /// Starts a call; with `seconds` its subscriptions expire.
    mutating func begin(seconds: Int64?, at now: Nanoseconds) {
        isBusy = true
        removesFrom = seconds.map { now + $0 * 1_000_000_000 } ?? .max
    }

    /// Whether a followed target may be followed again.
    ///
    /// A call without an answer is repeated on every new link. If an attempt with a lost answer has added a target that has expired since,
    /// the next attempt adds it again.
    func mayHaveRemoved(at now: Nanoseconds) -> Bool { hasRemoved || (isBusy && removesFrom <= now) }

    /// Adds targets. Returns the evicted ones: the earliest, and those just added last.
    mutating func subscribe(_ targets: [Int], at now: Nanoseconds, expiresAt: Nanoseconds?) -> [Int] {
        expire(at: now)
        changedAt = now
        var added: [Int] = []
        for target in targets where !added.contains(target) { added.append(target) }
        entries.removeAll { added.contains($0.target) }
        // The targets of one call are equally old. The order of their names decides.
        added.sort { "\($0)".utf8.lexicographicallyPrecedes("\($1)".utf8) }
        for target in added { entries.append(Entry(target: target, addedAt: now, expiresAt: expiresAt)) }
        guard entries.count > quota else { return [] }
        let surplus = entries.count - quota
        hasRemoved = true
        let evicted = entries.prefix(surplus).map(\.target)
        entries.removeFirst(surplus)
        return evicted
    }

    mutating func unsubscribe(_ targets: [Int]?, at now: Nanoseconds) {
        (hasRemoved, changedAt) = (true, now)
        guard let targets else { return entries.removeAll() }
        entries.removeAll { targets.contains($0.target) }
    }

    mutating func expire(at now: Nanoseconds) { entries.removeAll { ($0.expiresAt ?? .max) <= now } }

    /// The targets at `now`, sorted.
    func targets(at now: Nanoseconds) -> [Int] {
        entries.filter { ($0.expiresAt ?? .max) > now }.map(\.target).sorted()
    }

    /// Whether a target has not been followed for a while.
    func hasLeft(_ target: Int, for span: Nanoseconds, at now: Nanoseconds) -> Bool {
        now - changedAt > span && !entries.contains { $0.target == target && ($0.expiresAt ?? .max) > now - span }
    }

    /// The targets that are certainly followed: added before `since`, and not about to end.
    func settledTargets(since: Nanoseconds, until: Nanoseconds) -> [Int] {
        entries.filter { $0.addedAt < since && ($0.expiresAt ?? .max) > until }.map(\.target).sorted()
    }
}
