import PresenceCore
import PresenceWire

/// What is true, whatever the nodes believe: which sessions exist, and what was acknowledged to whom.
struct Truth {
    /// Whether a user has sessions, and since when.
    struct Presence {
        var openCount = 0
        var platforms: [Int] = []
        /// Since when somebody who looks may not see the user go: absences shorter than the grace do not count.
        var continuousSince: Nanoseconds?
        var absentSince: Nanoseconds = 0
        /// Until then an owner that was new while the user was written down as ONLINE may take the user for present.
        var doubtedUntil: Nanoseconds = .min / 2
        /// A shorter absence must not be seen.
        var tolerance: Nanoseconds = 0
        /// Until then the last one of the sessions that ended is waited for.
        var awaitedUntil: Nanoseconds = 0
        /// Until then an OFFLINE is in order: the user asked for it.
        var excusedUntil: Nanoseconds = 0
        /// How the last session ended: by a logout, or lost; nil where another one ended so shortly before that either may count.
        var endedByLogout: Bool?
        var lastEndAt: Nanoseconds = .min / 2
        /// When the last session began.
        var lastOpenedAt: Nanoseconds = .min / 2
        /// The newest record that said OFFLINE, on whichever side of a split.
        var offlineVersion = Version.zero
    }

    /// A custom status that was asked for.
    struct Wish {
        let text: String
        let expires: Bool
        /// When it has ended at the latest, if it was acknowledged and ends by itself.
        var endsBy: Nanoseconds?
        /// Nil when nobody has heard of its end.
        var version: Version?
        /// When the record had last changed that was answered; a rule of who may see the user gives it a version and no change.
        var changedAt: Milliseconds = .max
        var acknowledgedAt: Nanoseconds = .max
    }

    var presences: [Presence]
    /// Who ever did something, or was to be followed: of nobody else a node has anything.
    private(set) var isConcerned: [Bool]
    /// By user: sessions that ended by a logout, while the word of it has not reached the user's owner. Users with none have no entry.
    var unheardLogouts: [Int: [SessionID]] = [:]
    var wishes: [[Wish]]
    var books: [SubscriptionBook]
    var sights: [Sight]
    var events: [EventBook]
    var reaches: [Reach]
    var contents: [Contents]
    var policy: PolicyTruth
    /// Events that synced sessions are to be told.
    var expectations: [Expectation] = []
    /// Kicks that were acknowledged.
    var kicks: [Kick] = []
    /// When nodes were killed.
    var killsAt: [Nanoseconds] = []

    init(usersCount: Int, settings: CoreSettings) {
        let quota = settings.subscriptionsMax
        events = Array(repeating: EventBook(), count: usersCount)
        reaches = Array(repeating: Reach(), count: usersCount)
        contents = Array(repeating: Contents(), count: usersCount)
        policy = PolicyTruth(standard: settings.policy)
        presences = Array(repeating: Presence(), count: usersCount)
        isConcerned = Array(repeating: false, count: usersCount)
        wishes = Array(repeating: [], count: usersCount)
        sights = Array(repeating: Sight(), count: usersCount)
        books = Array(repeating: SubscriptionBook(quota: quota), count: usersCount)
    }

    /// See ``isConcerned``, in order.
    var concerned: [Int] { isConcerned.indices.filter { isConcerned[$0] } }

    mutating func concern(_ user: Int) { isConcerned[user] = true }

    mutating func opened(_ user: Int, device: Int, at now: Nanoseconds) {
        concern(user)
        presences[user].openCount += 1
        presences[user].lastOpenedAt = now
        presences[user].platforms.append(device)
        guard presences[user].openCount == 1 else { return }
        let absence = now - presences[user].absentSince
        // Who comes back in the same moment comes after who went: that may be seen.
        if absence >= presences[user].tolerance { presences[user].continuousSince = now }
    }

    /// - Parameter tolerance: how long the user is waited for; nil where nobody who is left may have heard of the session: then no longer than
    ///   for the sessions that ended before.
    mutating func closed(_ user: Int, device: Int, tolerance: Nanoseconds?, at now: Nanoseconds) {
        presences[user].openCount -= 1
        if let place = presences[user].platforms.firstIndex(of: device) { presences[user].platforms.remove(at: place) }
        if let tolerance { presences[user].awaitedUntil = max(presences[user].awaitedUntil, now + tolerance) }
        guard presences[user].openCount == 0 else { return }
        presences[user].absentSince = now
        presences[user].tolerance = tolerance ?? max(presences[user].awaitedUntil - now, 0)
    }

    /// Owners have changed, and wait for the reconnect grace, each from its own beginning, for sessions of whoever is written down as ONLINE:
    /// so is who is there, who has not been away for `grace` yet, and who has been waited for until now.
    mutating func ownersChanged(of users: [Int], grace: Nanoseconds, reconnectGrace: Nanoseconds, at now: Nanoseconds) {
        for user in users {
            let presence = presences[user]
            guard presence.openCount > 0 || presence.absentSince >= now - grace || presence.doubtedUntil >= now - .milliseconds(2_000)
            else { continue }
            presences[user].doubtedUntil = now + reconnectGrace
        }
    }

    /// What was acknowledged may have been on none of the nodes that are left.
    mutating func doubtSights() { for user in sights.indices { sights[user].doubt() } }

    /// A session has ended, and how is known to the cluster for certain only if no other one has just done so. `byLogout` is nil where its
    /// owner may never have heard of it.
    mutating func noteEnd(of user: Int, byLogout: Bool?, at now: Nanoseconds) {
        let isAlone = now - presences[user].lastEndAt > .milliseconds(15_000)
        if isAlone { unheardLogouts[user] = nil }
        presences[user].endedByLogout = isAlone || presences[user].endedByLogout == byLogout ? byLogout : nil
        presences[user].lastEndAt = now
    }

    /// The newest status that the user was told is set.
    func newestAcknowledged(_ user: Int) -> Wish? {
        newestAcknowledged(user, before: .max)
    }

    /// The same of what was told before a moment.
    func newestAcknowledged(_ user: Int, before moment: Nanoseconds) -> Wish? {
        wishes[user].filter { $0.version != nil && $0.acknowledgedAt < moment }.max { $0.version! < $1.version! }
    }
}

/// Whom a user follows, by the rules alone; exact as long as every operation was answered.
struct SubscriptionBook {
    private struct Entry {
        let target: Int
        let addedAt: Nanoseconds
        let expiresAt: Nanoseconds?
    }

    private let quota: Int
    private var entries: [Entry] = []
    /// An operation of the user is under way.
    var isBusy = false
    /// No operation has been left without an answer.
    private(set) var isCertain = true
    /// Somebody was removed, by whatever rule: whoever is followed again is told again.
    private var hasRemoved = false
    /// From when on the operation that is under way may have added somebody who is gone again.
    private var removesFrom: Nanoseconds = .max
    /// When an operation last changed it.
    private(set) var changedAt: Nanoseconds = .min / 2

    init(quota: Int) { self.quota = quota }

    mutating func doubt() { (isCertain, hasRemoved) = (false, true) }

    /// An operation begins; with `seconds` it adds somebody for so long.
    mutating func begin(seconds: Int64?, at now: Nanoseconds) {
        isBusy = true
        removesFrom = seconds.map { now + $0 * 1_000_000_000 } ?? .max
    }

    /// Whether somebody who is followed may be followed anew. Until its caller has an answer an operation is tried again on every new link:
    /// who was added for a time by an attempt whose answer was lost, and has gone since, is added by the next one.
    func mayHaveRemoved(at now: Nanoseconds) -> Bool { hasRemoved || (isBusy && removesFrom <= now) }

    /// Returns who is evicted: the earliest, those just added last.
    mutating func subscribe(_ targets: [Int], at now: Nanoseconds, expiresAt: Nanoseconds?) -> [Int] {
        expire(at: now)
        changedAt = now
        var added: [Int] = []
        for target in targets where !added.contains(target) { added.append(target) }
        entries.removeAll { added.contains($0.target) }
        // Those of one call are equally old: the order of their names decides.
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

    /// Sorted.
    func targets(at now: Nanoseconds) -> [Int] {
        entries.filter { ($0.expiresAt ?? .max) > now }.map(\.target).sorted()
    }

    /// Whether somebody has not been followed for a while.
    func hasLeft(_ target: Int, for span: Nanoseconds, at now: Nanoseconds) -> Bool {
        now - changedAt > span && !entries.contains { $0.target == target && ($0.expiresAt ?? .max) > now - span }
    }

    /// Those that are certain to be there: added before `since` and not about to end.
    func settledTargets(since: Nanoseconds, until: Nanoseconds) -> [Int] {
        entries.filter { $0.addedAt < since && ($0.expiresAt ?? .max) > until }.map(\.target).sorted()
    }
}
