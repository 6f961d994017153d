import PresenceWire

/// The one writer of every record whose user's slot this node owns: decides ONLINE, OFFLINE and UNLOGINED, stamps the version,
/// tells each node that watches, and writes the durable rows (design §2, OwnerShard).
///
/// One value for all the node's slots: a slot is a range of hashes, and a user's state does not depend on its slot.
/// Does no I/O, reads no clock: `now` comes in, messages and rows go out.
struct OwnerShards {
    /// Counts for the metrics. A session that ends is counted once: as logged out, lost, kicked or surplus.
    struct Counters: Equatable, Sendable {
        var logouts: UInt64 = 0
        var sessionsLost: UInt64 = 0
        var sessionsKicked: UInt64 = 0
        /// Ended to make room for a newer one of the same user.
        var sessionsSurplus: UInt64 = 0
        var evictions: UInt64 = 0
        var tombstonesForgotten: UInt64 = 0
        var usersRemoved: UInt64 = 0
        var clocksRefused: UInt64 = 0
        var usersOnline = 0
    }

    typealias Index = UserTable<OwnedUser>.Index

    let settings: CoreSettings
    private(set) var counters = Counters()
    var clock: VersionClock
    var users = UserTable<OwnedUser>()
    /// The users of each slot, and a hash of what is kept of them.
    var book = SlotBook()
    /// The registration round that each peer is in.
    var rounds: [PeerIndex: Round] = [:]
    /// When each user is looked at next, because something ends by itself.
    private(set) var reviews = Deadlines<Instant>()
    /// When something of what is remembered of each user's list is forgotten next, by the wall clock, whoever owns the user.
    private(set) var forgettings = Deadlines<Milliseconds>()
    /// How many users' places were written since all records were given new versions; nil when all were.
    var unwritten: Int?
    /// See ``renew(at:)``.
    var isRenewed = false
    /// Clients may have been told that all is complete up to here, by nodes that have left or are missed: see ``doubtPositions(at:)``.
    var claimedByOthers: Milliseconds = 0
    /// What comes is from the own disk.
    private var isLoading = false
    /// No other node that keeps the same users can be reached, though there are some.
    var isCutOff = false {
        didSet { if oldValue, !isCutOff { reviewAll = true } }
    }
    /// This node decides without having heard what all others hold, also those that are gone: they were waited for long enough, or two of three
    /// keepers are missed. A list may lack some, and an unsubscribe of a target that is not known is remembered.
    var isUnheard = false
    /// Who went OFFLINE meanwhile is to be looked at again: see ``reviewOutlived(at:)``.
    var reviewAll = false
    var policies: Policies
    /// By the users that this node owns.
    var followers = Followers()
    /// Members of the ring.
    var nodesCount = 1
    /// The next place to look at for a user that may be removed.
    var removalPlace: Index = 0

    init(clock: VersionClock, settings: CoreSettings) {
        policies = Policies(standard: settings.policy, configured: settings.policies)
        self.clock = clock
        self.settings = settings
    }

    // MARK: Sessions

    /// A gateway's node says that a session is open.
    mutating func attach(_ attach: Attach, from peer: PeerIndex, at now: Now, into outbox: inout Outbox) {
        let user = index(of: attach.user)
        if let record = attach.record { adopt(record, at: user, now: now, into: &outbox) }
        // Nobody has this list yet. What an owner before told must not pass for it.
        if users[user].sessions.isEmpty { users[user].listMark = ViewDigest.mark(clock.next(at: now.wall)) }
        // What was asked for with a login was done when the session was first heard of.
        let known = users[user].sessions.first { $0.id == attach.session }
        let isLogin = attach.isLogin && known == nil
        retire(user) { $0.id != attach.session && $0.isReplaced(by: attach) }
        users[user].sessions.removeAll { $0.id == attach.session }
        var session = OwnedSession(
            id: attach.session, peer: peer, openedAt: attach.openedAt, platform: attach.platform, deviceID: attach.deviceID,
            isPushReachable: attach.isPushReachable, epoch: rounds[peer]?.epoch ?? 0)
        session.isCounted = known?.isCounted ?? false
        if isLogin {
            notePush(attach, at: user)
            users[user].lastSeenTime = max(users[user].lastSeenTime, now.wall)
        }
        let place = users[user].sessions.firstIndex { $0.id > session.id } ?? users[user].sessions.count
        users[user].sessions.insert(session, at: place)
        endReplaced(by: session, isLogin: isLogin, of: user, into: &outbox)
        endSurplus(user, into: &outbox)
        var text: String?
        if isLogin, let customStatus = attach.customStatus, !customStatus.isEmpty { text = customStatus }
        let seconds = policies.policy(of: attach.user).customStatusSeconds
        let expiry = text == nil || seconds == 0 ? 0 : now.wall + seconds * 1_000
        settle(
            user, customStatus: text, customStatusExpiresAt: expiry, departed: isLogin && !attach.isPushReachable ? [session] : [], at: now,
            into: &outbox)
        outbox.lists.append((peer, attach.user))
    }

    /// A gateway's node says that a session has ended. Only that one: a late end never ends a newer session (design §5).
    /// With `isMoving` its client was asked to go elsewhere.
    mutating func detach(_ detach: Detach, from peer: PeerIndex, isMoving: Bool, at now: Now, into outbox: inout Outbox) {
        guard let user = users.index(of: detach.user),
            let place = users[user].sessions.firstIndex(where: { $0.id == detach.session && $0.peer == peer })
        else { return }
        var departed: [OwnedSession] = []
        switch detach.cause {
        case .loggedOut:
            let session = users[user].sessions.remove(at: place)
            if !session.isCounted { counters.logouts += 1 }
            departed.append(session)
            users[user].statusAfterLast = .unlogined
        case .lost:
            countLost(place, of: user)
            let offlineGrace = policies.policy(of: detach.user).offlineGrace
            let grace = isMoving ? max(offlineGrace, settings.movingGrace) : offlineGrace
            users[user].sessions[place].missedUntil = now.instant + grace
            users[user].lastSeenTime = max(users[user].lastSeenTime, now.wall - detach.silence)
            if grace == .zero { return review(user, at: now, into: &outbox) }
        }
        settle(user, departed: departed, at: now, into: &outbox)
    }

    /// Nodes are gone: their sessions are orphans that may come back within ``CoreSettings/reconnectGrace``; nothing is told to them any more.
    mutating func peersLost(_ peers: Set<PeerIndex>, at now: Now, into outbox: inout Outbox) {
        for user in users.places where users.isLive(user) {
            users[user].watchers.removeAll { peers.contains($0) }
            var isChanged = false
            for place in users[user].sessions.indices where peers.contains(users[user].sessions[place].peer) {
                users[user].sessions[place].missedUntil = now.instant + settings.reconnectGrace
                isChanged = true
            }
            if isChanged { settle(user, at: now, into: &outbox) }
        }
    }

    /// A newer login ends the sessions that the app's policy allows no longer beside it (T34).
    private mutating func endReplaced(by session: OwnedSession, isLogin: Bool, of user: Index, into outbox: inout Outbox) {
        let scope = policies.policy(of: users.user(at: user)).multiClient
        guard scope != .all else { return }
        let rivals = users[user].sessions.filter { scope == .single || $0.platform == session.platform }
        // A session that is registered again, though a login has ended it, was opened before that login: the word of it was lost.
        let newest = isLogin ? session : rivals.max { ($0.openedAt, $0.id) < ($1.openedAt, $1.id) }
        for rival in rivals where rival.id != newest?.id { end(rival, of: user, into: &outbox) }
    }

    private mutating func endSurplus(_ user: Index, into outbox: inout Outbox) {
        while users[user].sessions.count > Limits.sessionsPerUserMax { end(users[user].sessions[0], of: user, into: &outbox) }
    }

    /// Ends a session that makes room for a newer one.
    private mutating func end(_ session: OwnedSession, of user: Index, into outbox: inout Outbox) {
        users[user].sessions.removeAll { $0.id == session.id }
        if !session.isCounted { counters.sessionsSurplus += 1 }
        outbox.send(.end(session.id, user: users.user(at: user), reason: SessionEnd.replaced), to: session.peer)
    }

    /// Ends the sessions of a user for which `isOver` holds, and which nobody has ended: they were lost.
    mutating func retire(_ user: Index, where isOver: (OwnedSession) -> Bool) {
        var lostCount: UInt64 = 0
        users[user].sessions.removeAll { session in
            guard isOver(session) else { return false }
            if !session.isCounted { lostCount += 1 }
            return true
        }
        counters.sessionsLost += lostCount
    }

    // MARK: Watching

    /// A node wants to be told of users. Those it holds an older version of, or none, come with the answer.
    mutating func watch(_ watches: [Watch], from peer: PeerIndex, at now: Now, into outbox: inout Outbox) {
        var watched: [Watched] = []
        var bytesCount = 0
        watched.reserveCapacity(watches.count)
        for watch in watches {
            let user = index(of: watch.user)
            if let record = watch.record { adopt(record, at: user, now: now, into: &outbox) }
            users[user].setWatcher(peer, true)
            schedule(user, at: now)
            if isRenewed, users[user].record.version == .zero { renew(user, at: now, into: &outbox) }
            let record = users[user].record
            let knownSince = record.version == watch.held ? record.knownSince : 0
            watched.append(Watched(user: watch.user, record: record.version > watch.held ? record : nil, knownSince: knownSince))
            bytesCount += record.privacy?.bytesCount ?? 0
            guard bytesCount > Link.batchBytesTarget else { continue }
            outbox.send(.watched(watched), to: peer)
            (watched, bytesCount) = ([], 0)
        }
        outbox.send(.watched(watched), to: peer)
    }

    /// A node does not care any more.
    mutating func unwatch(_ unwatched: [UserID], from peer: PeerIndex) {
        for id in unwatched {
            guard let user = users.index(of: id) else { continue }
            users[user].setWatcher(peer, false)
            removeBlank(id)
        }
    }

    // MARK: Writing

    /// A change of a user's events.
    enum EventChange {
        case publish(PublishedEvent, seconds: Int64)
        case expire

        /// Applies it to a record whose version was just written.
        func apply(to record: inout Record, at now: Now) {
            switch self {
            case .publish(var event, let seconds):
                event.id = record.version
                event.expiresAt = event.publishedAt + seconds * 1_000
                record.events.publish(event)
            case .expire: record.events.expire(at: now.wall)
            }
        }
    }

    /// Brings the record in line with the sessions and, if that or `customStatus` changes it, writes and tells it once. A record that
    /// another node has brought (`isNews`) is told in any case. The devices of `departed` sessions were logged out.
    mutating func settle(
        _ user: Index, customStatus: String? = nil, customStatusExpiresAt: Milliseconds = 0, events: EventChange? = nil,
        visibility: VisibilityChange? = nil, isLogout: Bool = false, departed: [OwnedSession] = [], isNews: Bool = false, at now: Now,
        into outbox: inout Outbox
    ) {
        let old = users[user].record
        var record = old
        record.pushDevices = isLogout ? [] : pushDevices(of: user, without: departed, at: now)
        users[user].record.pushDevices = record.pushDevices
        (record.statusType, record.onlinePlatforms) = users[user].decided
        if isLogout, record.statusType == .offline { record.statusType = .unlogined }  // T2
        if let customStatus {
            record.customStatus = customStatus
            record.customStatusExpiresAt = customStatus.isEmpty ? 0 : customStatusExpiresAt
        }
        // Not where only one disk can be reached: the user may be well on the other side of a split.
        let wentAway = record.statusType != .online && (old.statusType == .online || old.hasOutlivedStatus) && !isCutOff
        let policy = policies.policy(of: record.user)
        if wentAway, customStatus == nil, policy.clearsCustomStatus(of: record.statusType) {
            (record.customStatus, record.customStatusExpiresAt) = ("", 0)
        }  // T11
        let statusChanged = record.statusType != old.statusType
        let platformsChanged = record.onlinePlatforms != old.onlinePlatforms
        let textChanged = record.customStatus != old.customStatus
        let customChanged = textChanged || record.customStatusExpiresAt != old.customStatusExpiresAt
        // T8, Z14: what others are not shown moves no time that they are shown.
        let isShown = statusChanged || textChanged || events != nil || (platformsChanged && policy.exposesPlatforms)
        if statusChanged { record.lastOnlineStatusUpdateTime = now.wall }
        if textChanged { record.lastCustomStatusUpdateTime = now.wall }
        if !users[user].sessions.isEmpty { users[user].statusAfterLast = .offline }
        counters.usersOnline += (record.statusType == .online ? 1 : 0) - (old.statusType == .online ? 1 : 0)
        let isChanged = isShown || platformsChanged || customChanged || record.pushDevices != old.pushDevices
        if isChanged || visibility != nil || record.hasExpiredFace(at: now.wall) {
            if isShown {
                // A viewer that was told nothing between two changes sees by it that there were two.
                record.lastUpdateTime = max(now.wall, old.lastUpdateTime + 1)
                record.lastSeenTime = max(record.lastSeenTime, users[user].lastSeenTime)
            }
            record.version = clock.next(at: now.wall)
            if customChanged { record.customStatusVersion = record.version }
            events?.apply(to: &record, at: now)
            changePrivacy(of: &record, to: visibility, face: isChanged ? record : old, at: now)
            record.knownSince = knownSince(ofNew: record)
        }
        users[user].record = record
        noteFacts(of: user)
        if record.version != old.version || isNews { tell(user, into: &outbox) }
        schedule(user, at: now)
    }

    /// One delta to each node that watches, this one like any other, and one durable row.
    func tell(_ user: Index, into outbox: inout Outbox) {
        let record = users[user].record
        outbox.changes.append((record, users[user].watchers))
        outbox.rows.append(Row(record))
        // What was changed with the record is written with it.
        if record.changesPrivacy, let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
    }

    /// Takes over what a node holds of the user, if that is newer, and tells those who watch; an ONLINE that no session vouches for is
    /// doubted for the grace.
    mutating func adopt(_ record: Record, at user: Index, now: Now, into outbox: inout Outbox) {
        let before = users[user].record
        let (old, friends) = (before.privacy?.version, before.privacy?.visibility.friends ?? [])
        guard keep(record, at: user, now: now) else { return }
        if users[user].record.privacy?.visibility.friends ?? [] != friends { friendsChanged(of: user, at: now, into: &outbox) }
        users[user].record.knownSince = knownSince(at: now)
        settle(user, isNews: true, at: now, into: &outbox)
        let kept = users[user].record
        if let privacy = kept.privacy, privacy.version != old, !kept.changesPrivacy { outbox.rows.append(Row(privacy, of: kept.user)) }
        // An answer may have shown what no stream has told yet: what replaces that is no change of the rule alone, of which streams are told
        // only where they have told another face (seed 3096019).
        guard kept.changesPrivacy, before.version > .zero, !kept.looksLike(before) else { return }
        let version = clock.next(at: now.wall)
        users[user].record.version = version
        noteFacts(of: user)
        tell(user, into: &outbox)
    }

    /// Keeps what is newer: the record, and by versions of their own the custom status, the events and who may see the user. Where only some of them
    /// are, because they were written on two sides of a split, all together are a new fact with a version of its own. Returns whether
    /// anything was newer.
    mutating func keep(_ record: Record, at user: Index, now: Now) -> Bool {
        let old = users[user].record
        let isNewer = record.version > old.version
        let isCustomNewer = record.customStatusVersion > old.customStatusVersion
        let isPrivacyNewer = record.privacy.map { $0.isNewer(than: old.privacy) } ?? false
        // One of them was written without the other's rule, and somebody may have been shown it who is shown something older by that.
        let isUnaware =
            isNewer && isPrivacyNewer
            ? record.isBehind(old) : old.privacy?.isUnknown(to: record) ?? false || record.privacy?.isUnknown(to: old) ?? false
        let isRegistration = record.isRegistered && !old.isRegistered
        let hasNewerEvents = record.hasPublished && old.events.isBehind(record.events)
        guard isNewer || isCustomNewer || hasNewerEvents || isPrivacyNewer || isUnaware || isRegistration else { return false }
        guard accepts(max(record.version, record.customStatusVersion, record.privacy?.version ?? .zero), at: now) else { return false }
        var (kept, other) = isNewer ? (record, old) : (old, record)
        let takesCustomStatus = other.customStatusVersion > kept.customStatusVersion
        let takesPrivacy = other.privacy.map { $0.isNewer(than: kept.privacy) } ?? false
        if takesCustomStatus { kept.takeCustomStatus(of: other) }
        let takesEvents = other.hasPublished && kept.events.isBehind(other.events)
        if takesEvents { kept.events.merge(other.events) }
        if takesPrivacy { kept.privacy = other.privacy }
        // The newer rule may be in an older row, and what was shown without it newer than what is shown by it.
        let raisesPrivacy = takesPrivacy || isUnaware || kept.privacy?.version ?? .zero < old.privacy?.version ?? .zero
        if takesCustomStatus || takesEvents || raisesPrivacy {
            let version = clock.next(at: now.wall)
            kept.version = version
            if raisesPrivacy { kept.privacy?.raise(to: version) }
        }
        if other.isRegistered, !kept.isRegistered { (kept.isRegistered, kept.version) = (true, clock.next(at: now.wall)) }
        users[user].lastSeenTime = max(users[user].lastSeenTime, other.lastSeenTime)
        users[user].record = kept
        noteFacts(of: user)
        guard !users[user].isReplica else { return true }
        counters.usersOnline += (kept.statusType == .online ? 1 : 0) - (old.statusType == .online ? 1 : 0)
        if isNewer, kept.statusType == .online { users[user].doubtDeadline = now.instant + settings.reconnectGrace }
        return true
    }

    /// Whether a version that was heard of is not too far in the future; then the next one issued here is newer.
    mutating func accepts(_ version: Version, at now: Now) -> Bool {
        guard isLoading || clock.accepts(version, at: now.wall) else {
            counters.clocksRefused += 1
            return false
        }
        clock.observe(version)
        return true
    }

    // MARK: Time

    /// Ends what ends by itself: graces, doubts, custom statuses, subscriptions.
    mutating func tick(at now: Now, into outbox: inout Outbox) {
        reviewOutlived(at: now)
        while let next = reviews.first, next.at <= now.instant {
            reviews.remove(next.index)
            if !users[next.index].isReplica { review(next.index, at: now, into: &outbox) }
        }
    }

    /// Users looked at in one tick because something of their lists is to be forgotten: after a long stop that may be very many.
    static let forgettingsMax = 1_000

    /// Forgets the removals whose time is up, of subscriptions and of whole users, of all that are kept here: all nodes that keep a user do so
    /// at the same time, and their digests stay equal.
    mutating func forgetTombstones(at now: Now, into outbox: inout Outbox) {
        for _ in 0..<Self.forgettingsMax {
            guard let next = forgettings.first, next.at <= now.wall else { return }
            forgettings.remove(next.index)
            let forgotten = users[next.index].subscriptions.forgetTombstones(at: now.wall)
            counters.tombstonesForgotten += UInt64(forgotten.count)
            outbox.forgotten += forgotten.map { Row($0, of: users.user(at: next.index)) }
            if !forgetBlank(next.index, at: now, into: &outbox) { noteFacts(of: next.index) }
        }
    }

    private mutating func scheduleForgetting(of user: Index) {
        let next = min(users[user].subscriptions.forgetsAt, blankEnd(of: user))
        if next < forgettings.deadline(of: user) ?? .max { forgettings.set(user, at: next) }
    }

    /// When ``tick(at:into:)`` has something to do next.
    var nextDeadline: Instant { reviews.first?.at ?? .farFuture }

    private mutating func review(_ user: Index, at now: Now, into outbox: inout Outbox) {
        let lost = users[user].sessions.contains { ($0.missedUntil ?? .farFuture) <= now.instant }
        if lost {
            let lateness = users[user].sessions.compactMap(\.missedUntil).map { now.instant - $0 }.filter { $0 >= .zero }.min() ?? .zero
            retire(user) { ($0.missedUntil ?? .farFuture) <= now.instant }
            users[user].statusAfterLast = .offline
            dateLoss(of: user, lateness: lateness, at: now)
        }
        if let doubt = users[user].doubtDeadline, doubt <= now.instant { users[user].doubtDeadline = nil }
        noteUnreachable(user, at: now)
        let expiry = users[user].record.customStatusExpiresAt
        let hasExpired = expiry > 0 && expiry <= now.wall
        dropAfterOffline(user, at: now, into: &outbox)
        expireSubscriptions(user, at: now, into: &outbox)
        repairList(of: user, at: now, into: &outbox)
        let hasEventEnded = (users[user].record.nextEventExpiry ?? .max) <= now.wall
        settle(user, customStatus: hasExpired ? "" : nil, events: hasEventEnded ? .expire : nil, at: now, into: &outbox)
        if users[user].isBlank { remove(user) }
    }

    /// A user who was heard until the connection closed was last seen one grace before the OFFLINE, to the millisecond.
    ///
    /// The tick that ends a grace comes some milliseconds late. By them a viewer could tell a lost user from one who hides.
    private mutating func dateLoss(of user: Index, lateness: Duration, at now: Now) {
        let graceBegan = now.wall - policies.policy(of: users.user(at: user)).offlineGrace.wholeMilliseconds
        let wasHeard = users[user].lastSeenTime + lateness.wholeMilliseconds + 1 >= graceBegan
        if users[user].sessions.isEmpty, wasHeard { users[user].lastSeenTime = max(users[user].lastSeenTime, graceBegan) }
    }

    /// Makes sure that the user is looked at when its next deadline comes.
    mutating func schedule(_ user: Index, at now: Now) {
        let next = min(users[user].nextDeadline(at: now), dropDeadline(of: user, at: now))
        if next < reviews.deadline(of: user) ?? .farFuture { reviews.set(user, at: next) }
    }

    /// Nothing of the user ends by itself any more as far as this node is concerned.
    mutating func dropReview(of user: Index) { reviews.remove(user) }

    // MARK: Moving

    /// Takes a durable row back at the start.
    mutating func load(_ row: Row, at now: Now) throws(RowError) {
        // One's own disk is no peer whose clock may be wrong.
        isLoading = true
        defer { isLoading = false }
        clock.observe(row.version)
        let user = index(of: row.user)
        switch row.kind {
        case .status: _ = keep(try record(in: row, RecordFacts(row), of: user), at: user, now: now)
        case .visibility: users[user].record.privacy = try Privacy(row)
        case .subscription:
            _ = users[user].subscriptions.merge(try Subscription(row).learnt(at: clock.milliseconds(at: now.wall)))
        case .member, .clock, .policy, .kick: throw RowError(row, "no fact of a user")
        }
        noteFacts(of: user)
        schedule(user, at: now)
    }

    func index(ofKnown user: UserID) -> Index? { users.index(of: user) }

    /// The record of a user; blank for one nobody has written about.
    func record(of user: UserID) -> Record {
        users.index(of: user).map { users[$0].record } ?? Record(blank: user)
    }

    mutating func index(of user: UserID) -> Index {
        indexOrInsert(user).index
    }

    /// The index of a user, who is a stranger until now if it `isNew`.
    mutating func indexOrInsert(_ user: UserID) -> (index: Index, isNew: Bool) {
        let found = users.index(of: user, orInsert: OwnedUser(record: Record(blank: user)))
        if found.isNew { book.insert(found.index, slot: users[found.index].slot) }
        return found
    }

    /// Forgets a user of whom there is nothing to remember, as after a call that changed nothing.
    mutating func removeBlank(_ id: UserID) {
        if let user = users.index(of: id), users[user].isBlank, !users[user].isReplica { remove(user) }
    }

    /// Forgets a user.
    mutating func remove(_ user: Index) {
        book.remove(user, slot: users[user].slot)
        book.replace(users[user].factsHash, by: 0, slot: users[user].slot)
        dropReview(of: user)
        forgettings.remove(user)
        users.remove(user)
    }

    /// Brings the hash of the user's slot in line with what is kept of the user. Called after every change of it.
    mutating func noteFacts(of user: Index) {
        countFollowed(by: user)
        scheduleForgetting(of: user)
        let hash = users[user].currentFactsHash()
        guard hash != users[user].factsHash else { return }
        book.replace(users[user].factsHash, by: hash, slot: users[user].slot)
        users[user].factsHash = hash
    }

    mutating func countOnline(_ count: Int) { counters.usersOnline += count }
    mutating func countClocksRefused() { counters.clocksRefused += 1 }
    mutating func countKicked(_ sessions: [OwnedSession]) { counters.sessionsKicked += UInt64(sessions.count { !$0.isCounted }) }
    mutating func countLogouts(_ sessions: [OwnedSession]) { counters.logouts += UInt64(sessions.count { !$0.isCounted }) }
    mutating func countRemoved() { counters.usersRemoved += 1 }
    mutating func countEvictions(_ count: Int) { counters.evictions += UInt64(count) }

    /// The session at `place` is lost, whatever becomes of it within its grace.
    mutating func countLost(_ place: Int, of user: Index) {
        guard !users[user].sessions[place].isCounted else { return }
        users[user].sessions[place].isCounted = true
        counters.sessionsLost += 1
    }
}
