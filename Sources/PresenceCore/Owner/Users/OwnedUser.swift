import PresenceWire

/// The state that an owner, or a replica, keeps of one user.
struct OwnedUser {
    var record: Record
    let slot: Slot
    // Small fields stand next to each other, because the gaps between them cost memory for every user.
    /// Whether another node owns the user. This node then keeps the facts and decides nothing.
    var isReplica = false
    /// The number of list changes that wait for a disk before they go to the nodes with sessions.
    var unpublishedCount: Int32 = 0
    /// A hash of the user's ID.
    let nameHash: UInt64
    /// The user's part of ``SlotHashes``. Only ``UserStore`` sets it.
    var factsHash: UInt64 = 0
    /// The sessions, sorted by ID.
    var sessions: [OwnedSession] = []
    /// The streams that hear without being seen, in the order of their beginning. They change no status: see ``Listener``.
    var listeners: [OwnedSession] = []
    /// The sessions that this owner has ended, and whose nodes have not reported that yet.
    var endedSessions: [EndedSession] = []
    /// The nodes that watch the user, sorted, because the order reaches the wire.
    var watchers: [PeerIndex] = []
    var subscriptions = Subscriptions()
    /// The hash of the list as it was sent to the nodes with sessions. It changes with each change that they receive.
    var listHash: UInt64 = 0
    /// A hash of the open sessions that the nodes with sessions were last sent; 0 if they were sent none: see ``SessionNews``.
    var toldSessions: UInt64 = 0
    /// The time until which the user stays ONLINE without a session, because gateways may still register sessions. Nil once the status is
    /// confirmed.
    var confirmationDeadline: Instant?
    /// The time of the last sign of life. The record shows it from its next visible change on, because one version has one content.
    var lastSeenTime: Milliseconds = 0
    /// The user's status after the last session, by the way in which that one ended (T2, T7).
    var statusAfterLast = StatusType.offline
    /// The time at which the user is reviewed because its facts may break a rule; nil if they break none.
    ///
    /// The rules: the quota of the list, subscriptions of type 3 only to friends, and no custom status that outlives its OFFLINE. They
    /// break when the facts of two sides of a split are merged, and when the policy changes.
    var repairDueAt: Instant?
    /// The record before one whose writer knew a newer visibility, which has not arrived yet. A viewer may have received it.
    ///
    /// It is a list, which takes no room when it is empty.
    var keptBeforeRule: [Record] = []
    /// The durable lists of the user. Only ``UserStore/modifyLists(_:_:)`` changes them.
    var lists = UserLists()

    init(record: Record) {
        self.record = record
        nameHash = record.user.withBytes { StableHash.hash64($0) }
        slot = record.user.slot
    }

    /// A hash of the user's facts; 0 for none.
    ///
    /// It changes nothing. It is `mutating` because a nonmutating method would be called on a copy of the user.
    mutating func currentFactsHash() -> UInt64 {
        var hash = subscriptions.isEmpty ? 0 : StableHash.mix(nameHash, subscriptions.hash)
        if !lists.isEmpty { hash = StableHash.mix(nameHash ^ hash, lists.hash) }
        guard record.version > .zero || record.customStatusVersion > .zero else { return hash }
        for version in [record.version, record.customStatusVersion] {
            hash = StableHash.mix(StableHash.mix(nameHash ^ hash, version.stamp), UInt64(version.node))
        }
        if let privacy = record.privacy {
            hash = StableHash.mix(StableHash.mix(nameHash ^ hash, privacy.version.stamp), UInt64(privacy.version.node))
        }
        return hash
    }

    /// The first contradiction between parts of the user, in words; nil for none. For simulations and tests.
    func brokenInvariant() -> String? {
        let id = record.user
        guard zip(sessions, sessions.dropFirst()).allSatisfy({ $0.id < $1.id }) else { return "\(id): unsorted sessions: \(sessions)" }
        guard zip(watchers, watchers.dropFirst()).allSatisfy({ $0 < $1 }) else { return "\(id): unsorted watchers: \(watchers)" }
        if let broken = subscriptions.brokenInvariant() ?? lists.brokenInvariant(of: id) { return "\(id): \(broken)" }
        guard isReplica else { return keptBeforeRule.isEmpty ? nil : "\(id) is not a replica and waits for a rule" }
        let isIdle =
            streams.isEmpty && endedSessions.isEmpty && watchers.isEmpty && confirmationDeadline == nil && repairDueAt == nil
            && unpublishedCount == 0
        return isIdle ? nil : "\(id) is a replica and has what only an owner has: \(self)"
    }

    /// Whether the user can be removed without a loss.
    var isBlank: Bool {
        record.version == .zero && sessions.isEmpty && watchers.isEmpty && subscriptions.isEmpty && confirmationDeadline == nil
            && lists.isEmpty && listeners.isEmpty
    }

    /// The hash ``listHash``; nil while a change of the list waits for a disk.
    var publishedListHash: UInt64? { unpublishedCount == 0 ? listHash : nil }

    /// The sessions and the listeners, which receive the same.
    var streams: [OwnedSession] { listeners.isEmpty ? sessions : sessions + listeners }

    /// The nodes that hold a session or a listener of the user, sorted.
    var sessionPeers: [PeerIndex] {
        var peers: [PeerIndex] = []
        for session in sessions where !peers.contains(session.peer) { peers.append(session.peer) }
        for listener in listeners where !peers.contains(listener.peer) { peers.append(listener.peer) }
        return peers.sorted()
    }

    /// The status that follows from the sessions and `devices`.
    ///
    /// The user is ONLINE while a session is open or in its grace, or while push reaches a device. While the status is unconfirmed it does
    /// not get lower, because other gateways may still register sessions.
    func status(with devices: [PushDevice]) -> (status: StatusType, platforms: [String]) {
        var platforms = sessions.map(\.platform) + devices.map(\.platform)
        if confirmationDeadline != nil { platforms += record.onlinePlatforms }
        let isOnline = !sessions.isEmpty || !devices.isEmpty || (confirmationDeadline != nil && record.statusType == .online)
        if isOnline { return (.online, Array(platforms.sortedSet.prefix(Limits.sessionsPerUserMax))) }
        return (record.statusType == .online ? statusAfterLast : record.statusType, [])
    }

    /// Adds or removes a watching node. Returns whether that changed anything.
    mutating func setWatcher(_ peer: PeerIndex, _ isWatching: Bool) {
        let index = watchers.firstIndex { $0 >= peer } ?? watchers.count
        let isThere = index < watchers.count && watchers[index] == peer
        if isWatching, !isThere { watchers.insert(peer, at: index) }
        if !isWatching, isThere { watchers.remove(at: index) }
    }

    /// The earliest instant at which a part of the user ends by itself. It changes nothing, like ``currentFactsHash()``.
    @inline(__always)
    mutating func nextInstant() -> Instant {
        var next = min(confirmationDeadline ?? .farFuture, repairDueAt ?? .farFuture)
        for session in sessions { next = min(next, session.graceDeadline ?? .farFuture) }
        return next
    }

    /// The earliest instant, including the parts that end at a time of the wall clock.
    mutating func nextDeadline(at now: Now) -> Instant {
        var next = min(nextInstant(), nextPushDeadline(at: now))
        if record.customStatusExpiresAt > 0 { next = min(next, now.instant(of: record.customStatusExpiresAt)) }
        if let expiry = record.privacy?.nextExpiry { next = min(next, now.instant(of: expiry)) }
        if let expiry = record.nextEventExpiry { next = min(next, now.instant(of: expiry)) }
        if let expiry = subscriptions.nextExpiry { next = min(next, now.instant(of: expiry)) }
        if !lists.isEmpty, case let end = lists.endsNext, end < .max { next = min(next, now.instant(of: end)) }
        return next
    }
}

/// A session, as its user's owner knows it.
struct OwnedSession {
    let id: SessionID
    /// The node of the session's gateway. It follows ``id``, which leaves room for four bytes.
    private let peerNumber: Int32
    let openedAt: Milliseconds
    let platform: String
    let deviceID: String
    /// The ID of the last registration that named the session.
    var registrationID: UInt64
    /// The end of the grace of a session that was disconnected or whose gateway's node is dead. Until then the user stays ONLINE.
    var graceDeadline: Instant?
    /// See ``PresenceWire/Attach/isPushReachable``.
    var isPushReachable: Bool
    /// Whether an end of the session was counted.
    ///
    /// A session may come back after it was counted: its node registers it again. A session of a dead node is counted when it is retired.
    var isCounted = false
    /// Why the session was disconnected.
    var loss = Loss.closed

    /// The reason why a session was disconnected.
    enum Loss: UInt8 {
        /// The connection ended, or the gateway's node died.
        case closed
        /// The client was silent.
        case silent
        /// The token of the session has ended.
        case tokenExpired
    }

    init(
        id: SessionID, peer: PeerIndex, openedAt: Milliseconds, platform: String, deviceID: String, isPushReachable: Bool,
        registrationID: UInt64
    ) {
        self.id = id
        peerNumber = Int32(peer)
        self.openedAt = openedAt
        self.platform = platform
        self.deviceID = deviceID
        self.isPushReachable = isPushReachable
        self.registrationID = registrationID
    }

    /// The node of the session's gateway.
    var peer: PeerIndex { PeerIndex(peerNumber) }

    /// Whether both sessions are of one platform and one device. A session that does not name its device may be of any.
    func isOfDevice(of other: OwnedSession) -> Bool {
        platform == other.platform && deviceID == other.deviceID
    }

    /// Whether a login replaces this session, which is in its grace.
    func isReturn(of other: OwnedSession) -> Bool { graceDeadline != nil && isOfDevice(of: other) }
}

extension Policy.MultiClient {
    /// Whether two sessions of a user may not be open together.
    func excludes(_ other: OwnedSession, besides session: OwnedSession) -> Bool {
        switch self {
        case .single: true
        case .perPlatform: other.platform == session.platform
        case .all: other.id == session.id || (!session.deviceID.isEmpty && other.isOfDevice(of: session))
        }
    }
}

extension Record {
    /// Whether the custom status is still set although the user went away after setting it.
    var hasOutlivedStatus: Bool {
        statusType != .online && !customStatus.isEmpty && customStatusVersion.milliseconds < lastOnlineStatusUpdateTime
    }
}

extension OwnedUser {
    /// Records that the user is there until now, if a session is open: a call is about to end sessions.
    mutating func noteSeen(at wall: Milliseconds) {
        if sessions.contains(where: { $0.graceDeadline == nil }) { lastSeenTime = max(lastSeenTime, wall) }
    }

    /// Ends all sessions, as a kick does. Returns them. The user has not logged out and is OFFLINE (T2).
    mutating func endAll(at wall: Milliseconds, reason: String) -> [OwnedSession] {
        noteSeen(at: wall)
        (confirmationDeadline, statusAfterLast) = (nil, .offline)
        for session in sessions where session.graceDeadline == nil {
            awaitEnd(EndedSession(which: .one(session.id), peer: session.peer, reason: reason))
        }
        defer { sessions = [] }
        return sessions
    }
}

extension OwnedUser {
    /// Adds a session, or replaces the one with its ID.
    mutating func open(_ session: OwnedSession) {
        let index = sessions.firstIndex { $0.id >= session.id } ?? sessions.count
        if index < sessions.count, sessions[index].id == session.id { return sessions[index] = session }
        sessions.insert(session, at: index)
    }

    /// Ends the sessions that may not be open together with a newer login: those of the same device, and those that the app's policy does
    /// not allow (T34). Returns them.
    ///
    /// The older session of a device may be half open: its client has gone elsewhere, and no FIN says so.
    mutating func endReplaced(by session: OwnedSession, isLogin: Bool, scope: Policy.MultiClient) -> [OwnedSession] {
        let rivals = sessions.filter { scope.excludes($0, besides: session) }
        guard rivals.count > 1 else { return [] }
        // A session that is registered again although a login has ended it was opened before that login: the message was lost.
        let newest = rivals.max { ($0.openedAt, $0.id) < ($1.openedAt, $1.id) } ?? session
        // Clocks of gateways differ a little, so a login is the newest. A login that was opened long before has waited for a broken link.
        let isNewest = isLogin && newest.openedAt - session.openedAt <= Self.loginOrderTolerance
        return end(rivals.filter { $0.id != (isNewest ? session.id : newest.id) })
    }

    /// The time, in milliseconds, by which a login may be older than another one that was registered before, and still replace it.
    static let loginOrderTolerance: Milliseconds = 1_000

    /// Ends the sessions with the earliest logins beyond the limit. Returns them.
    ///
    /// A login is the latest of all, even if the clock of its gateway is behind the others.
    mutating func endBeyondLimit(_ session: OwnedSession, isLogin: Bool) -> [OwnedSession] {
        let surplus = sessions.count - Limits.sessionsPerUserMax
        guard surplus > 0 else { return [] }
        let earlier = sessions.filter { !isLogin || $0.id != session.id }.sorted { ($0.openedAt, $0.id) < ($1.openedAt, $1.id) }
        return end(earlier.prefix(surplus))
    }

    /// Ends some of the sessions. Returns them.
    private mutating func end(_ ended: some Collection<OwnedSession>) -> [OwnedSession] {
        sessions.removeAll { session in ended.contains { $0.id == session.id } }
        return Array(ended)
    }

    /// The sessions that a logout ends: the named one, or all with nil.
    ///
    /// The disconnected sessions of the device end as well, as with a login of the device. Otherwise they would keep the user ONLINE for
    /// their graces, and then make it OFFLINE.
    func sessions(endedByLogoutOf id: SessionID?) -> [OwnedSession] {
        guard let id else { return sessions }
        guard let named = sessions.first(where: { $0.id == id }) else { return [] }
        return sessions.filter { $0.id == id || $0.isReturn(of: named) }
    }

    /// Whether the user is certainly OFFLINE: neither a session nor a device keeps it ONLINE.
    var isOffline: Bool { record.statusType == .offline && sessions.isEmpty && confirmationDeadline == nil }

    /// Removes the disconnected sessions for which `isOver` holds. Returns them.
    mutating func retire(where isOver: (OwnedSession) -> Bool) -> [OwnedSession] { end(sessions.filter(isOver)) }

    /// The result of ``endWhatIsDue(at:offlineGrace:)``.
    struct Ended {
        /// The number of sessions that were not counted as disconnected yet.
        var disconnectedCount: UInt64 = 0
        /// Whether the subscription list must be repaired.
        var isRepairDue = false
        /// The sessions that ended, each with the reason.
        var losses: [SessionID: OwnedSession.Loss] = [:]
    }

    /// Ends the parts that end by themselves at an instant: graces of sessions, an unconfirmed status, devices.
    ///
    /// - Parameter offlineGrace: the policy's grace of a disconnected session.
    mutating func endWhatIsDue(at now: Now, offlineGrace: Duration) -> Ended {
        var ended = Ended()
        if sessions.contains(where: { ($0.graceDeadline ?? .farFuture) <= now.instant }) {
            let lateness = sessions.compactMap(\.graceDeadline).map { now.instant - $0 }.filter { $0 >= .zero }.min() ?? .zero
            let retired = retire { ($0.graceDeadline ?? .farFuture) <= now.instant }
            for session in retired { ended.losses[session.id] = session.loss }
            ended.disconnectedCount = UInt64(retired.count { !$0.isCounted })
            statusAfterLast = .offline
            dateLoss(lateness: lateness, graceBegan: now.wall - offlineGrace.wholeMilliseconds)
        }
        if let doubt = confirmationDeadline, doubt <= now.instant { confirmationDeadline = nil }
        endReachability(at: now)
        if let due = repairDueAt, due <= now.instant { (repairDueAt, ended.isRepairDue) = (nil, true) }
        return ended
    }

    /// Dates the last sign of life one grace before the OFFLINE, to the millisecond, if the connection was alive until it closed.
    ///
    /// The tick that ends a grace comes some milliseconds late. Otherwise a viewer could tell by them a disconnected user from one who
    /// hides.
    private mutating func dateLoss(lateness: Duration, graceBegan: Milliseconds) {
        let wasHeard = lastSeenTime + lateness.wholeMilliseconds + 1 >= graceBegan
        if sessions.isEmpty, wasHeard { lastSeenTime = max(lastSeenTime, graceBegan) }
    }

    /// Records that the session at `index` is disconnected and may come back until the deadline. Returns whether it was not counted as
    /// disconnected yet.
    mutating func disconnect(_ index: Int, until deadline: Instant, by loss: OwnedSession.Loss = .closed) -> Bool {
        sessions[index].graceDeadline = deadline
        sessions[index].loss = loss
        guard !sessions[index].isCounted else { return false }
        sessions[index].isCounted = true
        return true
    }

    /// Records that sessions of dead nodes may come back until the deadline. Returns whether there is any.
    mutating func awaitReturn(ofSessionsOn peers: Set<PeerIndex>, until deadline: Instant) -> Bool {
        var isChanged = false
        for index in sessions.indices where peers.contains(sessions[index].peer) {
            sessions[index].graceDeadline = deadline
            isChanged = true
        }
        return isChanged
    }
}

extension Now {
    /// The monotonic instant of a wall-clock time, as of now.
    func instant(of wall: Milliseconds) -> Instant {
        instant + .milliseconds(max(wall - self.wall, 0))
    }
}

extension [String] {
    /// The elements, sorted by bytes, each once.
    fileprivate var sortedSet: [String] {
        var result: [String] = []
        for text in sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) where result.last != text { result.append(text) }
        return result
    }
}
