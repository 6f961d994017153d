import PresenceWire

/// The one writer of every record whose user's slot this node owns (<doc:OneWriter>).
///
/// It decides ONLINE, OFFLINE and UNLOGINED, stamps the version, publishes to each node that watches, and writes the durable rows. One
/// value serves all slots of the node, because a user's state does not depend on its slot.
///
/// It does no I/O and reads no clock: `now` comes in, messages and rows go out.
///
/// Only this file sets a field. Files of the folder `Owner` change users by ``modify(_:_:)`` and the other functions at its end. All other
/// files use the verbs that a test lists (`OwnerVerbTests`).
package struct Owner: ~Copyable {
    /// A registration that a peer is in, or the last one.
    struct Registration {
        let id: UInt64
        /// The ranges of slots of the registration.
        let ranges: SlotRanges
    }

    typealias Index = UserStore.Index

    let settings: CoreSettings
    private(set) var counters = OwnerCounters()
    private(set) var clock: VersionClock
    private(set) var users: UserStore
    /// The registration of each peer.
    private(set) var registrations: [PeerIndex: Registration] = [:]
    /// Whether the records have new versions since the start of this node: see ``renew(at:)``.
    private(set) var renewal = Renewal.none
    /// The largest complete position that nodes that have left or are dead may have claimed: see ``distrustPositions(at:)``.
    private(set) var claimedByOthers: Milliseconds = 0
    private var contact = Contact.made
    /// Whether this node decides without the facts of all other replicas: the wait for them has ended, or two of three are dead.
    ///
    /// A list may lack subscriptions, and an unsubscribe of an unknown target leaves a tombstone.
    package private(set) var listsMayBeIncomplete = false
    private(set) var policies: Policies
    private(set) var webhookBacklog = WebhookBacklog()
    private(set) var sessionNews = SessionNews()
    /// The number of members of the ring.
    private(set) var nodesCount = 1
    /// The users of this node, owned or not, whose deletions have not ended.
    private(set) var openDeletions: Set<UserID> = []

    init(clock: VersionClock, settings: CoreSettings) {
        policies = Policies(standard: settings.policy, configured: settings.policies)
        users = UserStore(blankHorizon: settings.blankHorizon)
        self.clock = clock
        self.settings = settings
    }

    /// Whether no other replica of these users is reachable, though there are some.
    var isCutOff: Bool { contact.isLost }

    // MARK: Sessions

    /// Handles a node's report of an open session, which a kick may have ended: see ``PeerReport``.
    mutating func attach(_ attach: Attach, from peer: PeerIndex, endedBy kick: Kicks.Entry? = nil, in turn: inout Turn) {
        PeerReport(peer: peer, now: turn.now).attach(attach, endedBy: kick, to: &self, &turn.outbox)
    }

    /// Handles a node's report of an ended session: see ``PeerReport``.
    mutating func detach(_ detach: Detach, from peer: PeerIndex, isMoving: Bool, in turn: inout Turn) {
        PeerReport(peer: peer, now: turn.now).detach(detach, isMoving: isMoving, from: &self, &turn.outbox)
    }

    /// Handles a node's watches of users: see ``PeerReport``.
    mutating func watch(_ watches: [Watch], from peer: PeerIndex, in turn: inout Turn) {
        PeerReport(peer: peer, now: turn.now).watch(watches, of: &self, &turn.outbox)
    }

    /// Handles the end of a node's watches of users.
    mutating func unwatch(_ unwatched: [UserID], from peer: PeerIndex) {
        for id in unwatched {
            guard let user = users.index(of: id) else { continue }
            users.modify(user) { $0.setWatcher(peer, false) }
            removeBlank(id)
        }
    }

    /// Starts a registration of `peer`'s views and sessions in some ranges of slots.
    mutating func beginSync(from peer: PeerIndex, _ registration: Registration) {
        registrations[peer] = registration
        for user in users.users(of: registration.ranges) { users.modify(user) { $0.setWatcher(peer, false) } }
    }

    /// Ends a registration of `peer`: the sessions that it did not name are disconnected.
    mutating func endSync(from peer: PeerIndex, registrationID: UInt64, in turn: inout Turn) {
        guard let registration = registrations[peer], registration.id == registrationID else { return }
        PeerReport(peer: peer, now: turn.now).end(registration, of: &self, &turn.outbox)
    }

    /// Removes the registration of a peer that is not a member any more.
    mutating func removeRegistration(of peer: PeerIndex) { registrations[peer] = nil }

    /// Handles dead nodes. Their sessions may come back within ``CoreSettings/reconnectGrace``, and the nodes receive no more records.
    mutating func peersDied(_ peers: Set<PeerIndex>, in turn: inout Turn) {
        let deadline = turn.now.instant + settings.reconnectGrace
        for user in users.allIndices where users.isLive(user) {
            let isChanged = users.modify(user) { user in
                user.watchers.removeAll { peers.contains($0) }
                user.listeners.removeAll { peers.contains($0.peer) }
                user.endedSessions.removeAll { $0.peer.map(peers.contains) ?? false }
                return user.awaitReturn(ofSessionsOn: peers, until: deadline)
            }
            if isChanged { refresh(user, in: &turn) }
        }
    }

    // MARK: Writing

    /// Decides the record of a user after a change, and publishes it if that writes it. Returns whether it was published.
    @discardableResult
    mutating func refresh(_ user: Index, _ change: StatusChange = StatusChange(), in turn: inout Turn) -> Bool {
        if change.visibility == nil, let visibility = ChainVisibility(user: user).dueHides(with: change, by: &self, in: &turn) {
            var change = change
            change.visibility = visibility
            return refresh(user, change, in: &turn)
        }
        var advanced = clock
        let next = advanced.next(at: turn.now.wall)
        let circumstances = Presence.Circumstances(
            now: turn.now, policy: policies.policy(of: users.user(at: user)),
            version: change.isOfVisibilityAlone ? users[user].record.versionOfVisibility(insteadOf: next) : next,
            claimedByOthers: claimedByOthers, isCutOff: isCutOff)
        let customStatus = circumstances.policy.hasWebhook ? users[user].record.customStatus : ""
        let (isWritten, hasSessionNews) = users.modify(user) { user in
            let decision = Presence.decide(user, change, circumstances)
            if !user.sessions.isEmpty { user.statusAfterLast = .offline }
            if decision.isWritten { user.record = decision.record }
            return (decision.isWritten, user.reviewSessionNews())
        }
        if hasSessionNews { sessionNews.add(users.user(at: user)) }
        if isWritten { clock = advanced }
        if isWritten || change.isNews { publish(user, into: &turn.outbox) }
        if circumstances.policy.tellsWebhook(.stateChange) {
            WebhookNews(user: user, now: turn.now).add(
                change, isWritten: isWritten, insteadOf: customStatus, by: &self, into: &turn.outbox)
        }
        schedule(user, at: turn.now)
        return isWritten || change.isNews
    }

    /// Publishes a record: one delta to each watching node, this one included, and one durable row.
    func publish(_ user: Index, into outbox: inout Outbox) {
        let record = users[user].record
        outbox.changes.append((record, users[user].watchers))
        outbox.rows.append(Row(record))
        // A visibility that was changed with the record is written with it.
        if record.changesPrivacy, let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
    }

    /// Stores what a node holds of the user, if it is newer, and publishes it. Returns whether anything was newer.
    ///
    /// An ONLINE without a session is unconfirmed for the grace.
    @discardableResult
    mutating func adopt(_ record: Record, at user: Index, in turn: inout Turn) -> Bool {
        let before = users[user].record
        let old = before.privacy?.version
        guard keep(record, at: user, now: turn.now) else { return false }
        let knownSince = knownSince(at: turn.now)
        users.modify(user) { $0.record.knownSince = knownSince }
        refresh(user, StatusChange(isNews: true), in: &turn)
        // A gateway may hold a visibility whose friends are not those of the rows here.
        ChainVisibility(user: user).showReceived(by: &self, in: &turn)
        OwnedProfile(user: user).publish(isLate: true, by: &self, in: &turn)
        let kept = users[user].record
        if let privacy = kept.privacy, privacy.version != old, !kept.changesPrivacy { turn.outbox.rows.append(Row(privacy, of: kept.user)) }
        // An answer may have shown a record that no stream has received. Its replacement does not count as a change of the visibility
        // alone. A stream receives such a change only if it had another view of the hidden user.
        guard kept.changesPrivacy, before.version > .zero, !kept.looksLike(before) else { return true }
        let version = clock.next(at: turn.now.wall)
        users.modify(user) { $0.record.version = version }
        publish(user, into: &turn.outbox)
        return true
    }

    /// Stores the newer parts: the record, and by their own versions the custom status, the events and the visibility.
    ///
    /// Two sides of a split may each have written some of them. The result is then a new fact with its own version. Returns whether
    /// anything was newer.
    ///
    /// - Parameter isOwn: whether the record comes from this node's disk, whose clock is trusted.
    mutating func keep(_ record: Record, at index: Index, isOwn: Bool = false, now: Now) -> Bool {
        let merge = RecordMerge(of: record, into: users[index])
        guard merge.hasNews else { return false }
        if isOwn { clock.observe(merge.newestVersion) } else if !accepts(merge.newestVersion, at: now) { return false }
        let kept = merge.result { clock.next(at: now.wall) }
        let confirmationDeadline = now.instant + settings.reconnectGrace
        users.modify(index) { user in
            user.lastSeenTime = max(user.lastSeenTime, merge.other.lastSeenTime)
            user.record = kept
            if !user.isReplica, merge.isNewer, kept.statusType == .online { user.confirmationDeadline = confirmationDeadline }
        }
        return true
    }

    /// Whether a version from another node is not too far in the future. The next version of this node is newer than it.
    mutating func accepts(_ version: Version, at now: Now) -> Bool {
        guard clock.accepts(version, at: now.wall) else {
            counters.clocksRefused += 1
            return false
        }
        clock.observe(version)
        return true
    }

    // MARK: Time

    /// Ends the parts that end by themselves: graces, unconfirmed statuses, custom statuses, subscriptions.
    mutating func tick(in turn: inout Turn) {
        reviewCustomStatuses(at: turn.now)
        while let user = users.takeReview(at: turn.now.instant) { review(user, in: &turn) }
        SessionNews.send(by: &self, into: &turn.outbox)
    }

    /// Most users with an expiry in one tick. After a long stop there may be very many.
    static let expiriesMax = 1_000

    /// Removes expired tombstones, of subscriptions, of other lists and of whole users, and the answers of calls.
    ///
    /// All replicas of a user do so at the same time, so that their hashes stay equal.
    mutating func expireTombstones(in turn: inout Turn) {
        for _ in 0..<Self.expiriesMax {
            guard let user = users.takeExpiry(at: turn.now.wall) else { return }
            let expired = users.modify(user) { $0.subscriptions.expireTombstones(at: turn.now.wall).earliestFirst }
            counters.tombstonesForgotten += UInt64(expired.count)
            turn.outbox.deletedRows += expired.map { Row($0, of: users.user(at: user)) }
            ListExpiry(user: user).expire(&self, in: &turn)
            expireBlank(user, in: &turn)
            // The answers of calls may have been all that was known of the user.
            if users.isLive(user), users[user].isBlank { users.remove(user) }
        }
    }

    /// Removes a user whose blank record has been kept for long enough.
    ///
    /// A node that watches the user holds the record, and registers it. The owner then writes the record again.
    private mutating func expireBlank(_ user: Index, in turn: inout Turn) {
        guard users[user].blankEnd(horizon: settings.blankHorizon.wholeMilliseconds) <= turn.now.wall else { return }
        guard users[user].watchers.isEmpty, users[user].streams.isEmpty else {
            renew(user, in: &turn)
            turn.outbox.changes.append((users[user].record, users[user].watchers))
            return
        }
        let id = users.user(at: user)
        turn.outbox.deletedRows.append(Row(users[user].record))
        turn.outbox.deletedRows += users[user].subscriptions.entries.map { Row($0, of: id) } + users[user].lists.rows(of: id)
        counters.usersRemoved += 1
        users.remove(user)
    }

    /// The next time at which ``tick(in:)`` has work.
    var nextDeadline: Instant { users.nextReview }

    private mutating func review(_ user: Index, in turn: inout Turn) {
        let offlineGrace = policies.policy(of: users.user(at: user)).offlineGrace
        endReview(of: user, users.modify(user) { $0.endWhatIsDue(at: turn.now, offlineGrace: offlineGrace) }, in: &turn)
    }

    /// Ends the parts that end at a time of the wall clock, and decides the status.
    mutating func endReview(of user: Index, _ ended: OwnedUser.Ended, in turn: inout Turn) {
        counters.sessionsDisconnected += ended.disconnectedCount
        let expiry = users[user].record.customStatusExpiresAt
        let hasExpired = expiry > 0 && expiry <= turn.now.wall
        dropAfterOffline(user, in: &turn)
        for kind in SubscriptionKind.allCases { SubscriptionEnds(user: user, kind: kind).expire(by: &self, in: &turn) }
        if ended.isRepairDue { repairList(of: user, in: &turn) }
        let hasEventEnded = (users[user].record.nextEventExpiry ?? .max) <= turn.now.wall
        refresh(
            user,
            StatusChange(
                customStatus: hasExpired ? "" : nil, events: hasEventEnded ? .expire : nil,
                end: ended.losses.isEmpty ? nil : .lost(ended.losses)),
            in: &turn)
        if users[user].isBlank { users.remove(user) }
    }

    /// Schedules the user's review for its next deadline.
    mutating func schedule(_ user: Index, at now: Now) {
        users.scheduleReview(of: user, notAfter: dropDeadline(of: user, at: now), at: now)
    }

    // MARK: The cluster

    /// Loads a durable row: see ``ReceivedRows/load(_:into:in:)``.
    mutating func load(_ row: Row, in turn: inout Turn) throws(RowError) { try ReceivedRows.load(row, into: &self, in: &turn) }

    /// Notes the number of members of a new ring.
    mutating func ringChanged(nodesCount: Int) { self.nodesCount = nodesCount }

    /// Notes whether other replicas of these users exist, and none of them is reachable.
    mutating func contactChanged(isCutOff: Bool) { contact.note(isLost: isCutOff) }

    /// Schedules a review of users whose custom status has outlived its OFFLINE (T11), because other replicas are reachable again.
    ///
    /// The review follows after the replicas have sent their facts.
    private mutating func reviewCustomStatuses(at now: Now) {
        guard contact.takeReview() else { return }
        for index in users.allIndices where users.isLive(index) && !users[index].isReplica {
            repairCustomStatusLater(index, at: now)
            schedule(index, at: now)
        }
    }

    /// Records that this node decides without the facts of all other replicas.
    mutating func listsMayLackEntries() { listsMayBeIncomplete = true }

    /// Records that this node has the facts of all other replicas. The lists that it sent until now may have lacked subscriptions.
    mutating func listsBecameComplete(into outbox: inout Outbox) {
        guard listsMayBeIncomplete else { return }
        listsMayBeIncomplete = false
        for user in users.allIndices where users.isLive(user) && !users[user].isReplica { queueList(of: user, into: &outbox) }
    }

    /// Gives all records a new version, because newer versions may have been published before a crash.
    mutating func renew(at now: Now) {
        for index in users.allIndices where users.isLive(index) && users[index].record.version > .zero { renewVersion(of: index, at: now) }
        renewal = .writing(from: 0)
    }

    /// Writes some of the renewed records.
    mutating func writeRenewed(into outbox: inout Outbox) { renewal.write(some: users, into: &outbox) }

    /// Doubts the complete positions of other nodes until this clock has certainly passed them.
    ///
    /// The nodes went on while this node was down, and have left or are dead. Their clocks may have been ahead of this one.
    mutating func distrustPositions(at now: Now) { claimedByOthers = clock.milliseconds(at: now.wall) + clock.driftMax.wholeMilliseconds }

    // MARK: Users

    func index(ofKnown user: UserID) -> Index? { users.index(of: user) }

    /// The record of a user; blank for a user without any write.
    func record(of user: UserID) -> Record {
        users.index(of: user).map { users[$0].record } ?? Record(blank: user)
    }

    mutating func index(of user: UserID) -> Index { users.insert(user).index }

    /// Removes a user without any facts, for example after a call that changed nothing.
    mutating func removeBlank(_ id: UserID) {
        if let user = users.index(of: id), users[user].isBlank, !users[user].isReplica { users.remove(user) }
    }

    // MARK: State

    /// The next version of the clock.
    mutating func nextVersion(at now: Now) -> Version { clock.next(at: now.wall) }

    /// The next version of the clock with a mark: see ``VersionClock/nextDecision(of:at:)``.
    mutating func nextVersion(_ draw: (inout VersionClock) -> Version) -> Version { draw(&clock) }

    /// The next version of this node is newer than `version`.
    mutating func observe(_ version: Version) { clock.observe(version) }

    /// The count of a target's followers for another node: see ``UserStore/shareFollowersCount(of:)``.
    mutating func shareFollowersCount(of target: UserID) -> Int { users.shareFollowersCount(of: target) }

    /// Changes the user at a live index: see ``UserStore/modify(_:_:)``.
    @inline(__always) @discardableResult
    mutating func modify<Result>(_ user: Index, _ body: (inout OwnedUser) -> Result) -> Result { users.modify(user, body) }

    /// Changes the durable lists of the user at a live index: see ``UserStore/modifyLists(_:_:)``.
    @inline(__always) @discardableResult
    mutating func modifyLists<Result>(_ user: Index, _ body: (inout UserLists) -> Result) -> Result { users.modifyLists(user, body) }

    /// The index of a user; a blank one is inserted if it is not here.
    mutating func insert(_ user: UserID) -> (index: Index, isNew: Bool) { users.insert(user) }

    /// Takes the users whose nodes are to be sent their sessions.
    mutating func takeSessionNews() -> [UserID] { sessionNews.takeAll() }

    /// Removes a user from memory.
    mutating func remove(_ user: Index) { users.remove(user) }

    /// Notes which deletions have begun and not ended.
    mutating func noteDeletions(_ body: (inout Set<UserID>) -> Void) { body(&openDeletions) }

    /// Changes the counters.
    @inline(__always)
    mutating func count(_ body: (inout OwnerCounters) -> Void) { body(&counters) }

    /// Stores a policy if it is newer than the one here. Returns whether it was.
    mutating func merge(_ policy: Policies.Entry, of app: String) -> Bool { policies.merge(policy, of: app) }

    /// Notes the bytes of a user's webhook events that wait.
    mutating func noteBacklog(_ bytes: Int, of user: Index) { webhookBacklog.set(bytes, of: users.user(at: user)) }

    #if DEBUG
        /// Replaces what the configuration decides. For tests.
        mutating func configure(_ body: (inout Policies, inout WebhookBacklog) -> Void) { body(&policies, &webhookBacklog) }
    #endif
}
