import PresenceWire

/// The operations of clients: sent to the owners that decide them, collected, and answered once.
struct Calls {
    /// The operations that wait for owners.
    var waiting: PendingCalls
    /// The recent calls of each user, for the rate limits.
    var rates = RateLimits()

    /// - Parameter number: all request IDs are larger.
    init(after number: UInt64) { waiting = PendingCalls(after: number) }

    /// Performs an operation of a client. The answer is an effect with the same `token`, at the latest after ``CoreSettings/callTimeout``.
    ///
    /// - Parameters:
    ///   - origin: the token of the call.
    ///   - originSession: the calling session; ``PresenceWire/SessionID/nobody`` for none, nil if unknown.
    ///   - seesAll: whether the answer has whole records, whatever their visibility.
    mutating func perform(
        _ call: Call, caller: UserID, origin: Call.Origin, seesAll: Bool, originSession: SessionID?, gateway: Int, token: UInt64,
        _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let viewer = seesAll ? nil : caller
        let isLimited = origin == .caller
        let decision = isLimited ? count(call, of: caller, &owner, &cluster, at: now) : .answer
        if case .refuse(let seconds) = decision {
            return cluster.outbox.effects.append(.answer(gateway: gateway, token: token, .rateLimited(retryAfter: seconds)))
        }
        if decision == .answer, case .getUserStatus(let users) = call,
            answerAtOnce(users, viewer, gateway: gateway, token: token, &edge, &owner, &cluster, at: now)
        {
            return
        }
        guard waiting.count < cluster.settings.callsMax else {
            cluster.outbox.effects.append(.answer(gateway: gateway, token: token, .refused(.overloaded)))
            return
        }
        let index = waiting.add(
            PendingCalls.Pending(
                gateway: gateway, token: token, caller: caller, viewer: viewer, call: call,
                deadline: now.instant + cluster.settings.callTimeout,
                begunAt: owner.clock.current(at: now.wall),
                originSessions: originSession.map { [$0] } ?? edge.sessions.originSessions(caller), isLimited: isLimited
            ))
        // The answer waits for both the count and the records.
        if decision == .ask { ask(.countQuery(isMade: false), of: caller, for: index, &cluster) }
        if origin == .backEndForCaller, call.needsUser, owner.policies.policy(of: caller).mustBeRegistered {
            waiting[index]?.isOfUnknown = true
            gather([caller], for: index, &edge, &owner, &cluster, at: now)
        } else {
            begin(call, of: caller, index, &edge, &owner, &cluster, at: now)
        }
    }

    private mutating func begin(
        _ call: Call, of caller: UserID, _ index: PendingCalls.CallIndex, _ edge: inout Edge, _ owner: inout Owner,
        _ cluster: inout Cluster,
        at now: Now
    ) {
        switch call {
        case .setSelfStatus(let customStatus, let seconds):
            ask(.setSelfStatus(customStatus: customStatus, seconds: seconds), of: caller, for: index, &cluster)
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced):
            ask(
                .publishEvent(
                    value: value, ext: ext, seconds: seconds, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced,
                    session: self.originSession(of: index).flatMap { $0 == .nobody ? nil : $0 }), of: caller, for: index, &cluster)
        case .getUserStatus(let users): gather(users, for: index, &edge, &owner, &cluster, at: now)
        case .subscribeUserStatus(let targets, _, let sync, _):
            waiting[index]?.users = targets
            if sync || owner.policies.policy(of: caller).mustBeRegistered {
                gather(targets, for: index, &edge, &owner, &cluster, at: now)
            } else {
                subscribe(index, &edge, &owner, &cluster, at: now)
            }
        case .importUsers(let users): importUsers(users, for: index, &cluster)
        case .unsubscribeUserStatus(let targets, let type):
            ask(.unsubscribe(targets, subscribeType: type, session: self.originSession(of: index)), of: caller, for: index, &cluster)
        case .getSubscribedUserStatus(let only, let offset, let limit, let type):
            ask(.subscriptions(only: only, offset: offset, limit: limit, subscribeType: type), of: caller, for: index, &cluster)
        case .logout(let session): ask(.logout(session), of: caller, for: index, &cluster)
        case .setVisibility(let change): ask(.setVisibility(change), of: caller, for: index, &cluster)
        case .getVisibility: ask(.visibility, of: caller, for: index, &cluster)
        case .explain(let target): explain(target, to: caller, for: index, &cluster)
        case .kick(let reason): ask(.kick(reason: reason), of: caller, for: index, &cluster)
        case .setAppPolicy(let change): ask(.setPolicy(change), of: .policyUser(of: String(caller.app)), for: index, &cluster)
        }
    }

    /// Answers a query without a hop, from records that this node owns or watches. Returns whether it has all of them.
    private func answerAtOnce(
        _ users: [UserID], _ viewer: UserID?, gateway: Int, token: UInt64, _ edge: inout Edge, _ owner: inout Owner,
        _ cluster: inout Cluster,
        at now: Now
    ) -> Bool {
        var records: [Record?] = []
        records.reserveCapacity(users.count)
        var asOf = now.wall
        for user in users {
            guard let record = recordHere(user, viewer, asOf: &asOf, &edge, &owner, cluster) else { return false }
            records.append(record)
        }
        cluster.outbox.effects.append(.answer(gateway: gateway, token: token, .userStatusList(records, users: users, asOf: asOf)))
        return true
    }

    private func recordHere(
        _ user: UserID, _ viewer: UserID?, asOf: inout Milliseconds, _ edge: inout Edge, _ owner: inout Owner, _ cluster: Cluster
    )
        -> Record?
    {
        let peer = cluster.owner(of: user)
        if peer == 0 { return cluster.decides(user) ? owner.record(of: user).shown(to: viewer) : nil }
        guard cluster.peers[peer].isAlive, let record = edge.fanOut.record(of: user) else { return nil }
        asOf = min(asOf, edge.relays.knownUpTo(peer))
        return record.shown(to: viewer)
    }

    mutating func ask(
        _ operation: OwnerOperation, of user: UserID, for call: PendingCalls.CallIndex, isRepeated: Bool = false, _ cluster: inout Cluster
    ) {
        let peer = cluster.owner(of: user)
        let request = waiting.send(operation, of: user, for: call, to: peer, isRepeated: isRepeated)
        cluster.send(.request(request), to: peer)
    }

    /// Collects the records of `users` from here and from their owners, and then continues with ``advance(_:_:_:_:at:)``.
    private mutating func gather(
        _ users: [UserID], for call: PendingCalls.CallIndex, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let viewer = waiting[call]?.viewer
        var asOf = now.wall
        var records: [Record?] = []
        var missing: [UserID] = []
        for user in users {
            let record = recordHere(user, viewer, asOf: &asOf, &edge, &owner, cluster)
            records.append(record)
            if record == nil { missing.append(user) }
        }
        waiting[call]?.users = users
        waiting[call]?.records = records
        waiting[call]?.asOf = asOf
        for (_, group) in cluster.placement.grouped(missing) { ask(.records(group, for: viewer), of: group[0], for: call, &cluster) }
        advance(call, &edge, &owner, &cluster, at: now)
    }

    private mutating func subscribe(
        _ index: PendingCalls.CallIndex, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        if let refusal = excludeFullTargets(from: index, &owner) { return finish(index, .refused(refusal), &edge, &cluster) }
        guard let pending = waiting[index], case .subscribeUserStatus(_, let seconds, let sync, let type) = pending.call else { return }
        let targets = pending.users
        if targets.isEmpty { return finish(index, subscribed(pending), &edge, &cluster) }
        let originSessions = pending.originSessions
        let isTold = sync && originSessions.count <= 1 && originSessions != [.nobody]
        // N8: the subscriber receives only later changes, unless it requested the current records.
        let untold = !sync && owner.policies.policy(of: pending.caller).snapshot == .onRequest ? Version.max : nil
        if isTold { waiting.willAnswerWithRecords(index) }
        let told = targets.indices.map { place in
            OwnerOperation.Target(user: targets[place], told: isTold ? pending.records[place]?.version : untold)
        }
        let operation = OwnerOperation.subscribe(
            told, seconds: seconds, subscribeType: type, session: originSession(of: index), isCounted: pending.followerSums != nil)
        ask(operation, of: pending.caller, for: index, &cluster)
    }

    private func subscribed(
        _ pending: PendingCalls.Pending, evicted: [UserID] = [], refused: [UserID] = [], nonFriends: [UserID] = []
    ) -> CallAnswer {
        guard case .subscribeUserStatus(_, _, let sync, _) = pending.call else { return .done }
        let unfollowed = Set(refused + nonFriends)
        let followed = pending.users.indices.filter { !unfollowed.contains(pending.users[$0]) }
        return .subscribed(
            evicted: evicted, refused: refused, followerLimitReached: pending.followerLimitReached, nonFriends: nonFriends,
            unknown: pending.excluded,
            records: sync ? followed.map { pending.records[$0] } : nil, users: followed.map { pending.users[$0] })
    }

    /// The refusal of a whole call because there is no room for `surplus`; nil if it is not refused (T37).
    private func refusal(ofSurplus surplus: [UserID], by caller: UserID, _ owner: inout Owner) -> Refusal? {
        let policy = owner.policies.policy(of: caller)
        guard !surplus.isEmpty, policy.errorShape == .wholeCall else { return nil }
        return .tooManySubscriptions(surplus, most: Int(policy.subscriptionsMax))
    }

    /// The calling session, if this node knows it.
    private func originSession(of index: PendingCalls.CallIndex) -> SessionID? {
        guard let originSessions = waiting[index]?.originSessions, originSessions.count == 1 else { return nil }
        return originSessions[0]
    }

    /// Handles an owner's answer to a request.
    mutating func onAnswer(
        _ answer: Answer, to id: UInt64, from peer: PeerIndex, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        if rates.counted(id, answer, at: now.instant) { return }
        guard let sent = waiting.take(id), let pending = waiting[sent.call] else { return }
        switch answer {
        case .rateLimited(let seconds):
            if case .countQuery = sent.request.operation { rates.close(pending.caller, for: seconds, at: now.instant) }
            finish(sent.call, .rateLimited(retryAfter: Int(clamping: seconds)), &edge, &cluster)
        case .record, .refused:
            if case .importUsers = pending.call {
                if case .refused = answer { waiting[sent.call]?.excluded.append(sent.request.user) }
                return advance(sent.call, &edge, &owner, &cluster, at: now)
            }
            if case .record(let record) = answer { finish(sent.call, .userStatus(record), &edge, &cluster) }
            if case .refused(let refusal) = answer { finish(sent.call, .refused(refusal), &edge, &cluster) }
        case .done:
            if case .countQuery = sent.request.operation { return advance(sent.call, &edge, &owner, &cluster, at: now) }
            finish(sent.call, .done, &edge, &cluster)
        case .subscribed(let evicted, let refused, let nonFriends):
            if let refusal = refusal(ofSurplus: refused, by: pending.caller, &owner) {
                return finish(sent.call, .refused(refusal), &edge, &cluster)
            }
            finish(sent.call, subscribed(pending, evicted: evicted, refused: refused, nonFriends: nonFriends), &edge, &cluster)
        case .followerLimitReached(let targets): countFollowers(of: targets, for: sent.call, &cluster)
        case .followers(let counts):
            add(counts, to: sent.call)
            advance(sent.call, &edge, &owner, &cluster, at: now)
        case .subscriptions(let page, let total):
            waiting[sent.call]?.page = page
            waiting[sent.call]?.total = total
            gather(page.map(\.target), for: sent.call, &edge, &owner, &cluster, at: now)
        case .visibility(let privacy): finish(sent.call, .visibility(privacy.visibility), &edge, &cluster)
        case .explained(let part, let json):
            waiting[sent.call]?.explanations.append(Explanation(part: part, json: json))
            advance(sent.call, &edge, &owner, &cluster, at: now)
        case .records(let records):
            if peer != 0 { waiting[sent.call]?.asOf = min(pending.asOf, edge.relays.knownUpTo(peer)) }
            fill(records, into: sent.call)
            advance(sent.call, &edge, &owner, &cluster, at: now)
        }
    }

    private mutating func fill(_ records: [Record], into call: PendingCalls.CallIndex) {
        // A broken peer may answer with records that no call requested.
        guard let users = waiting[call]?.users, waiting[call]?.records.count == users.count else { return }
        var found: [UserID: Record] = [:]
        for record in records { found[record.user] = record }
        // A user may be named twice.
        for (place, user) in users.enumerated() {
            if let record = found[user] { waiting[call]?.records[place] = record }
        }
    }

    /// Continues a call whose records have all arrived.
    private mutating func advance(
        _ index: PendingCalls.CallIndex, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard let pending = waiting[index], pending.openCount == 0 else { return }
        if pending.isOfUnknown {
            guard pending.records[0]?.isOfKnownUser == true else {
                return finish(index, .refused(.noSuchUser([pending.caller])), &edge, &cluster)
            }
            waiting[index]?.isOfUnknown = false
            waiting[index]?.users = []
            waiting[index]?.records = []
            return begin(pending.call, of: pending.caller, index, &edge, &owner, &cluster, at: now)
        }
        switch pending.call {
        case .getUserStatus(let users):
            finish(index, .userStatusList(pending.records, users: users, asOf: pending.asOf), &edge, &cluster)
        case .getSubscribedUserStatus:
            finish(index, .subscriptions(pending.page, records: pending.records, total: pending.total), &edge, &cluster)
        case .subscribeUserStatus:
            if pending.followerSums == nil, let refusal = excludeUnknown(index, &owner) {
                return finish(index, .refused(refusal), &edge, &cluster)
            }
            subscribe(index, &edge, &owner, &cluster, at: now)
        case .importUsers: finish(index, .imported(failed: pending.excluded), &edge, &cluster)
        case .explain: finish(index, .explained(pending.explanations), &edge, &cluster)
        case .setSelfStatus, .publishEvent, .unsubscribeUserStatus, .logout, .setAppPolicy, .kick, .setVisibility, .getVisibility: break
        }
    }

    /// Handles the subscription list of a user with sessions here, or a change of it.
    mutating func onListUpdate(_ listUpdate: ListUpdate, _ edge: inout Edge, _ cluster: inout Cluster) {
        edge.sessions.note(listUpdate)
        cluster.sendToGateways(.listUpdate(waiting.note(listUpdate)), mask: edge.sessions.gateways(of: listUpdate.user))
    }

    private mutating func finish(_ index: PendingCalls.CallIndex, _ answer: CallAnswer, _ edge: inout Edge, _ cluster: inout Cluster) {
        guard let pending = waiting.finish(index) else { return }
        if case .refused = answer, let listUpdate = pending.answeredList {
            cluster.sendToGateways(.callFailed(listUpdate), mask: edge.sessions.gateways(of: listUpdate.user))
        }
        cluster.outbox.effects.append(.answer(gateway: pending.gateway, token: pending.token, answer))
    }

    // MARK: Time

    /// Repeats due requests, and ends calls that have waited for too long. Called at every tick.
    mutating func tick(_ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        repeatDue(&edge, &owner, &cluster, at: now)
        rates.tick(at: now.instant)
    }

    /// Repeats at the next tick the requests to a peer, because the peer or the link to it is new or gone.
    mutating func retry(to peer: PeerIndex, at now: Now) { retry(at: now) { $0.peer == peer } }

    /// Repeats at the next tick the requests for which `isDue` holds.
    mutating func retry(at now: Now, where isDue: (PendingCalls.Sent) -> Bool) {
        for sent in waiting.requests(where: isDue) { waiting.retry(sent.request.id, at: now.instant) }
    }

    /// Repeats a little later the requests about users that a peer does not decide about yet.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, retryInterval: Duration, at now: Now) {
        let named = Set(users)
        for sent in waiting.requests(where: { $0.peer == peer && named.contains($0.request.user) }) {
            waiting.retry(sent.request.id, at: now.instant + retryInterval)
        }
    }

    /// Repeats at once the requests that a peer has rejected, because it now decides about all its users.
    mutating func retryMisrouted(by peer: PeerIndex, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        retry(at: now) { $0.peer == peer && $0.retryAt != nil }
        repeatDue(&edge, &owner, &cluster, at: now)
    }

    private mutating func repeatDue(_ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        guard waiting.count > 0 else { return }
        for sent in waiting.requests(where: { ($0.retryAt ?? .farFuture) <= now.instant }) {
            guard waiting.take(sent.request.id) != nil else { continue }
            repeatRequest(sent, &edge, &owner, &cluster, at: now)
        }
        for index in waiting.overdue(at: now.instant) { giveUp(index, &edge, &cluster) }
    }

    /// Sends a request again to the current owner of its users.
    private mutating func repeatRequest(
        _ sent: PendingCalls.Sent, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        // A dead node shows nobody anything.
        if case .explain(_, .view) = sent.request.operation { return }
        if case .followers(let targets) = sent.request.operation {
            guard sent.peer == 0 || cluster.peers[sent.peer].isAlive else { return advance(sent.call, &edge, &owner, &cluster, at: now) }
            let request = waiting.send(.followers(targets), of: sent.request.user, for: sent.call, to: sent.peer, isRepeated: true)
            return cluster.send(.request(request), to: sent.peer)
        }
        guard case .records(let users, let viewer) = sent.request.operation else {
            return ask(sent.request.operation, of: sent.request.user, for: sent.call, isRepeated: true, &cluster)
        }
        for (_, group) in cluster.placement.grouped(users) { ask(.records(group, for: viewer), of: group[0], for: sent.call, &cluster) }
    }

    /// Answers a call whose deadline has passed: with what has arrived, and 50001 for the rest.
    private mutating func giveUp(_ index: PendingCalls.CallIndex, _ edge: inout Edge, _ cluster: inout Cluster) {
        guard let pending = waiting[index] else { return }
        let unanswered = waiting.requests { $0.call == index }
        for sent in unanswered { _ = waiting.take(sent.request.id) }
        if pending.isOfUnknown { return finish(index, .refused(.unavailable), &edge, &cluster) }
        switch pending.call {
        case .importUsers: finish(index, .imported(failed: pending.excluded + unanswered.map(\.request.user)), &edge, &cluster)
        case .getUserStatus(let users) where !pending.records.isEmpty:
            finish(index, .userStatusList(pending.records, users: users, asOf: pending.asOf), &edge, &cluster)
        case .getSubscribedUserStatus where !pending.records.isEmpty:
            finish(index, .subscriptions(pending.page, records: pending.records, total: pending.total), &edge, &cluster)
        case .explain where !pending.explanations.isEmpty: finish(index, .explained(pending.explanations), &edge, &cluster)
        default:
            let isPassedOn = unanswered.contains { $0.request.operation.isDurable }
            finish(index, .refused(isPassedOn ? .unavailable.afterPassingOn : .unavailable), &edge, &cluster)
        }
    }
}
