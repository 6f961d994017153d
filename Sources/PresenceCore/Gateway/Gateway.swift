import PresenceWire

/// The sessions of one event loop: who they are, whom they follow, and what they are pushed.
///
/// An event is encoded once, and all sessions that watch the user share its bytes. A session whose queue is full is pushed nothing until
/// the queue drains. Then it is pushed the newest record of each user that changed meanwhile.
///
/// A gateway does no I/O: pushes and messages to the node wait in ``output``, which the caller takes once a turn.
public struct Gateway: ~Copyable {
    /// The index of a session. It is used again after the session is closed.
    public typealias SessionIndex = UInt32

    typealias UserIndex = WatchIndex.UserIndex

    /// The output that the caller takes and empties once a turn.
    public var output = Output()
    /// Counts since the start.
    public internal(set) var counters = Counters()
    /// The policies of all apps.
    public private(set) var policies = GatewayPolicies()
    /// The users about whom this node may not know better. Their records say so.
    public internal(set) var unsure = UnsureUsers.none
    /// Since when the tokens of kicked users are void.
    public private(set) var voidTokens = VoidTokens()
    let settings: GatewaySettings
    private let node: NodeID
    var watches = WatchIndex()
    var sessions = SessionTable()
    var relationships = ToldRelationships()
    var toldSessions = ToldSessions()
    var tokenEnds = TokenEnds()
    /// Why clients are asked to reconnect elsewhere; nil while they may stay.
    private var leavingReason: String?
    /// The time up to which the records of this node are complete; the `id` of each event.
    var position: Milliseconds = 0

    /// - Parameter node: the name that `onConnected` sends.
    public init(node: NodeID, settings: GatewaySettings) {
        (self.node, self.settings) = (node, settings)
    }

    /// The policy for a user's app.
    public func policy(of user: UserID) -> Policy { policies.policy(of: user) }

    /// Whether a token of a user is void, because the user was kicked after this time.
    public func isVoid(_ user: UserID, issuedAt: Milliseconds) -> Bool { voidTokens.isVoid(user, issuedAt: issuedAt) }

    /// The session of a user for which `isWanted` holds; nil if there is none or more than one.
    public func onlySession(of user: UserID, where isWanted: (SessionIndex) -> Bool) -> SessionID? {
        guard let user = watches.index(of: user) else { return nil }
        let wanted = watches.sessions(of: user).filter(isWanted)
        return wanted.count == 1 ? sessions[wanted[0]].id : nil
    }

    /// The index of an open session; nil for one that is not here.
    public func index(of session: SessionID) -> SessionIndex? { sessions.index(of: session) }

    /// The index of an open session of a user; nil if the session is not here, or is another user's.
    public func index(of session: SessionID, of user: UserID) -> SessionIndex? {
        sessions.index(of: session).flatMap { watches.user(at: sessions[$0].user) == user ? $0 : nil }
    }

    /// Open sessions, and open streams that hear without being seen.
    public var streamsCount: (sessions: Int, listeners: Int) { (sessions.count - sessions.listenersCount, sessions.listenersCount) }

    /// Users that a session here follows.
    public var usersCount: Int { watches.usersCount }

    // MARK: From the client

    /// A client opened its stream.
    ///
    /// - Parameters:
    ///   - expiresAt: the end of the client's token, with which the session ends; `.max` for never.
    ///   - resumeFrom: the `Last-Event-ID` of the client, in milliseconds; nil for a new client.
    ///   - interval: the interval of heartbeats that the client asks for; nil for that of the node.
    public mutating func open(
        _ attach: Attach, until expiresAt: Milliseconds = .max, resumeFrom: Milliseconds?, heartbeatEvery interval: Duration? = nil,
        at now: Now
    ) -> SessionIndex {
        let user = watches.insert(attach.user)
        let resume = ResumePosition(resumeFrom: resumeFrom, nodePosition: position, openedAt: now.wall)
        let index = sessions.open(SessionTable.Session(attach, user: user, resume: resume))
        watches.addSession(index, of: user)
        push(
            EventText.connected(
                session: attach.session, user: attach.user, node: node,
                heartbeat: heartbeat(of: attach.user, on: attach.platform, every: interval),
                now: now, id: ResumePosition.accepted(resumeFrom, at: now.wall) ?? 0),
            to: index)
        // Sent before the request for the user's record: the answer of the owner then includes the session.
        output.toNode.append(.open(attach.opened(at: voidTokens.openingTime(of: attach.user, at: now.wall))))
        follow([(user, .version(knownUpTo(index)))], by: index)
        if let leavingReason {
            push(EventText.reconnectHint(reason: leavingReason, afterMilliseconds: 0, id: position(of: index)), to: index)
        }
        tokenEnds.open(index, expiresAt: expiresAt)
        followTokenEnds(at: now.wall)
        return index
    }

    /// The stream is gone. Called once for each session that was opened. For `silence` see ``PresenceWire/Detach/silence``.
    public mutating func close(_ index: SessionIndex, cause: Detach.Cause, silence: Milliseconds = 0) {
        guard sessions.isOpen(index) else { return }
        let (id, user) = (sessions[index].id, sessions[index].user)
        let cause = sessions[index].hasExpired ? .tokenExpired : cause
        output.toNode.append(.close(Detach(session: id, user: watches.user(at: user), cause: cause, silence: silence)))
        let followed = unfollowAll(by: index)
        watches.removeSession(index, of: user)
        if watches.sessions(of: user).isEmpty {
            relationships.remove(user)
            toldSessions.remove(user)
        }
        relationships.owed.take(index)
        tokenEnds.close(index)
        sessions.close(index)
        // Another session may get the index before the output is taken.
        output.remove(index)
        release(followed + [user])
    }

    /// The queue of the stream is full: nothing more is pushed until it drains.
    public mutating func block(_ index: SessionIndex, at now: Now) { if sessions.block(index, at: now.instant) { hold(index) } }

    /// The queue of the stream has room again: the session is pushed the newest record of each user that changed meanwhile.
    public mutating func unblock(_ index: SessionIndex) {
        guard sessions.unblock(index) else { return }
        for notice in relationships.takeOwed(by: index, of: sessions[index].user) { push(notice, to: index) }
        if sessions[index].owesSessions { ToldSessions.push(to: index, in: &self) }
        pushPending(index)
        // The version of a profile whose user has no record here waits for the record.
        for user in sessions[index].backlog.profiles where watches.record(of: user) != nil { pushPostponedProfile(of: user, to: index) }
        completeSync(index)
        sessions[index].releasePosition()
    }

    /// Pushes the records of this turn to sessions that get several at once (R11, N15). Called before ``output`` is taken.
    public mutating func endTurn() {
        for index in sessions.takeGathering() {
            pushPending(index)
            sessions[index].releasePosition()
        }
    }

    /// Cuts off the sessions whose queue has been full for too long, and ends those whose tokens have ended.
    public mutating func tick(at now: Now) {
        followTokenEnds(at: now.wall)
        let slow = sessions.cutOff(blockedFor: settings.slowReaderTimeout, at: now.instant)
        counters.slowReaders += UInt64(slow.count)
        output.cutOff += slow
    }

    /// Asks every client to open a stream elsewhere, evenly spread over `spread`, so that they do not arrive together.
    public mutating func hintReconnect(reason: String, spread: Duration) {
        leavingReason = reason
        let open = sessions.openIndices.filter { !sessions[$0].hasEnded }
        for (rank, session) in open.enumerated() {
            let delay = spread.wholeMilliseconds * Int64(rank) / Int64(open.count)
            push(EventText.reconnectHint(reason: reason, afterMilliseconds: delay, id: position(of: session)), to: session)
        }
    }

    // MARK: From the node

    /// Takes a message of the node's core.
    public mutating func receive(_ message: NodeMessage) {
        switch message {
        case .deliver(let record): _ = deliver(record)
        case .listUpdate(let list): onList(list)
        case .callFailed(let list): pushAnswered(list)
        case .end(let session, let reason): if let session = sessions.index(of: session) { end(session, reason: reason) }
        case .renew(let session, let end): if let session = sessions.index(of: session) { tokenEnds.renew(session, expiresAt: end) }
        case .policy(let app, let policy, let changedAt): onPolicy(policy, of: app, changedAt: changedAt)
        case .kicked(let user, let before, let reason): kick(user, before: before, reason: reason)
        case .expireKicks(let users): for user in users { voidTokens[user] = nil }
        case .doubt: WithheldRecords.withholdAll(in: &self)
        case .unsure(let users): UnsureRecords.change(to: users, in: &self)
        case .position(let milliseconds): position = max(position, milliseconds)
        }
    }

    /// Takes a newer record of a user that sessions here follow. Returns how many sessions are pushed a change.
    public mutating func deliver(_ record: Record) -> Int {
        guard let user = watches.index(of: record.user) else { return 0 }
        let wasWithheld = watches.release(recordOf: user)
        guard let old = watches.record(of: user) else {
            watches.store(record, of: user)
            pushFirstProfile(record, of: user)
            deliverFirst(record, of: user)
            return 0
        }
        defer { if wasWithheld { WithheldRecords.end(of: user, in: &self) } }
        guard record.version > old.version else {
            // The sessions hold this version already.
            if old.version == record.version { watches.raiseKnownSince(of: user, to: record.knownSince) }
            return 0
        }
        watches.store(record, of: user)
        pushProfile(record, after: old, of: user)
        let policy = policies.policy(of: record.user)
        var watchers = policy.publishesOthers ? watches.watchers(of: user) : openSessions(of: user)
        // A session that waits for a withheld record is pushed it at the end, once.
        if wasWithheld { watchers.removeAll { sessions[$0].backlog.isExpecting(user) } }
        let count =
            Delivery.differsByViewer(from: old, to: record, policy: policy)
            ? pushViews(of: record, after: old, of: user, to: watchers, policy)
            : pushSame(record, of: user, to: watchers, policy)
        counters.changesPushed += UInt64(count)
        return count
    }

    /// Pushes a record that looks the same to all watchers, or to all but the user itself. Each view is encoded once.
    private mutating func pushSame(_ record: Record, of user: UserIndex, to watchers: [SessionIndex], _ policy: Policy) -> Int {
        let differsToItself = Delivery.differsToItself(record, policy: policy)
        var (payload, ownPayload): (Int32?, Int32?)
        var count = 0
        for session in watchers {
            guard policy.publishesOthers, sessions.takesEventNow(session) else {
                if pushLater(user, to: session) { count += 1 }
                continue
            }
            count += 1
            let isOwn = differsToItself && sessions[session].user == user
            let known = isOwn ? ownPayload : payload
            let shared = known ?? encode(record, to: isOwn ? record.user : nil, policy)
            if isOwn { ownPayload = shared } else { payload = shared }
            pushRecord(shared, to: session)
        }
        return count
    }

    /// Pushes a record to a session that cannot take a shared event now. Returns false if the record waits until the stream has room.
    private mutating func pushLater(_ user: UserIndex, to session: SessionIndex) -> Bool {
        if sessions[session].isBlocked { postpone(user, for: session) } else { pushApart(user, to: session) }
        return !sessions[session].isBlocked
    }

    /// Pushes a record to those watchers to whom it looks different from the one before. Each view is encoded once.
    private mutating func pushViews(
        of record: Record, after old: Record, of user: UserIndex, to watchers: [SessionIndex], _ policy: Policy
    ) -> Int {
        var payloads: [(view: Record, isOwn: Bool, payload: Int32)] = []
        var count = 0
        for session in watchers {
            let viewer = watches.user(at: sessions[session].user)
            let view: Record
            switch Delivery.change(from: old, to: record, for: viewer, resume: sessions[session].resume, policy: policy) {
            case .none: continue
            case .looksSame(let before, let after):
                sessions[session].backlog.raiseAnswered(user, from: before, to: after)
                continue
            case .push(let after): view = after
            }
            if sessions[session].isBlocked {
                postpone(user, for: session)
                continue
            }
            count += 1
            guard sessions[session].takesSharedEvents, policy.publishesOthers else {
                pushApart(user, to: session)
                continue
            }
            let isOwn = viewer == record.user
            let known = payloads.first { $0.isOwn == isOwn && $0.view == view }?.payload
            let shared = known ?? encode(view, to: isOwn ? viewer : nil, policy)
            if known == nil { payloads.append((view, isOwn, shared)) }
            pushRecord(shared, to: session)
        }
        return count
    }

    /// The first record of a user is here: sessions that expect it, and do not know it, are pushed it.
    mutating func deliverFirst(_ record: Record, of user: UserIndex) {
        for session in watches.watchers(of: user) where sessions[session].backlog.isExpecting(user) {
            let knowledge = sessions[session].backlog.takeExpected(user)
            if isDue(record, of: user, knowing: knowledge, to: session) { gather([user], for: session) }
            completeSync(session)
            LastViews(session: session).end(in: &self)
            sessions[session].releasePosition()
        }
        for session in watches.profiles.watchers(of: user) where !sessions[session].isBlocked {
            pushPostponedProfile(of: user, to: session)
            completeSync(session)
            sessions[session].releasePosition()
        }
    }

    /// The subscription list of a user, or a change of the list.
    private mutating func onList(_ list: ListUpdate) {
        guard let user = watches.index(of: list.user) else { return }
        var list = list
        let isOutdated = list.isWhole && list.version < watches.listVersion(of: user)
        // An outdated list lacks the users that a newer change has named.
        if isOutdated { list.mayBeIncomplete = true }
        watches.raiseListVersion(of: user, to: list.version)
        // No state goes back, so that of an outdated list is taken as well.
        let notices = relationships.take(list.notices, of: user)
        let hasSessionNews = toldSessions.take(list.sessions, of: user)
        for session in openSessions(of: user) {
            let isLogin = list.isWhole && !sessions[session].hasList
            // A session without a list takes an older one: the owner that sent the newer change may have died with its list.
            if !isOutdated || !sessions[session].hasList { apply(list, to: session) }
            if list.isWhole, sessions.receiveList(session) { output.attached.append(session) }
            if isLogin {
                push(RelationshipNotice(.state, relationships.state(of: user)), to: session)
            } else if sessions[session].hasList {
                for notice in notices { push(notice, to: session) }
            }
            ToldSessions.tell(session, isLogin: isLogin, hasNews: hasSessionNews, in: &self)
            completeSync(session)
        }
    }

    /// A call has failed: pushes the records that its answer would have sent, unless newer ones were pushed since.
    private mutating func pushAnswered(_ list: ListUpdate) {
        guard let user = watches.index(of: list.user) else { return }
        for session in openSessions(of: user) {
            let answered = sessions[session].backlog.takeAnswered()
            let viewer = watches.user(at: sessions[session].user)
            let current = answered.filter { target, knowledge in
                watches.record(of: target).map { Delivery.isAnswered($0.shown(to: viewer), by: knowledge) } ?? false
            }
            push(current.map(\.user), to: session)
        }
    }

    private mutating func apply(_ list: ListUpdate, to session: SessionIndex) {
        let (own, floor) = (sessions[session].user, knownUpTo(session))
        // A session without a list did not make the call that is answered.
        let isOfList = list.isWhole || !sessions[session].hasList
        let isAsker = list.originSession == .unknown || list.originSession == .session(sessions[session].id)
        let statuses = list.added.contains(where: \.isOfProfile) ? list.added.filter { !$0.isOfProfile } : list.added
        let added = statuses.map { followed -> (user: UserIndex, knowledge: Backlog.Knowledge) in
            let knowledge =
                isOfList
                ? Delivery.knowledge(of: followed, resumingFrom: floor, isWhole: list.isWhole)
                : Delivery.knowledge(of: followed, isAsking: isAsker)
            // A user without a record is inserted, too: the session is complete only once it was sent the records of all.
            return (watches.insert(followed.target), knowledge)
        }
        var removed = list.removed.compactMap { watches.index(of: $0) }
        if list.isWhole, !list.mayBeIncomplete {
            let kept = added.map(\.user).sorted()
            removed = watches.targets(of: session).filter { !kept.containsSorted($0) }
        }
        removed.removeAll { $0 == own || sessions[session].backlog.isLeaving($0) }
        for user in removed { unfollow(user, by: session) }
        let answered = isOfList ? [] : added.filter { $0.knowledge != .nothing }
        if !answered.isEmpty { sessions[session].backlog.setAnswered(answered.filter { !watches.follows($0.user, session) }) }
        follow(added, by: session)
        LastViews(session: session).show(list, without: removed, in: &self)
        applyProfiles(of: list, to: session)
        if !sessions[session].isSynced { for followed in list.added { sessions[session].addType(followed.subscribeType) } }
        if list.isNews, !list.isWhole, list.originSession != .session(sessions[session].id), sessions[session].hasList {
            push(EventText.subscriptionsChanged(list, id: position(of: session)), to: session)
        }
        if list.hasExpired, sessions[session].hasList {
            push(EventText.subscriptionsExpired(list.removed + list.removedProfiles, id: position(of: session)), to: session)
        }
        release(removed)
    }

    /// Ends the stream of a session. Its last event has the reason.
    mutating func end(_ index: SessionIndex, reason: String) {
        guard !sessions[index].hasEnded else { return }
        push(EventText.ended(reason: reason, id: position(of: index)), to: index)
        output.ended.append(index)
        // No event follows this one.
        let followed = unfollowAll(by: index)
        sessions.end(index, isExpired: reason == SessionEnd.tokenExpired)
        tokenEnds.close(index)
        release(followed)
    }

    private mutating func kick(_ user: UserID, before: Milliseconds, reason: String) {
        voidTokens[user] = before
        guard let user = watches.index(of: user) else { return }
        for session in watches.sessions(of: user) { end(session, reason: reason) }
    }

    /// A policy has changed. Sessions whose tokens end soon get the new grace.
    ///
    /// Sessions are sent the records that the policy shows in another way, and those that they may receive again.
    private mutating func onPolicy(_ policy: Policy, of app: String?, changedAt: Milliseconds) {
        let old = policies.policy(of: app)
        policies.set(policy, of: app, changedAt: changedAt)
        guard let app else { return }
        if policy.tokenGrace != old.tokenGrace {
            for index in sessions.openIndices where watches.user(at: sessions[index].user).app == app {
                tokenEnds.setGrace(policy.tokenGrace, of: index)
            }
        }
        guard Delivery.differs(policy, from: old) else { return }
        for index in sessions.openIndices where watches.user(at: sessions[index].user).app == app {
            let viewer = watches.user(at: sessions[index].user)
            let changed = watches.targets(of: index).filter { target in
                guard let record = watches.record(of: target), !sessions[index].backlog.isExpecting(target) else { return false }
                return Delivery.isShownAnew(record, to: viewer, by: policy, after: old)
            }
            push(changed, to: index)
            WithheldRecords.expect(by: index, in: &self)
            sessions[index].backlog.expectAgain()
        }
    }

    // MARK: Following

    private mutating func follow(_ added: [(user: UserIndex, knowledge: Backlog.Knowledge)], by session: SessionIndex) {
        var subscribed: [UserID] = []
        var due: [UserIndex] = []
        for (user, knowledge) in added {
            guard case .followed(let isFirst) = watches.follow(user, by: session) else {
                sessions[session].backlog.stay(user)
                continue
            }
            if isFirst { subscribed.append(watches.user(at: user)) }
            if let record = watches.record(of: user) {
                if isDue(record, of: user, knowing: knowledge, to: session) { due.append(user) }
            } else {
                sessions[session].backlog.expect(user, knowing: knowledge)
                hold(session)
            }
        }
        if !subscribed.isEmpty { output.toNode.append(.subscribe(subscribed)) }
        if sessions[session].isSynced { push(due, to: session) } else { gather(due, for: session) }
    }

    private mutating func isDue(
        _ record: Record, of user: UserIndex, knowing knowledge: Backlog.Knowledge, to session: SessionIndex
    ) -> Bool {
        let (own, isNew) = (sessions[session].user, !sessions[session].resume.isResumed)
        let viewer = watches.user(at: own)
        if Delivery.isOutdated(record, for: viewer, knowing: knowledge) { sessions[session].resume.hasSeenElsewhere() }
        return Delivery.isDue(
            record, to: viewer, knowing: knowledge, isLogin: isNew && !sessions[session].isSynced && user != own,
            policy: policies.policy(of: record.user))
    }

    mutating func unfollow(_ user: UserIndex, by session: SessionIndex) {
        guard watches.unfollow(user, by: session) else { return }
        sessions[session].backlog.drop(user)
        sessions[session].releasePosition()
    }

    /// Returns the users that the session has followed.
    private mutating func unfollowAll(by session: SessionIndex) -> [UserIndex] {
        let (followed, profiles) = (watches.targets(of: session), watches.profiles.targets(of: session))
        for user in followed { unfollow(user, by: session) }
        for user in profiles { unfollowProfile(of: user, by: session) }
        _ = sessions[session].backlog.takeProfile(of: sessions[session].user)
        return followed + profiles
    }

    /// Removes the users that no session follows any more.
    mutating func release(_ users: [UserIndex]) {
        let removed = watches.removeUnused(users)
        if !removed.isEmpty { output.toNode.append(.release(removed)) }
    }

    /// The sessions of a user that have not ended.
    func openSessions(of user: UserIndex) -> [SessionIndex] { watches.sessions(of: user).filter { !sessions[$0].hasEnded } }

    // MARK: Positions

    /// The version up to which the client of a session knows the records, as the policy shows them.
    ///
    /// A client that resumes from before a change of the policy is sent every record once.
    private func knownUpTo(_ session: SessionIndex) -> Version {
        let floor = sessions[session].resume.floor
        let changedAt = policies.changedAt(for: watches.user(at: sessions[session].user))
        return changedAt < floor.milliseconds ? floor : .zero
    }

    /// The position that a session may resume from.
    ///
    /// The position stays at the floor of the session until the session was sent all that it follows, and while the policy forbids that.
    /// While records are unsure it is 0, as ``sharedID``.
    func position(of session: SessionIndex) -> Milliseconds {
        let hasSentAll = sessions[session].isSynced && publishesOthers(to: session)
        return unsure.isEmpty ? sessions[session].resume.id(at: position, hasSentAll: hasSentAll) : 0
    }

    /// The `id` of the events that sessions share.
    ///
    /// While records are unsure it is 0: a client that resumes from there is sent all records, with what the node then knows.
    var sharedID: Milliseconds { unsure.isEmpty ? position : 0 }

    /// Whether the policy allows that a session is sent the records of other users.
    private func publishesOthers(to session: SessionIndex) -> Bool {
        policies.policy(of: watches.user(at: sessions[session].user)).publishesOthers
    }

    /// Keeps the position of a session, because a record is held back from now on.
    mutating func hold(_ session: SessionIndex) {
        guard !sessions[session].resume.isHeld else { return }
        sessions[session].resume.hold(at: position, publishesOthers: publishesOthers(to: session))
    }

    // MARK: Pushing

    /// Pushes the records of users, many in an event. While the queue is full, the records wait.
    mutating func push(_ users: [UserIndex], to session: SessionIndex) {
        if sessions[session].isBlocked {
            for user in users { postpone(user, for: session) }
            return
        }
        sessions[session].backlog.endMarks(of: users)
        let own = sessions[session].user
        let viewer = watches.user(at: own)
        let policy = policies.policy(of: viewer)
        let users = policy.publishesOthers ? users : users.filter { $0 == own }
        for start in stride(from: 0, to: users.count, by: EventText.recordsPerEventMax) {
            let end = min(start + EventText.recordsPerEventMax, users.count)
            let records = users[start..<end].compactMap { user -> Record? in
                watches.record(of: user)?.shown(to: viewer).shown(by: policy)
            }
            push(EventText.statusChanged(records, to: viewer, policy, unsure: unsure, id: position(of: session)), to: session)
            counters.recordsPushed += UInt64(records.count)
        }
    }

    /// Pushes the record of a user in an event of its own. If other records are held back, it is pushed together with them.
    private mutating func pushApart(_ user: UserIndex, to session: SessionIndex) {
        if sessions[session].isSynced, !sessions[session].backlog.hasPending {
            push([user], to: session)
        } else {
            gather([user], for: session)
        }
    }

    /// Has the records of users pushed at the end of the turn, many in an event.
    mutating func gather(_ users: [UserIndex], for session: SessionIndex) {
        guard !users.isEmpty else { return }
        if !sessions[session].backlog.hasPending { sessions.gather(session) }
        hold(session)
        for user in users { postpone(user, for: session) }
    }

    /// Pushes the records that wait, and those that the session was told with another mark.
    mutating func pushPending(_ session: SessionIndex) {
        push(UnsureRecords.takePending(of: session, in: &self), to: session)
        LastViews(session: session).end(in: &self)
    }

    private mutating func postpone(_ user: UserIndex, for session: SessionIndex) {
        if !sessions[session].backlog.postpone(user) { counters.recordsCoalesced += 1 }
    }

    /// Ends the login of a session that was sent all that it follows.
    private mutating func completeSync(_ index: SessionIndex) {
        guard sessions.isReadyToComplete(index) else { return }
        pushPending(index)
        sessions.completeSync(index)
        sessions[index].releasePosition()
        for type in sessions[index].types { push(EventText.syncCompleted(type, id: position(of: index)), to: index) }
    }

    mutating func push(_ event: [UInt8], to session: SessionIndex) {
        output.push(output.add(event), to: session)
        counters.eventsPushed += 1
    }

    /// Pushes an event of the relationship chain. While the queue is full, the stream is owed the event.
    private mutating func push(_ notice: RelationshipNotice, to session: SessionIndex) {
        guard policies.policy(of: watches.user(at: sessions[session].user)).chain.isEnabled else { return }
        guard !sessions[session].isBlocked else { return relationships.owed.add(notice, to: session) }
        push(EventText.relationship(notice, id: position(of: session)), to: session)
    }

    /// Pushes one record that was encoded before.
    private mutating func pushRecord(_ payload: Int32, to session: SessionIndex) {
        pushShared(payload, to: session)
        counters.recordsPushed += 1
    }

    /// Pushes an event that was encoded before.
    mutating func pushShared(_ payload: Int32, to session: SessionIndex) {
        output.push(payload, to: session)
        counters.eventsPushed += 1
    }

    /// Encodes an event with one record; returns the index of its bytes in ``output``.
    private mutating func encode(_ record: Record, to viewer: UserID?, _ policy: Policy) -> Int32 {
        output.add(EventText.statusChanged(CollectionOfOne(record.shown(by: policy)), to: viewer, policy, unsure: unsure, id: sharedID))
    }

    // MARK: Invariants

    /// Stops the process if a machine contradicts itself or another one.
    public func checkInvariants() {
        watches.checkInvariants()
        sessions.checkInvariants()
        relationships.owed.checkInvariants(of: sessions)
        for index in sessions.openIndices {
            sessions[index].checkInvariants(index, watches, endsWithToken: tokenEnds.contains(index))
        }
    }
}
