import PresenceWire

/// The operations that the owner of a user decides. Validated where they entered; every answer to a change waits for the disk.
extension OwnerShards {
    mutating func perform(_ request: Request, from peer: PeerIndex, at now: Now, into outbox: inout Outbox) {
        switch request.operation {
        case .setSelfStatus(let customStatus, let seconds):
            guard customStatus.isEmpty || maySetCustomStatus(request.user) else {
                return outbox.answer(request.id, .refused(.noSession), to: peer)
            }
            setSelfStatus(request.user, customStatus, seconds, at: now, into: &outbox)
            outbox.answersWhenStored.append((peer, request.id, .record(record(of: request.user))))
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced, let session):
            let event = PublishedEvent(
                value: value, ext: ext, expiresAt: 0, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced, session: session)
            publish(event, seconds, of: request, at: now, into: &outbox)
            outbox.answersWhenStored.append((peer, request.id, .record(record(of: request.user))))
        case .subscribe(let targets, let seconds, let type, let session, let isCounted):
            let crowded = isCounted ? [] : crowded(targets, for: request.user)
            guard crowded.isEmpty else { return outbox.answer(request.id, .crowded(crowded), to: peer) }
            let strangers = type == Subscription.friendOnlineStatus ? strangers(among: targets, to: request.user) : []
            if let refusal = refusal(of: strangers, to: request.user) { return outbox.answer(request.id, .refused(refusal), to: peer) }
            _ = accepts(request.begunAt, at: now)
            let since = request.isRepeated ? request.begunAt : nil
            let friends = targets.filter { !strangers.contains($0.user) }
            let plan = Following(targets: friends, seconds: seconds, type: type, session: session, repeatedSince: since)
            let surplus = surplus(of: plan, by: request.user)
            if !surplus.isEmpty, policies.policy(of: request.user).errorShape == .wholeCall {
                return outbox.answer(request.id, .subscribed(evicted: [], refused: surplus, strangers: []), to: peer)
            }
            let evicted = subscribe(request.user, plan, surplus, at: now, into: &outbox)
            let answer = Answer.subscribed(evicted: evicted, refused: surplus, strangers: strangers)
            outbox.answersWhenStored.append((peer, request.id, answer))
        case .unsubscribe(let targets, let type, let session):
            unsubscribe(request.user, targets, of: type, by: session, at: now, into: &outbox)
            outbox.answersWhenStored.append((peer, request.id, .done))
        case .logout(let session):
            logout(request.user, session, at: now, into: &outbox)
            outbox.answersWhenStored.append((peer, request.id, .done))
        case .subscriptions(let only, let offset, let limit, let type):
            outbox.answer(request.id, subscriptions(of: request.user, only: only, offset: offset, limit: limit, type: type), to: peer)
        case .setVisibility(let change):
            guard setVisibility(request, change, at: now, into: &outbox) else {
                return outbox.answer(request.id, .refused(.unavailable), to: peer)
            }
            outbox.answersWhenStored.append((peer, request.id, .visibility(record(of: request.user).privacy ?? Privacy())))
        case .visibility: outbox.answer(request.id, .visibility(record(of: request.user).privacy ?? Privacy()), to: peer)
        case .register:
            register(request.user, at: now, into: &outbox)
            outbox.answersWhenStored.append((peer, request.id, .record(record(of: request.user))))
        case .setPolicy, .kick, .explain, .followers, .countQuery: preconditionFailure("what all nodes keep is the node's to change")
        case .records(let users, let viewer):
            outbox.answer(request.id, .records(users.map { record(of: $0).shown(to: viewer) }), to: peer)
        }
    }

    private mutating func setSelfStatus(
        _ id: UserID, _ customStatus: String, _ seconds: Int64?, at now: Now, into outbox: inout Outbox
    ) {
        let expiry = seconds.map { now.wall + $0 * 1_000 } ?? 0
        let user = index(of: id)
        let change = StatusChange(customStatus: customStatus, customStatusExpiresAt: expiry)
        if !refresh(user, change, at: now, into: &outbox) { writeAgain(user, into: &outbox) }
    }

    /// The call has changed nothing. What it asks for may be on this disk alone, because an earlier attempt failed.
    private func writeAgain(_ user: Index, into outbox: inout Outbox) {
        if users[user].record.version > .zero { outbox.rows.append(Row(users[user].record)) }
    }

    /// A repeated call publishes once.
    private mutating func publish(
        _ event: PublishedEvent, _ seconds: Int64, of request: Request, at now: Now, into outbox: inout Outbox
    ) {
        _ = accepts(request.begunAt, at: now)
        let user = index(of: request.user)
        if request.isRepeated, let done = users[user].record.events.newest, done.id > request.begunAt, done.value == event.value,
            done.ext == event.ext
        {
            return outbox.rows.append(Row(users[user].record))
        }
        refresh(user, StatusChange(events: .publish(event, seconds: seconds)), at: now, into: &outbox)
    }

    /// What a `subscribe` asks for.
    private struct Following {
        let targets: [OwnerOperation.Target]
        let seconds: Int64?
        let type: UInt8
        let session: SessionID?
        let repeatedSince: Version?
    }

    /// Returns who was evicted, also by an earlier attempt of the same call whose answer was lost. For `refused` there is no room.
    private mutating func subscribe(
        _ id: UserID, _ plan: Following, _ refused: [UserID], at now: Now, into outbox: inout Outbox
    ) -> [UserID] {
        let user = index(of: id)
        let version = clock.next(at: now.wall)
        let expiresAt = plan.seconds.map { now.wall + $0 * 1_000 }
        var changed: [Subscription] = []
        let sessionPeers = users[user].sessionPeers
        let accepted = plan.targets.map(\.user).filter { !refused.contains($0) }
        let done = users[user].subscriptions.done(accepted, since: plan.repeatedSince)
        let doneTargets = (done.added + done.evicted).map(\.target)
        for target in plan.targets where !doneTargets.contains(target.user) && !refused.contains(target.user) {
            var entry = Subscription(
                target: target.user, subscribeType: type(of: target.user, for: user, asked: plan.type), subscribedAt: now.wall,
                expiresAt: expiresAt, version: version)
            // The gateways hear of it when it is on disk; until then no position that they tell counts (``noteTold(_:)``).
            entry.learntAt = sessionPeers.isEmpty ? knownSince(at: now) : .max
            if users.modify(user, { $0.subscriptions.merge(entry) }) { changed.append(entry) }
        }
        let evicted = evict(downTo: subscriptionsMax(of: user), from: user, version: clock.next(at: now.wall))
        // Only one of several sessions has made the call, or one that is not known here: then all are told by their streams.
        let isAlone = users[user].sessions.count == 1 && (plan.session ?? users[user].sessions[0].id) == users[user].sessions[0].id
        let kept = plan.targets.filter { users[user].subscriptions.entry(for: $0.user) != nil }
        let followed = kept.map {
            Interest.Followed(
                target: $0.user, told: isAlone || $0.told == .max ? $0.told : nil, since: version.milliseconds,
                subscribeType: type(of: $0.user, for: user, asked: plan.type), expiresAt: expiresAt)
        }
        var interest = change(of: user, added: followed, removed: evicted)
        name(plan.session, in: &interest, of: user)
        outbox.interestsWhenStored += sessionPeers.map { ($0, interest) }
        if !sessionPeers.isEmpty { users.modify(user) { $0.untoldCount += 1 } }
        // What an earlier attempt wrote may be nowhere else yet.
        outbox.rows += (changed + evicted + done.added + done.evicted).map { Row($0, of: id) }
        schedule(user, at: now)
        return (evicted + done.evicted).map(\.target)
    }

    /// Those for whom there is no room where the policy evicts nobody.
    private func surplus(of plan: Following, by id: UserID) -> [UserID] {
        let policy = policies.policy(of: id)
        guard policy.overflow == .reject else { return [] }
        let list = index(ofKnown: id).map { users[$0].subscriptions } ?? Subscriptions()
        let new = plan.targets.filter { list.entry(for: $0.user) == nil }
        return new.dropFirst(max(Int(policy.subscriptionsMax) - list.liveCount, 0)).map(\.user)
    }

    /// The gateways are told now what was held back: those of one user together, because the list has one mark.
    mutating func noteTold(_ interests: [(peer: PeerIndex, interest: Interest)]) -> [(peer: PeerIndex, interest: Interest)] {
        var last: (peer: PeerIndex, interest: Interest)?
        return interests.map { peer, interest in
            // The peers of one change are in their order.
            let isSame = last.map { $0.peer < peer && $0.interest == interest } ?? false
            if !isSame, let user = index(ofKnown: interest.user) {
                users.modify(user) { user in
                    user.listMark = interest.marked(after: user.listMark)
                    user.untoldCount = max(user.untoldCount - 1, 0)
                }
            }
            last = (peer, interest)
            return (peer, noteTold(interest))
        }
    }

    /// The gateways are told now what was held back until it was on disk. Returns what of it holds still: the list may have changed
    /// meanwhile, and they have been told.
    mutating func noteTold(_ interest: Interest) -> Interest {
        guard let user = index(ofKnown: interest.user) else { return interest }
        var interest = interest
        interest.added.removeAll { users[user].subscriptions.entry(for: $0.target) == nil }
        interest.removed.removeAll { users[user].subscriptions.entry(for: $0) != nil }
        interest.unfollowed.removeAll { users[user].subscriptions.entry(for: $0.target) != nil }
        interest.removed = forgotten(interest.removed, by: user)  // One of them may be a friend by now.
        let learntAt = max(clock.milliseconds(at: 0), claimedByOthers)
        users.modify(user) { user in
            for followed in interest.added { user.subscriptions.learn(followed.target, at: learntAt) }
        }
        return interest
    }

    private mutating func unsubscribe(
        _ id: UserID, _ targets: [UserID]?, of type: UInt8?, by session: SessionID?, at now: Now, into outbox: inout Outbox
    ) {
        let user = index(of: id)
        let version = clock.next(at: now.wall)
        let unknownAt = isUnheard ? now.wall : nil
        let (ended, others) = users.modify(user) { $0.subscriptions.unsubscribe(targets, of: type, version: version, unknownAt: unknownAt) }
        // The gateways may follow whom this node does not know: nodes that were not heard may have told them.
        let isDoubtful = isUnheard && targets != nil
        drop(isDoubtful ? ended + others : ended, of: user, by: .some(session), into: &outbox)
        guard !isDoubtful, !others.isEmpty else { return }
        outbox.rows += others.map { Row($0, of: id) }
    }

    private mutating func logout(_ id: UserID, _ session: SessionID?, at now: Now, into outbox: inout Outbox) {
        let user = index(of: id)
        let ended = users[user].sessions.filter { session == nil || $0.id == session }
        for session in ended where session.missedUntil == nil {
            outbox.send(.end(session.id, user: id, reason: SessionEnd.logout), to: session.peer)
        }
        counters.logouts += UInt64(ended.count { !$0.isCounted })
        users.modify(user) { user in
            user.sessions.removeAll { session == nil || $0.id == session }
            if session == nil { user.doubtDeadline = nil }
            if session == nil || !ended.isEmpty { user.statusAfterLast = .unlogined }
        }
        let change = StatusChange(isLogout: session == nil, departed: ended)
        if !refresh(user, change, at: now, into: &outbox) { writeAgain(user, into: &outbox) }
    }

    private func subscriptions(of id: UserID, only: [UserID]?, offset: Int, limit: Int, type: UInt8?) -> Answer {
        guard let user = index(ofKnown: id) else { return .subscriptions([], total: 0) }
        let subscriptions = users[user].subscriptions
        if let only {
            let found = only.compactMap { subscriptions.entry(for: $0) }.filter { $0.isOf(type) }
            return .subscriptions(found, total: found.count)
        }
        let total = type == nil ? subscriptions.liveCount : subscriptions.live.count { $0.isOf(type) }
        return .subscriptions(subscriptions.page(of: type, offset: offset, limit: limit), total: total)
    }

    /// Ends the subscriptions whose time is up (N6); nobody is notified (R12), unless the policy wants it.
    mutating func expireSubscriptions(_ user: Index, at now: Now, into outbox: inout Outbox) {
        guard let expiry = users[user].subscriptions.nextExpiry, expiry <= now.wall else { return }
        let version = clock.next(at: now.wall)
        let notifies = policies.policy(of: users.user(at: user)).notifiesExpiry
        let expired = users.modify(user) { $0.subscriptions.expire(at: now.wall, version: version) }
        drop(expired, of: user, hasExpired: notifies, into: &outbox)
    }

    /// Merges what another owner knew of the list, and tells the gateways if it was more. Returns whether it was.
    mutating func merge(_ entries: [Subscription], at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        let id = users.user(at: user)
        let learntAt = knownSince(at: now)
        let changed = users.modify(user) { user in entries.filter { user.subscriptions.merge($0.learnt(at: learntAt)) } }
        guard !changed.isEmpty else { return false }
        clock.observe(users[user].subscriptions.version)
        outbox.rows += changed.map { Row($0, of: id) }
        noteSurplus(user, at: now)
        noteStrangers(user, at: now)
        oweList(of: user, into: &outbox)
        schedule(user, at: now)
        return true
    }

    /// Two sides of a split, or two replicas, may each have known a part of a list: together it keeps to its quota too. It is cut a while
    /// after the last part has come: before, what is too much may be what another part removes.
    mutating func noteSurplus(_ user: Index, at now: Now) {
        guard users[user].subscriptions.liveCount > subscriptionsMax(of: user) else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = due }
    }

    /// Cuts a list to what may be in it, a while after its last part has come.
    mutating func repairList(of user: Index, at now: Now, into outbox: inout Outbox) {
        endFriendships(of: user, at: now, into: &outbox)
        guard users[user].subscriptions.liveCount > subscriptionsMax(of: user) else { return }
        let evicted = evict(downTo: subscriptionsMax(of: user), from: user, version: clock.next(at: now.wall))
        drop(evicted, of: user, into: &outbox)
    }

    private mutating func evict(downTo countMax: Int, from user: Index, version: Version) -> [Subscription] {
        let evicted = users.modify(user) { $0.subscriptions.evict(downTo: countMax, version: version) }
        counters.evictions += UInt64(evicted.count)
        return evicted
    }

    /// - Parameters:
    ///   - session: the session that asked; nil when nobody has asked.
    ///   - hasExpired: their time was up, and the sessions are told.
    mutating func drop(
        _ removed: [Subscription], of user: Index, by session: SessionID?? = nil, hasExpired: Bool = false, into outbox: inout Outbox
    ) {
        guard !removed.isEmpty else { return }
        var interest = change(of: user, added: [], removed: removed)
        interest.hasExpired = hasExpired
        users.modify(user) { $0.listMark = interest.marked(after: $0.listMark) }
        if let session { name(session, in: &interest, of: user) }
        for peer in users[user].sessionPeers { outbox.send(.interest(interest), to: peer) }
        outbox.rows += removed.map { Row($0, of: users.user(at: user)) }
    }

    /// The user's devices but the one that asked are told of the call (R14). Where it is not known which one asked, the only one did.
    private func name(_ session: SessionID?, in interest: inout Interest, of user: Index) {
        let sessions = users[user].sessions
        let session = session ?? (sessions.count == 1 ? sessions[0].id : nil)
        interest.asker = session
        interest.isNews = !(interest.added.isEmpty && interest.unfollowed.isEmpty) && sessions.contains { $0.id != session }
    }

    private func change(of user: Index, added: [Interest.Followed], removed: [Subscription]) -> Interest {
        var interest = Interest(
            user: users.user(at: user), version: users[user].subscriptions.version, isWhole: false, added: added,
            removed: forgotten(removed.map(\.target), by: user))
        interest.unfollowed = removed.map { Interest.Unfollowed(target: $0.target, subscribeType: $0.subscribeType) }
        return interest
    }
}

extension Subscription {
    /// The same, learnt of when the node's version clock showed `time`: a client that resumes from an earlier one was not told of the target.
    func learnt(at time: Milliseconds) -> Subscription {
        var learnt = self
        learnt.learntAt = time
        return learnt
    }
}

extension Interest {
    /// The whole list of `user`.
    init(whole subscriptions: Subscriptions, of user: UserID) {
        let added = subscriptions.live.map {
            Followed(
                target: $0.target, told: .zero, since: max($0.version.milliseconds, $0.learntAt), subscribeType: $0.subscribeType,
                expiresAt: $0.expiresAt)
        }
        self.init(user: user, version: subscriptions.version, isWhole: true, added: added, removed: [])
    }
}
