import PresenceWire

/// The sessions of one event loop, and which of them watches whom (design §2, Gateway).
///
/// A record that is delivered is encoded once and its bytes are shared by all the sessions that watch the user. A session whose queue
/// is full is told nothing until it drains; then it gets the newest record of each user that changed meanwhile: state, not messages.
/// Does no I/O: what is to be pushed and told to the node is left in ``output``, which the caller takes once a turn.
public struct Gateway {
    /// A session's place, used again after it is closed.
    public typealias SessionIndex = UInt32

    fileprivate struct Target {
        let user: UserIndex
        /// Where the session stands among the user's watchers.
        var position: UInt32
    }

    fileprivate struct Session {
        let id: SessionID
        let user: UserIndex
        /// The client has seen something before, though it may not be known what.
        let isResumed: Bool
        /// By the wall clock.
        let openedAt: Milliseconds
        /// Whom the session follows, itself included; sorted by user.
        var targets: [Target] = []
        /// Records up to here need not be told: the position that the client resumes from.
        var floor: Version
        /// What was told of followed users whose record is not known yet.
        var awaited: [UserIndex: Version?] = [:]
        /// What the stream left out because the answer to a call tells it; up to the next such call.
        var toldByAnswer: [(user: UserIndex, version: Version)] = []
        /// Users that are told together, at the end of the turn or when the queue has room again; sorted.
        var pending: [UserIndex] = []
        /// The position when something began that the session is still to be told; it may resume from no later one.
        var heldPosition: Milliseconds?
        var blockedSince: Instant?
        /// The list of whom the user follows has come.
        var hasInterest = false
        var isSynced = false
        /// The types of the subscriptions that were there before everything was told (R13), one bit each.
        var syncedTypes: UInt8 = 0

        /// Whether a version that it was told may be older than what it was shown before it was opened.
        func mayDrop(_ version: Version) -> Bool { version > floor && mayPrecede(version) }

        /// Whether a version may have been written before the session was opened: another side of a split may have told its client something newer.
        func mayPrecede(_ version: Version) -> Bool { version.milliseconds <= openedAt + VersionClock.usualDriftMax.wholeMilliseconds }
    }

    private struct Watched {
        var record: Record?
        /// The sessions that follow the user, in no particular but a reproducible order.
        var watchers: [SessionIndex] = []
        /// The sessions of the user itself.
        var sessions: [SessionIndex] = []
        var interestVersion = Version.zero
    }

    fileprivate typealias UserIndex = UserTable<Int>.Index

    /// What the caller takes and empties once a turn.
    public var output = Output()
    /// Counts since the start.
    public private(set) var counters = Counters()
    private let node: NodeID
    let settings: GatewaySettings
    private var users = UserTable<Watched>()
    private var sessions: [Session?] = []
    private var isBlocked: [Bool] = []
    private var free: [SessionIndex] = []
    /// Sessions that have something to be told at the end of the turn.
    private var gathering: [SessionIndex] = []
    private var indices: [SessionID: SessionIndex] = [:]
    /// Why clients are asked to go elsewhere; those that come now are asked at once.
    private var leavingReason: String?
    /// As the node says them, as ``voidTokens``.
    public private(set) var policies = GatewayPolicies()
    public private(set) var voidTokens = VoidTokens()
    /// Up to when all that this node shows is known to be complete; the `id` of each event.
    private var position: Milliseconds = 0

    /// - Parameter node: the name that `onConnected` tells.
    public init(node: NodeID, settings: GatewaySettings) {
        self.node = node
        self.settings = settings
    }

    /// The session of a user for which `isWanted` holds, if there is one and no other. Changes nothing; it is mutating because Swift copies a
    /// class's property whole before a call that is not, which was 4 % of a request.
    public mutating func onlySession(of user: UserID, where isWanted: (SessionIndex) -> Bool) -> SessionID? {
        let found = users.index(of: user).map { users[$0].sessions.filter(isWanted) } ?? []
        return found.count == 1 ? self[found[0]].id : nil
    }

    /// Open sessions.
    public var sessionsCount: Int { indices.count }

    /// Users that somebody here follows.
    public var usersCount: Int { users.count }

    // MARK: From the client

    /// A client opened its stream. `resumeFrom` is the `Last-Event-ID` it gave back, in milliseconds.
    public mutating func open(_ attach: Attach, resumeFrom: Milliseconds?, at now: Now) -> SessionIndex {
        let user = userIndex(attach.user)
        let isResumed = resumeFrom != nil
        // A position in the future is that of a clock which this cluster does not share: nothing is known to have been told.
        let resumeFrom = resumeFrom.flatMap { $0 <= now.wall ? $0 : nil }
        // Where this node was cut off from others it may show what those who gave the position did not know.
        let floor = resumeFrom.map { Version(milliseconds: max(min($0, position), 0), counter: 0, node: 0) } ?? .zero
        let session = Session(
            id: attach.session, user: user, isResumed: isResumed, openedAt: now.wall, floor: floor)
        let index: SessionIndex
        if let reused = free.popLast() {
            index = reused
            sessions[Int(index)] = session
            isBlocked[Int(index)] = false
        } else {
            index = SessionIndex(sessions.count)
            sessions.append(session)
            isBlocked.append(false)
        }
        indices[attach.session] = index
        users[user].sessions.append(index)
        push(
            EventText.connected(
                session: attach.session, user: attach.user, node: node, heartbeat: heartbeat(of: attach.user, on: attach.platform),
                now: now, id: resumeFrom ?? 0),
            to: index)
        // Before the owner is asked for the user: its answer has the session in it.
        var attach = attach
        attach.openedAt = now.wall
        output.toNode.append(.open(attach))
        follow([(user, floor)], by: index)
        if let leavingReason {
            push(EventText.reconnectHint(reason: leavingReason, afterMilliseconds: 0, id: position(of: index)), to: index)
        }
        return index
    }

    /// The stream is gone. Called once for each session that was opened. For `silence` see ``PresenceWire/Detach/silence``.
    public mutating func close(_ index: SessionIndex, cause: Detach.Cause, silence: Milliseconds = 0) {
        guard let session = sessions[Int(index)] else { return }
        let user = users.user(at: session.user)
        output.toNode.append(.close(Detach(session: session.id, user: user, cause: cause, silence: silence)))
        users[session.user].sessions.removeAll { $0 == index }
        let followed = session.targets.map(\.user)
        for target in followed { unfollow(target, by: index) }
        sessions[Int(index)] = nil
        indices[session.id] = nil
        // Its place may be the next one's before this is taken.
        output.forget(index)
        free.append(index)
        release(followed + [session.user])
    }

    /// The stream's queue is full: nothing more is handed to it until it drains.
    public mutating func block(_ index: SessionIndex, at now: Now) {
        guard sessions[Int(index)] != nil, !isBlocked[Int(index)] else { return }
        isBlocked[Int(index)] = true
        self[index].blockedSince = now.instant
        hold(index)
    }

    /// The stream's queue has room again: it gets the newest record of each user that changed meanwhile.
    public mutating func unblock(_ index: SessionIndex) {
        guard sessions[Int(index)] != nil, isBlocked[Int(index)] else { return }
        isBlocked[Int(index)] = false
        self[index].blockedSince = nil
        tellPending(index)
        completeSync(index)
        letGo(index)
    }

    /// Tells what came in this turn to sessions that are told several users at once (R11, N15). Called before ``output`` is taken.
    public mutating func endTurn() {
        guard !gathering.isEmpty else { return }
        for index in gathering.takeAll() where sessions[Int(index)] != nil && !isBlocked[Int(index)] {
            tellPending(index)
            letGo(index)
        }
    }

    /// Cuts off sessions whose queue has been full for too long.
    public mutating func tick(at now: Now) {
        for index in sessions.indices where isBlocked[index] {
            guard let since = sessions[index]?.blockedSince, since + settings.slowReaderTimeout <= now.instant else { continue }
            sessions[index]?.blockedSince = .farFuture
            counters.slowReaders += 1
            output.cutOff.append(SessionIndex(index))
        }
    }

    /// Asks every client to open a stream elsewhere, evenly spread over `spread`: a herd that moves at once would hurt where it arrives.
    public mutating func hintReconnect(reason: String, spread: Duration) {
        leavingReason = reason
        let open = sessions.indices.filter { sessions[$0] != nil && !hasEnded(SessionIndex($0)) }
        for (rank, index) in open.enumerated() {
            let delay = spread.wholeMilliseconds * Int64(rank) / Int64(open.count)
            let session = SessionIndex(index)
            push(EventText.reconnectHint(reason: reason, afterMilliseconds: delay, id: position(of: session)), to: session)
        }
    }

    // MARK: From the node

    /// Takes what the node's core says.
    public mutating func receive(_ message: NodeMessage) {
        switch message {
        case .deliver(let record): deliver(record)
        case .interest(let interest): receive(interest)
        case .untold(let interest): tellAgain(interest)
        case .end(let session, let reason): end(session, reason: reason)
        case .policy(let app, let policy): follow(policy, of: app)
        case .kicked(let user, let before, let reason): kick(user, before: before, reason: reason)
        case .forgetKicks(let users): for user in users { voidTokens[user] = nil }
        case .position(let milliseconds): position = max(position, milliseconds)
        }
    }

    private mutating func deliver(_ record: Record) {
        guard let user = users.index(of: record.user) else { return }
        let old = users[user].record
        if let old, old.version >= record.version {
            // Nobody is told it again who is here.
            if old.version == record.version { users[user].record?.knownSince = max(old.knownSince, record.knownSince) }
            return
        }
        users[user].record = record
        guard let old else { return deliverFirst(record, of: user) }
        let policy = policies.policy(of: record.user)
        let watchers = policy.tellsOfOthers ? users[user].watchers : users[user].sessions.filter { !hasEnded($0) }
        // A viewer from whom the user hides is shown another change than the others are, or none.
        if old.hasPrivacy || record.hasPrivacy || record.looksLike(old, showsPlatforms: policy.exposesPlatforms) {
            return deliver(record, after: old, of: user, to: watchers)
        }
        tell(record, by: policy, of: user, to: watchers)
    }

    /// Those who watch a user, to all of whom it looks the same but to itself where that differs: each face is encoded once.
    private mutating func tell(_ record: Record, by policy: Policy, of user: UserIndex, to watchers: [SessionIndex]) {
        let differsToItself = policy.selfReport == .unknown || record.hasEvents
        var (payload, ownPayload): (Int32?, Int32?)
        for session in watchers {
            if isBlocked[Int(session)] {
                postpone(user, for: session)
                continue
            }
            guard self[session].isSynced, self[session].heldPosition == nil, policy.tellsOfOthers else {
                tellApart(user, to: session)
                counters.changesPushed += 1
                continue
            }
            let isOwn = differsToItself && self[session].user == user
            let known = isOwn ? ownPayload : payload
            let shared =
                known
                ?? addPayload(
                    EventText.statusChanged(CollectionOfOne(record.shown(by: policy)), to: isOwn ? record.user : nil, policy, id: position))
            if isOwn { ownPayload = shared } else { payload = shared }
            output.pushes.append(Push(session: session, payload: shared))
            counters.recordsPushed += 1
            counters.changesPushed += 1
            counters.eventsPushed += 1
        }
    }

    /// Tells those to whom the user looks different by the new record: each face is encoded once.
    private mutating func deliver(_ record: Record, after old: Record, of user: UserIndex, to watchers: [SessionIndex]) {
        let policy = policies.policy(of: record.user)
        var payloads: [(face: Record, isOwn: Bool, payload: Int32)] = []
        for session in watchers {
            let viewer = users.user(at: self[session].user)
            let (before, after) = (old.shown(to: viewer), record.shown(to: viewer))
            // A client that resumed may have been shown something newer by another side of a split (by another clock than `knownSince`):
            // it dropped what it was told here, and holds what it was shown there.
            let mayHoldNewer = record.changesPrivacy ? self[session].mayDrop(before.version) : self[session].mayPrecede(before.version)
            let isDoubted = self[session].isResumed && (after.knownSince > 0 || mayHoldNewer)
            guard after.version > before.version else { continue }
            guard isDoubted || !after.looksLike(before, showsPlatforms: policy.exposesPlatforms) else {
                // If the answer that tells what was before fails, this is what is to be told.
                let awaited = self[session].toldByAnswer.firstIndex { $0.user == user && $0.version == before.version }
                if let awaited { self[session].toldByAnswer[awaited].version = after.version }
                continue
            }
            if isBlocked[Int(session)] {
                postpone(user, for: session)
                continue
            }
            counters.changesPushed += 1
            guard self[session].isSynced, self[session].heldPosition == nil, policy.tellsOfOthers else {
                tellApart(user, to: session)
                continue
            }
            let isOwn = viewer == record.user
            let known = payloads.first { $0.isOwn == isOwn && $0.face == after }?.payload
            let shared =
                known
                ?? addPayload(
                    EventText.statusChanged(CollectionOfOne(after.shown(by: policy)), to: isOwn ? viewer : nil, policy, id: position))
            if known == nil { payloads.append((after, isOwn, shared)) }
            output.pushes.append(Push(session: session, payload: shared))
            counters.recordsPushed += 1
            counters.eventsPushed += 1
        }
    }

    /// The first record of a user that sessions wait for: some of them were told a version before.
    private mutating func deliverFirst(_ record: Record, of user: UserIndex) {
        for session in users[user].watchers {
            let told = self[session].awaited.removeValue(forKey: user) ?? nil
            if isDue(record, of: user, told: told, to: session) { gather([user], for: session) }
            completeSync(session)
            letGo(session)
        }
    }

    private mutating func receive(_ interest: Interest) {
        guard let user = users.index(of: interest.user) else { return }
        var interest = interest
        let isOutdated = interest.isWhole && interest.version < users[user].interestVersion
        // It does not know whom a newer change named (seed 18045972).
        if isOutdated { interest.mayLackSome = true }
        users[user].interestVersion = max(users[user].interestVersion, interest.version)
        for session in users[user].sessions where !hasEnded(session) {
            // Whoever has no list yet takes an older one: the owner that told the newer one may have died with it.
            if !isOutdated || !self[session].hasInterest { apply(interest, to: session) }
            if interest.isWhole, !self[session].hasInterest {
                self[session].hasInterest = true
                output.attached.append(session)
            }
            completeSync(session)
        }
    }

    /// Tells what the answer to a call was to tell; not what has been replaced since, which was pushed.
    private mutating func tellAgain(_ interest: Interest) {
        guard let user = users.index(of: interest.user) else { return }
        for session in users[user].sessions where !hasEnded(session) {
            let told = self[session].toldByAnswer
            self[session].toldByAnswer = []
            for (target, _) in told where self[session].awaited[target] != nil { self[session].awaited.updateValue(nil, forKey: target) }
            let own = users.user(at: self[session].user)
            tell(told.filter { users[$0.user].record?.shown(to: own).version == $0.version }.map(\.user), to: session)
        }
    }

    private mutating func apply(_ interest: Interest, to session: SessionIndex) {
        let floor = self[session].floor
        // A session that has not had its list yet did not make the call whose answer told something; nor did one that was not there.
        let isOfList = interest.isWhole || !self[session].hasInterest
        let isAsker = interest.asker == nil || interest.asker == self[session].id
        let added = interest.added.map { followed -> (user: UserIndex, told: Version?) in
            // What comes by itself was not told before: it was held back until it was on disk, and may have been lost on its way.
            let isNewerThanResume = !interest.isWhole || followed.since >= floor.milliseconds
            // N8: told of all that was so when it was asked, by the clock of the subscriber's owner, and of nothing that has changed since.
            let asItWas = Version(milliseconds: followed.since, counter: 0, node: Self.asItWas)
            let told = followed.told == .max ? asItWas : isAsker ? followed.told : nil
            // Also of users nobody has written about: everything has been told when the stream says so.
            return (userIndex(followed.target), isOfList ? (isNewerThanResume ? nil : floor) : told)
        }
        var removed = interest.removed.compactMap { users.index(of: $0) }
        if interest.isWhole, !interest.mayLackSome {
            let kept = added.map(\.user).sorted()
            removed = self[session].targets.map(\.user).filter { !kept.containsSorted($0) }
        }
        let own = self[session].user
        removed.removeAll { $0 == own }
        for user in removed { unfollow(user, by: session) }
        let told = isOfList ? [] : added.compactMap { added in added.told.map { (user: added.user, version: $0) } }
        if !told.isEmpty { self[session].toldByAnswer = told.filter { !follows($0.user, session) } }
        follow(added, by: session)
        if !self[session].isSynced {
            for followed in interest.added where (1...4).contains(followed.subscribeType) {
                self[session].syncedTypes |= 1 << followed.subscribeType
            }
        }
        if interest.isNews, !interest.isWhole, self[session].id != interest.asker, self[session].hasInterest {
            push(EventText.subscriptionsChanged(interest, id: position(of: session)), to: session)
        }
        if interest.hasExpired, self[session].hasInterest {
            push(EventText.subscriptionsExpired(interest.removed, id: position(of: session)), to: session)
        }
        release(removed)
    }

    private mutating func end(_ id: SessionID, reason: String) {
        guard let index = indices[id], !hasEnded(index) else { return }
        push(EventText.ended(reason: reason, id: position(of: index)), to: index)
        output.ended.append(index)
        // Nothing comes after it (contract §4).
        let followed = self[index].targets.map(\.user)
        for target in followed { unfollow(target, by: index) }
        release(followed)
    }

    /// The session was told that it ends. From then on it does not follow its own user any more, as every other session does.
    private func hasEnded(_ session: SessionIndex) -> Bool { !follows(self[session].user, session) }

    private mutating func kick(_ user: UserID, before: Milliseconds, reason: String) {
        voidTokens[user] = before
        for session in users.index(of: user).map({ users[$0].sessions }) ?? [] { end(self[session].id, reason: reason) }
    }

    // MARK: Policies

    /// A policy has changed. Those who may be told of others again are told what has changed meanwhile.
    private mutating func follow(_ policy: Policy, of app: String?) {
        let old = policies.policy(of: app)
        policies = policies.with(policy, of: app)
        guard let app, policy.tellsOfOthers, !old.tellsOfOthers else { return }
        for index in sessions.indices.map(SessionIndex.init) {
            guard let session = sessions[Int(index)], users.user(at: session.user).app == app else { continue }
            tell(session.targets.map(\.user).filter { users[$0].record != nil && session.awaited[$0] == nil }, to: index)
        }
    }

    /// Whether a session is to be told of a user whom it follows from now on, of whom it was told the version `told` before.
    private func isDue(_ record: Record, of user: UserIndex, told: Version?, to session: SessionIndex) -> Bool {
        let record = record.hasPrivacy ? record.shown(to: users.user(at: self[session].user)) : record
        let isLogin = !self[session].isSynced && !self[session].isResumed && user != self[session].user
        // N21: clients take everybody for offline when they come. They know nothing of events, though (N13).
        if isLogin, record.statusType != .online, !record.hasEvents, policies.policy(of: record.user).replay == .online { return false }
        // Not by its version, which an owner that was alone renews of users of whom nothing is new.
        if let told, told.node == Self.asItWas { return record.lastUpdateTime >= told.milliseconds }
        return told.map { record.isUntold(since: $0) } ?? true
    }

    /// In place of a node in what a session was told: no version, but all that was so then.
    private static let asItWas = UInt32.max

    // MARK: Following

    private func follows(_ user: UserIndex, _ session: SessionIndex) -> Bool {
        let place = self[session].place(of: user)
        return place < self[session].targets.count && self[session].targets[place].user == user
    }

    private mutating func follow(_ added: [(user: UserIndex, told: Version?)], by session: SessionIndex) {
        var wanted: [UserID] = []
        var told: [UserIndex] = []
        for (user, version) in added {
            if follows(user, session) { continue }
            let place = self[session].place(of: user)
            let position = UInt32(users[user].watchers.count)
            if position == 0 { wanted.append(users.user(at: user)) }
            users[user].watchers.append(session)
            self[session].targets.insert(Target(user: user, position: position), at: place)
            if let record = users[user].record {
                if isDue(record, of: user, told: version, to: session) { told.append(user) }
            } else {
                self[session].awaited.updateValue(version, forKey: user)
                hold(session)
            }
        }
        if !wanted.isEmpty { output.toNode.append(.want(wanted)) }
        if self[session].isSynced { tell(told, to: session) } else { gather(told, for: session) }
    }

    private mutating func unfollow(_ user: UserIndex, by session: SessionIndex) {
        guard follows(user, session) else { return }
        let place = self[session].place(of: user)
        let position = Int(self[session].targets.remove(at: place).position)
        self[session].awaited[user] = nil
        self[session].toldByAnswer.removeAll { $0.user == user }
        self[session].pending.removeAll { $0 == user }
        letGo(session)
        let last = users[user].watchers.removeLast()
        guard position < users[user].watchers.count else { return }
        users[user].watchers[position] = last
        let lastPlace = self[last].place(of: user)
        self[last].targets[lastPlace].position = UInt32(position)
    }

    /// Forgets those whom nobody follows any more.
    private mutating func release(_ indices: [UserIndex]) {
        var unwanted: [UserID] = []
        for user in indices where users.isLive(user) && users[user].watchers.isEmpty && users[user].sessions.isEmpty {
            unwanted.append(users.user(at: user))
            users.remove(user)
        }
        if !unwanted.isEmpty { output.toNode.append(.unwant(unwanted)) }
    }

    // MARK: Telling

    /// Pushes the records held of `indices`, many to an event; or keeps them for later when the queue is full.
    private mutating func tell(_ indices: [UserIndex], to session: SessionIndex) {
        if isBlocked[Int(session)] {
            for user in indices { postpone(user, for: session) }
            return
        }
        let own = self[session].user
        let viewer = users.user(at: own)
        let policy = policies.policy(of: viewer)
        let indices = policy.tellsOfOthers ? indices : indices.filter { $0 == own }
        var start = 0
        while start < indices.count {
            let end = min(start + EventText.recordsPerEventMax, indices.count)
            let records = indices[start..<end].compactMap { user -> Record? in
                users[user].record?.shown(to: viewer).shown(by: policy)
            }
            push(EventText.statusChanged(records, to: viewer, policy, id: position(of: session)), to: session)
            counters.recordsPushed += UInt64(records.count)
            start = end
        }
    }

    /// The position that a session may resume from: before all that it follows has been told, and while the policy forbids that, no more than it resumed
    /// from itself.
    private func position(of session: SessionIndex) -> Milliseconds {
        let isTold = self[session].isSynced && tellsOfOthers(session)
        return min(position, isTold ? self[session].heldPosition ?? .max : self[session].floor.milliseconds)
    }

    private func tellsOfOthers(_ session: SessionIndex) -> Bool { policies.policy(of: users.user(at: self[session].user)).tellsOfOthers }

    /// Something begins that the session is to be told later.
    private mutating func hold(_ session: SessionIndex) {
        guard self[session].heldPosition == nil else { return }
        self[session].heldPosition = tellsOfOthers(session) ? position : min(position, self[session].floor.milliseconds)
    }

    /// Nothing is held back from the session any more, if that is so.
    private mutating func letGo(_ session: SessionIndex) {
        if self[session].awaited.isEmpty, self[session].pending.isEmpty, !isBlocked[Int(session)] { self[session].heldPosition = nil }
    }

    /// Tells a user that has changed to a session for which something is held back: with that, if it is told at the end of the turn.
    private mutating func tellApart(_ user: UserIndex, to session: SessionIndex) {
        if self[session].isSynced, self[session].pending.isEmpty { tell([user], to: session) } else { gather([user], for: session) }
    }

    /// Users that the session is told at the end of the turn, many to an event.
    private mutating func gather(_ users: [UserIndex], for session: SessionIndex) {
        guard !users.isEmpty else { return }
        if self[session].pending.isEmpty { gathering.append(session) }
        hold(session)
        for user in users { postpone(user, for: session) }
    }

    private mutating func tellPending(_ session: SessionIndex) {
        let pending = self[session].pending
        self[session].pending = []
        tell(pending, to: session)
    }

    private mutating func postpone(_ user: UserIndex, for session: SessionIndex) {
        let pending = self[session].pending
        let place = pending.firstPlace(of: user)
        if place < pending.count, pending[place] == user {
            counters.recordsCoalesced += 1
        } else {
            self[session].pending.insert(user, at: place)
        }
    }

    private mutating func completeSync(_ index: SessionIndex) {
        let session = self[index]
        guard session.hasInterest, !session.isSynced, session.awaited.isEmpty, !isBlocked[Int(index)], !hasEnded(index) else { return }
        tellPending(index)
        (self[index].isSynced, self[index].awaited) = (true, [:])  // The empty dictionary gives back its memory.
        letGo(index)
        let (id, types) = (position(of: index), (UInt8(1)...4).filter { session.syncedTypes & 1 << $0 != 0 })
        // A session that follows nobody is told, too, that the login is complete.
        for type in types.isEmpty ? [Subscription.onlineStatus] : types { push(EventText.syncCompleted(type, id: id), to: index) }
    }

    private mutating func push(_ payload: [UInt8], to session: SessionIndex) {
        output.pushes.append(Push(session: session, payload: addPayload(payload)))
        counters.eventsPushed += 1
    }

    private mutating func addPayload(_ payload: [UInt8]) -> Int32 {
        output.payloads.append(payload)
        return Int32(output.payloads.count - 1)
    }

    // MARK: Tables

    private mutating func userIndex(_ user: UserID) -> UserIndex { users.index(of: user, orInsert: Watched()).index }

    private subscript(index: SessionIndex) -> Session {
        _read {
            guard case .some = sessions[Int(index)] else { preconditionFailure("no session at index \(index)") }
            yield sessions[Int(index)].unsafelyUnwrapped
        }
        _modify {
            precondition(sessions[Int(index)] != nil, "no session at index \(index)")
            yield &sessions[Int(index)]!
        }
    }
}

extension Gateway.Session {
    /// Where `user` stands, or would stand, among the targets.
    fileprivate func place(of user: Gateway.UserIndex) -> Int { targets.firstPlace { $0.user < user } }
}
