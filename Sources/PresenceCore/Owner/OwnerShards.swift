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
    }

    typealias Index = UserStore.Index

    let settings: CoreSettings
    var counters = Counters()
    var clock: VersionClock
    var users: UserStore
    /// The registration round that each peer is in.
    var rounds: [PeerIndex: Round] = [:]
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
    /// Members of the ring.
    var nodesCount = 1
    /// The next place to look at for a user that may be removed.
    var removalPlace: Index = 0

    init(clock: VersionClock, settings: CoreSettings) {
        policies = Policies(standard: settings.policy, configured: settings.policies)
        users = UserStore(blankHorizon: settings.blankHorizon)
        self.clock = clock
        self.settings = settings
    }

    // MARK: Sessions

    /// A gateway's node says that a session is open.
    mutating func attach(_ attach: Attach, from peer: PeerIndex, at now: Now, into outbox: inout Outbox) {
        let user = index(of: attach.user)
        if let record = attach.record { adopt(record, at: user, now: now, into: &outbox) }
        // What was asked for with a login was done when the session was first heard of.
        let known = users[user].sessions.first { $0.id == attach.session }
        let isLogin = attach.isLogin && known == nil
        var session = OwnedSession(
            id: attach.session, peer: peer, openedAt: attach.openedAt, platform: attach.platform, deviceID: attach.deviceID,
            isPushReachable: attach.isPushReachable, epoch: rounds[peer]?.epoch ?? 0)
        session.isCounted = known?.isCounted ?? false
        let policy = policies.policy(of: attach.user)
        let ended = users.modify(user) { user in
            // No gateway holds this list yet. A previous owner's mark must not match it.
            if user.sessions.isEmpty { user.listMark = ViewDigest.mark(clock.next(at: now.wall)) }
            counters.sessionsLost += user.retire { $0.id != session.id && $0.isReplaced(by: attach) }
            if isLogin {
                user.notePush(attach)
                user.lastSeenTime = max(user.lastSeenTime, now.wall)
            }
            user.open(session)
            return user.endReplaced(by: session, isLogin: isLogin, scope: policy.multiClient) + user.endSurplus()
        }
        for session in ended { end(session, of: attach.user, into: &outbox) }
        var change = StatusChange()
        if isLogin, let customStatus = attach.customStatus, !customStatus.isEmpty {
            change.customStatus = customStatus
            let seconds = policy.customStatusSeconds
            if seconds > 0 { change.customStatusExpiresAt = now.wall + seconds * 1_000 }
        }
        if isLogin, !attach.isPushReachable { change.departed = [session] }
        refresh(user, change, at: now, into: &outbox)
        outbox.lists.append((peer, attach.user))
    }

    /// A gateway's node says that a session has ended. Only that one: a late end never ends a newer session.
    ///
    /// With `isMoving` its client was asked to go elsewhere.
    mutating func detach(_ detach: Detach, from peer: PeerIndex, isMoving: Bool, at now: Now, into outbox: inout Outbox) {
        guard let user = users.index(of: detach.user),
            let place = users[user].sessions.firstIndex(where: { $0.id == detach.session && $0.peer == peer })
        else { return }
        switch detach.cause {
        case .loggedOut:
            let session = users.modify(user) { user in
                user.statusAfterLast = .unlogined
                return user.sessions.remove(at: place)
            }
            if !session.isCounted { counters.logouts += 1 }
            refresh(user, StatusChange(departed: [session]), at: now, into: &outbox)
        case .lost:
            let offlineGrace = policies.policy(of: detach.user).offlineGrace
            let grace = isMoving ? max(offlineGrace, settings.movingGrace) : offlineGrace
            let ended = users.modify(user) { user in
                counters.sessionsLost += user.lose(place, until: now.instant + grace) ? 1 : 0
                user.lastSeenTime = max(user.lastSeenTime, now.wall - detach.silence)
                return grace == .zero ? user.endWhatIsDue(at: now, offlineGrace: offlineGrace) : nil
            }
            if let ended { return endReview(of: user, ended, at: now, into: &outbox) }
            refresh(user, at: now, into: &outbox)
        }
    }

    /// Nodes are gone: their sessions may come back within ``CoreSettings/reconnectGrace``; nothing is published to them any more.
    mutating func peersLost(_ peers: Set<PeerIndex>, at now: Now, into outbox: inout Outbox) {
        let deadline = now.instant + settings.reconnectGrace
        for user in users.places where users.isLive(user) {
            let isChanged = users.modify(user) { user in
                user.watchers.removeAll { peers.contains($0) }
                return user.miss(sessionsOf: peers, until: deadline)
            }
            if isChanged { refresh(user, at: now, into: &outbox) }
        }
    }

    /// A session was ended to make room for a newer one.
    private mutating func end(_ session: OwnedSession, of user: UserID, into outbox: inout Outbox) {
        if !session.isCounted { counters.sessionsSurplus += 1 }
        outbox.send(.end(session.id, user: user, reason: SessionEnd.replaced), to: session.peer)
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
            users.modify(user) { $0.setWatcher(peer, true) }
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
            users.modify(user) { $0.setWatcher(peer, false) }
            removeBlank(id)
        }
    }

    // MARK: Writing

    /// Decides the record of a user anew after a change, and publishes it if that writes it. Returns whether it was published.
    @discardableResult
    mutating func refresh(_ user: Index, _ change: StatusChange = StatusChange(), at now: Now, into outbox: inout Outbox) -> Bool {
        var advanced = clock
        let circumstances = Presence.Circumstances(
            now: now, policy: policies.policy(of: users.user(at: user)), version: advanced.next(at: now.wall),
            claimedByOthers: claimedByOthers, isCutOff: isCutOff)
        let isWritten = users.modify(user) { user in
            let decision = Presence.decide(user, change, circumstances)
            if !user.sessions.isEmpty { user.statusAfterLast = .offline }
            if decision.isWritten { user.record = decision.record }
            return decision.isWritten
        }
        if isWritten { clock = advanced }
        if isWritten || change.isNews { publish(user, into: &outbox) }
        schedule(user, at: now)
        return isWritten || change.isNews
    }

    /// One delta to each node that watches, this one like any other, and one durable row.
    func publish(_ user: Index, into outbox: inout Outbox) {
        let record = users[user].record
        outbox.changes.append((record, users[user].watchers))
        outbox.rows.append(Row(record))
        // What was changed with the record is written with it.
        if record.changesPrivacy, let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
    }

    /// Takes over what a node holds of the user, if that is newer, and publishes it. An ONLINE that no session vouches for is doubted for the
    /// grace. Returns whether anything was newer.
    @discardableResult
    mutating func adopt(_ record: Record, at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        let before = users[user].record
        let (old, friends) = (before.privacy?.version, before.privacy?.visibility.friends ?? [])
        guard keep(record, at: user, now: now) else { return false }
        if users[user].record.privacy?.visibility.friends ?? [] != friends { friendsChanged(of: user, at: now, into: &outbox) }
        let knownSince = knownSince(at: now)
        users.modify(user) { $0.record.knownSince = knownSince }
        refresh(user, StatusChange(isNews: true), at: now, into: &outbox)
        let kept = users[user].record
        if let privacy = kept.privacy, privacy.version != old, !kept.changesPrivacy { outbox.rows.append(Row(privacy, of: kept.user)) }
        // An answer may have shown what no stream has been sent yet. What replaces that is not a change of the rule alone: a stream is sent
        // such a change only where it was sent another face.
        guard kept.changesPrivacy, before.version > .zero, !kept.looksLike(before) else { return true }
        let version = clock.next(at: now.wall)
        users.modify(user) { $0.record.version = version }
        publish(user, into: &outbox)
        return true
    }

    /// Keeps what is newer: the record, and by versions of their own the custom status, the events and who may see the user.
    ///
    /// Where only some of them are newer, because they were written on two sides of a split, all together are a new fact with a version of its
    /// own. Returns whether anything was newer.
    mutating func keep(_ record: Record, at index: Index, now: Now) -> Bool {
        let merge = RecordMerge(of: record, into: users[index].record)
        guard merge.hasNews, accepts(merge.newestVersion, at: now) else { return false }
        let kept = merge.result { clock.next(at: now.wall) }
        let doubtDeadline = now.instant + settings.reconnectGrace
        users.modify(index) { user in
            user.lastSeenTime = max(user.lastSeenTime, merge.other.lastSeenTime)
            user.record = kept
            if !user.isReplica, merge.isNewer, kept.statusType == .online { user.doubtDeadline = doubtDeadline }
        }
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
        while let user = users.takeReview(at: now.instant) { review(user, at: now, into: &outbox) }
    }

    /// Users of whom something expires in one tick: after a long stop that may be very many.
    static let expiriesMax = 1_000

    /// Expires tombstones whose time is up, of subscriptions and of whole users, of all that are kept here: all nodes that keep a user do so
    /// at the same time, and their digests stay equal.
    mutating func expireTombstones(at now: Now, into outbox: inout Outbox) {
        for _ in 0..<Self.expiriesMax {
            guard let user = users.takeExpiry(at: now.wall) else { return }
            let expired = users.modify(user) { $0.subscriptions.forgetTombstones(at: now.wall) }
            counters.tombstonesForgotten += UInt64(expired.count)
            outbox.forgotten += expired.map { Row($0, of: users.user(at: user)) }
            expireBlank(user, at: now, into: &outbox)
        }
    }

    /// When ``tick(at:into:)`` has something to do next.
    var nextDeadline: Instant { users.nextReview }

    private mutating func review(_ user: Index, at now: Now, into outbox: inout Outbox) {
        let offlineGrace = policies.policy(of: users.user(at: user)).offlineGrace
        endReview(of: user, users.modify(user) { $0.endWhatIsDue(at: now, offlineGrace: offlineGrace) }, at: now, into: &outbox)
    }

    private mutating func endReview(of user: Index, _ ended: OwnedUser.Ended, at now: Now, into outbox: inout Outbox) {
        counters.sessionsLost += ended.lostCount
        let expiry = users[user].record.customStatusExpiresAt
        let hasExpired = expiry > 0 && expiry <= now.wall
        dropAfterOffline(user, at: now, into: &outbox)
        expireSubscriptions(user, at: now, into: &outbox)
        if ended.isRepairDue { repairList(of: user, at: now, into: &outbox) }
        let hasEventEnded = (users[user].record.nextEventExpiry ?? .max) <= now.wall
        refresh(
            user, StatusChange(customStatus: hasExpired ? "" : nil, events: hasEventEnded ? .expire : nil), at: now, into: &outbox)
        if users[user].isBlank { users.remove(user) }
    }

    /// Makes sure that the user is reviewed when its next deadline comes.
    mutating func schedule(_ user: Index, at now: Now) {
        users.scheduleReview(of: user, notAfter: dropDeadline(of: user, at: now), at: now)
    }

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
        case .visibility:
            let privacy = try Privacy(row)
            users.modify(user) { $0.record.privacy = privacy }
        case .subscription:
            let entry = try Subscription(row).learnt(at: clock.milliseconds(at: now.wall))
            users.modify(user) { _ = $0.subscriptions.merge(entry) }
        case .member, .clock, .policy, .kick: throw RowError(row, "no fact of a user")
        }
        schedule(user, at: now)
    }

    func index(ofKnown user: UserID) -> Index? { users.index(of: user) }

    /// The record of a user; blank for one nobody has written about.
    func record(of user: UserID) -> Record {
        users.index(of: user).map { users[$0].record } ?? Record(blank: user)
    }

    mutating func index(of user: UserID) -> Index { users.insert(user).index }

    /// Removes a user of whom there is nothing to remember, as after a call that changed nothing.
    mutating func removeBlank(_ id: UserID) {
        if let user = users.index(of: id), users[user].isBlank, !users[user].isReplica { users.remove(user) }
    }
}
