import PresenceWire

/// Operations of clients: sent to the owners that decide them, gathered, and answered once.
extension Node {
    /// A client asks for an operation; the answer comes as an effect with the same `token`, at the latest after ``CoreSettings/callTimeout``.
    ///
    /// - Parameters:
    ///   - origin: whose token asks.
    ///   - asker: the session that asks, ``PresenceWire/SessionID/nobody`` if none does; nil if it is not known.
    ///   - seesAll: what is told is told as it is, whoever may see it.
    public mutating func perform(
        _ call: Call, caller: UserID, origin: Call.Origin = .caller, seesAll: Bool = false, asker: SessionID? = nil, gateway: Int,
        token: UInt64, at now: Now
    ) {
        let viewer = seesAll ? nil : caller
        let isLimited = origin == .caller
        let decision = isLimited ? count(call, of: caller, at: now) : .answer
        if case .refuse(let seconds) = decision {
            return effects.append(.answer(gateway: gateway, token: token, .tooOften(retryAfter: seconds)))
        }
        if decision == .answer, case .getUserStatus(let users) = call, answerAtOnce(users, viewer, gateway: gateway, token: token, at: now)
        {
            return
        }
        guard calls.count < settings.callsMax else {
            effects.append(.answer(gateway: gateway, token: token, .refused(.overloaded)))
            return
        }
        let index = calls.add(
            PendingCalls.Pending(
                gateway: gateway, token: token, caller: caller, viewer: viewer, call: call, deadline: now.instant + settings.callTimeout,
                begunAt: owners.clock.current(at: now.wall), askers: asker.map { [$0] } ?? sessions.askers(caller), isLimited: isLimited))
        // It is answered when both are here, the count and the records.
        if decision == .ask { ask(.countQuery(isMade: false), of: caller, for: index) }
        if origin == .backEndForCaller, call.needsUser, mustKnow(caller) {
            calls[index]?.isOfUnknown = true
            gather([caller], for: index, at: now)
        } else {
            begin(call, of: caller, index, at: now)
        }
        run(at: now)
    }

    private mutating func begin(_ call: Call, of caller: UserID, _ index: PendingCalls.CallIndex, at now: Now) {
        switch call {
        case .setSelfStatus(let customStatus, let seconds):
            ask(.setSelfStatus(customStatus: customStatus, seconds: seconds), of: caller, for: index)
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced):
            ask(
                .publishEvent(
                    value: value, ext: ext, seconds: seconds, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced,
                    session: self.asker(of: index).flatMap { $0 == .nobody ? nil : $0 }), of: caller, for: index)
        case .getUserStatus(let users): gather(users, for: index, at: now)
        case .subscribeUserStatus(let targets, _, let sync, _):
            calls[index]?.users = targets
            if sync || mustKnow(caller) { gather(targets, for: index, at: now) } else { subscribe(index, at: now) }
        case .importUsers(let users): importUsers(users, for: index)
        case .unsubscribeUserStatus(let targets, let type):
            ask(.unsubscribe(targets, subscribeType: type, session: self.asker(of: index)), of: caller, for: index)
        case .getSubscribedUserStatus(let only, let offset, let limit, let type):
            ask(.subscriptions(only: only, offset: offset, limit: limit, subscribeType: type), of: caller, for: index)
        case .logout(let session): ask(.logout(session), of: caller, for: index)
        case .setVisibility(let change): ask(.setVisibility(change), of: caller, for: index)
        case .getVisibility: ask(.visibility, of: caller, for: index)
        case .explain(let target): explain(target, to: caller, for: index)
        case .kick(let reason): ask(.kick(reason: reason), of: caller, for: index)
        case .setAppPolicy(let change): ask(.setPolicy(change), of: .policyKeeper(of: String(caller.app)), for: index)
        }
    }

    /// Answers a query from what is here: records that this node owns or watches (design §2, FanOut).
    private mutating func answerAtOnce(_ users: [UserID], _ viewer: UserID?, gateway: Int, token: UInt64, at now: Now) -> Bool {
        var records: [Record?] = []
        records.reserveCapacity(users.count)
        var asOf = now.wall
        for user in users {
            guard let record = recordHere(user, viewer, asOf: &asOf, at: now) else { return false }
            records.append(record)
        }
        effects.append(.answer(gateway: gateway, token: token, .userStatusList(records, users: users, asOf: asOf)))
        return true
    }

    private func recordHere(_ user: UserID, _ viewer: UserID?, asOf: inout Milliseconds, at now: Now) -> Record? {
        let peer = owner(of: user)
        if peer == 0 { return decides(user) ? owners.record(of: user).shown(to: viewer) : nil }
        guard peers[peer].isAlive, let record = fanOut.record(of: user) else { return nil }
        asOf = min(asOf, peers[peer].knownUpTo)
        return record.shown(to: viewer)
    }

    mutating func ask(_ operation: OwnerOperation, of user: UserID, for call: PendingCalls.CallIndex, isRepeated: Bool = false) {
        let peer = owner(of: user)
        let request = calls.send(operation, of: user, for: call, to: peer, isRepeated: isRepeated)
        send(.request(request), to: peer)
    }

    /// Collects the records of `users`, from here and from their owners, then goes on with ``advance(_:at:)``.
    private mutating func gather(_ users: [UserID], for call: PendingCalls.CallIndex, at now: Now) {
        let viewer = calls[call]?.viewer
        var asOf = now.wall
        var records: [Record?] = []
        var missing: [UserID] = []
        for user in users {
            let record = recordHere(user, viewer, asOf: &asOf, at: now)
            records.append(record)
            if record == nil { missing.append(user) }
        }
        calls[call]?.users = users
        calls[call]?.records = records
        calls[call]?.asOf = asOf
        for (_, group) in placement.grouped(missing) { ask(.records(group, for: viewer), of: group[0], for: call) }
        advance(call, at: now)
    }

    private mutating func subscribe(_ index: PendingCalls.CallIndex, at now: Now) {
        if let refusal = excludeCrowded(from: index) { return finish(index, .refused(refusal)) }
        guard let pending = calls[index], case .subscribeUserStatus(_, let seconds, let sync, let type) = pending.call else { return }
        let targets = pending.users
        if targets.isEmpty { return finish(index, subscribed(pending)) }
        let askers = pending.askers
        let isTold = sync && askers.count <= 1 && askers != [.nobody]
        // N8: nothing is told of what is so already, unless it was asked for.
        let untold = !sync && owners.policies.policy(of: pending.caller).snapshot == .onRequest ? Version.max : nil
        if isTold { calls.willTell(index) }
        let told = targets.indices.map { place in
            OwnerOperation.Target(user: targets[place], told: isTold ? pending.records[place]?.version : untold)
        }
        let operation = OwnerOperation.subscribe(
            told, seconds: seconds, subscribeType: type, session: asker(of: index), isCounted: pending.crowd != nil)
        ask(operation, of: pending.caller, for: index)
    }

    private func subscribed(
        _ pending: PendingCalls.Pending, evicted: [UserID] = [], refused: [UserID] = [], strangers: [UserID] = []
    ) -> CallAnswer {
        guard case .subscribeUserStatus(_, _, let sync, _) = pending.call else { return .done }
        let unfollowed = Set(refused + strangers)
        let followed = pending.users.indices.filter { !unfollowed.contains(pending.users[$0]) }
        return .subscribed(
            evicted: evicted, refused: refused, crowded: pending.crowded, strangers: strangers, unknown: pending.excluded,
            records: sync ? followed.map { pending.records[$0] } : nil, users: followed.map { pending.users[$0] })
    }

    /// Why a whole call is refused because there is no room for `surplus`, if it is (T37).
    private func refusal(ofSurplus surplus: [UserID], by caller: UserID) -> Refusal? {
        let policy = owners.policies.policy(of: caller)
        guard !surplus.isEmpty, policy.errorShape == .wholeCall else { return nil }
        return .tooManySubscriptions(surplus, most: Int(policy.subscriptionsMax))
    }

    /// The session that asks, if this node knows which one it is.
    private func asker(of index: PendingCalls.CallIndex) -> SessionID? {
        guard let askers = calls[index]?.askers, askers.count == 1 else { return nil }
        return askers[0]
    }

    /// An owner has answered a request.
    mutating func onAnswer(_ answer: Answer, to id: UInt64, from peer: PeerIndex, at now: Now) {
        if rates.counted(id, answer, at: now.instant) { return }
        guard let sent = calls.take(id), let pending = calls[sent.call] else { return }
        switch answer {
        case .tooOften(let seconds):
            if case .countQuery = sent.request.operation { rates.close(pending.caller, for: seconds, at: now.instant) }
            finish(sent.call, .tooOften(retryAfter: Int(clamping: seconds)))
        case .record, .refused:
            if case .importUsers = pending.call {
                if case .refused = answer { calls[sent.call]?.excluded.append(sent.request.user) }
                return advance(sent.call, at: now)
            }
            if case .record(let record) = answer { finish(sent.call, .userStatus(record)) }
            if case .refused(let refusal) = answer { finish(sent.call, .refused(refusal)) }
        case .done:
            if case .countQuery = sent.request.operation { return advance(sent.call, at: now) }
            finish(sent.call, .done)
        case .subscribed(let evicted, let refused, let strangers):
            if let refusal = refusal(ofSurplus: refused, by: pending.caller) { return finish(sent.call, .refused(refusal)) }
            finish(sent.call, subscribed(pending, evicted: evicted, refused: refused, strangers: strangers))
        case .crowded(let targets): countFollowers(of: targets, for: sent.call)
        case .followers(let counts):
            add(counts, to: sent.call)
            advance(sent.call, at: now)
        case .subscriptions(let page, let total):
            calls[sent.call]?.page = page
            calls[sent.call]?.total = total
            gather(page.map(\.target), for: sent.call, at: now)
        case .visibility(let privacy): finish(sent.call, .visibility(privacy.visibility))
        case .explained(let part, let json):
            calls[sent.call]?.explanations.append(Explanation(part: part, json: json))
            advance(sent.call, at: now)
        case .records(let records):
            if peer != 0 { calls[sent.call]?.asOf = min(pending.asOf, peers[peer].knownUpTo) }
            fill(records, into: sent.call)
            advance(sent.call, at: now)
        }
    }

    private mutating func fill(_ records: [Record], into call: PendingCalls.CallIndex) {
        // A broken peer may answer with records where nobody asked for any.
        guard let users = calls[call]?.users, calls[call]?.records.count == users.count else { return }
        var found: [UserID: Record] = [:]
        for record in records { found[record.user] = record }
        // A user may be named twice.
        for (place, user) in users.enumerated() {
            if let record = found[user] { calls[call]?.records[place] = record }
        }
    }

    /// Goes on with a call whose records have all come.
    private mutating func advance(_ index: PendingCalls.CallIndex, at now: Now) {
        guard let pending = calls[index], pending.openCount == 0 else { return }
        if pending.isOfUnknown {
            guard pending.records[0]?.isOfKnownUser == true else { return finish(index, .refused(.noSuchUser([pending.caller]))) }
            calls[index]?.isOfUnknown = false
            calls[index]?.users = []
            calls[index]?.records = []
            return begin(pending.call, of: pending.caller, index, at: now)
        }
        switch pending.call {
        case .getUserStatus(let users):
            finish(index, .userStatusList(pending.records, users: users, asOf: pending.asOf))
        case .getSubscribedUserStatus:
            finish(index, .subscriptions(pending.page, records: pending.records, total: pending.total))
        case .subscribeUserStatus:
            if pending.crowd == nil, let refusal = excludeUnknown(index) { return finish(index, .refused(refusal)) }
            subscribe(index, at: now)
        case .importUsers: finish(index, .imported(failed: pending.excluded))
        case .explain: finish(index, .explained(pending.explanations))
        case .setSelfStatus, .publishEvent, .unsubscribeUserStatus, .logout, .setAppPolicy, .kick, .setVisibility, .getVisibility: break
        }
    }

    /// Whom a user with sessions here follows.
    mutating func onInterest(_ interest: Interest) {
        sessions.note(interest)
        tell(.interest(calls.note(interest)), mask: sessions.gateways(of: interest.user))
    }

    private mutating func finish(_ index: PendingCalls.CallIndex, _ answer: CallAnswer) {
        guard let pending = calls.finish(index) else { return }
        if case .refused = answer, let interest = pending.toldByAnswer {
            tell(.callFailed(interest), mask: sessions.gateways(of: interest.user))
        }
        effects.append(.answer(gateway: pending.gateway, token: pending.token, answer))
    }

    // MARK: Time

    /// Has the requests for which `isDue` holds sent again at the next tick.
    mutating func retryRequests(at now: Now, where isDue: (PendingCalls.Sent) -> Bool) {
        for sent in calls.requests(where: isDue) { calls.retry(sent.request.id, at: now.instant) }
    }

    mutating func tickCalls(at now: Now) {
        guard calls.count > 0 else { return }
        for sent in calls.requests(where: { ($0.retryAt ?? .farFuture) <= now.instant }) {
            guard calls.take(sent.request.id) != nil else { continue }
            repeatRequest(sent, at: now)
        }
        for index in calls.overdue(at: now.instant) { giveUp(index) }
    }

    /// Sends a request again, to whoever owns its users now.
    private mutating func repeatRequest(_ sent: PendingCalls.Sent, at now: Now) {
        // A node that is gone shows nobody anything.
        if case .explain(_, .view) = sent.request.operation { return }
        if case .followers(let targets) = sent.request.operation {
            guard sent.peer == 0 || peers[sent.peer].isAlive else { return advance(sent.call, at: now) }
            let request = calls.send(.followers(targets), of: sent.request.user, for: sent.call, to: sent.peer, isRepeated: true)
            return send(.request(request), to: sent.peer)
        }
        guard case .records(let users, let viewer) = sent.request.operation else {
            return ask(sent.request.operation, of: sent.request.user, for: sent.call, isRepeated: true)
        }
        for (_, group) in placement.grouped(users) { ask(.records(group, for: viewer), of: group[0], for: sent.call) }
    }

    /// The time of a call is up: what has come is answered, the rest is 50001.
    private mutating func giveUp(_ index: PendingCalls.CallIndex) {
        guard let pending = calls[index] else { return }
        let unanswered = calls.requests { $0.call == index }
        for sent in unanswered { _ = calls.take(sent.request.id) }
        if pending.isOfUnknown { return finish(index, .refused(.unavailable)) }
        switch pending.call {
        case .importUsers: finish(index, .imported(failed: pending.excluded + unanswered.map(\.request.user)))
        case .getUserStatus(let users) where !pending.records.isEmpty:
            finish(index, .userStatusList(pending.records, users: users, asOf: pending.asOf))
        case .getSubscribedUserStatus where !pending.records.isEmpty:
            finish(index, .subscriptions(pending.page, records: pending.records, total: pending.total))
        case .explain where !pending.explanations.isEmpty: finish(index, .explained(pending.explanations))
        default:
            let isPassedOn = unanswered.contains { $0.request.operation.isDurable }
            finish(index, .refused(isPassedOn ? .unavailable.afterPassingOn : .unavailable))
        }
    }
}
