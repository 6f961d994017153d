import PresenceWire

/// The operations of clients: sent to the owners that decide them, collected, and answered once.
struct Calls {
    /// The operations that wait for owners.
    var waiting: PendingCalls
    /// The recent calls of each user, for the rate limits.
    var rates = RateLimits()
    /// The stream tickets of this node's users.
    var tickets = StreamTickets()
    /// The requests of this node's users that wait before they hide the user.
    var hides = WaitingHides()

    /// - Parameter number: all request IDs are larger.
    init(after number: UInt64) { waiting = PendingCalls(after: number) }

    /// Performs an operation of a client. The answer is an effect with the same `token`, at the latest after ``CoreSettings/callTimeout``.
    ///
    /// - Parameters:
    ///   - origin: the token of the call.
    ///   - originSession: the calling session.
    ///   - seesAll: whether the answer has whole records, whatever their visibility.
    ///   - trace: the client's trace that the call belongs to; nil for none.
    mutating func perform(
        _ call: Call, key: CallKey? = nil, caller: UserID, origin: Call.Origin, seesAll: Bool, originSession: OriginSession, gateway: Int?,
        token: UInt64, trace: TraceContext? = nil, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let viewer = seesAll ? nil : caller
        let isLimited = origin == .caller
        let decision = isLimited ? count(call, of: caller, owner, &cluster, at: now) : .answer
        if case .refuse(let seconds) = decision {
            return cluster.outbox.effects.append(.answer(gateway: gateway, token: token, .rateLimited(retryAfter: seconds)))
        }
        if decision == .answer, case .getUserStatus(let users) = call,
            answerAtOnce(users, viewer, gateway: gateway, token: token, edge, owner, &cluster, at: now)
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
                originSessions: originSession == .unknown ? edge.sessions.originSessions(caller) : [originSession], key: key,
                isLimited: isLimited
            ), trace)
        // The answer waits for both the count and the records.
        if decision == .ask { ask(.countQuery(isMade: false), of: caller, for: index, &cluster) }
        if origin == .backEndForCaller, call.needsUser, owner.policies.policy(of: caller).mustBeRegistered {
            waiting[index]?.phase = .checkingCaller
            gather([caller], for: index, edge, owner, &cluster, at: now)
        } else {
            begin(call, of: caller, index, edge, owner, &cluster, at: now)
        }
    }

    /// Sends a request to a node; with nil, to the owner of the user.
    mutating func ask(
        _ operation: OwnerOperation, of user: UserID, at node: PeerIndex? = nil, for call: PendingCalls.CallIndex,
        repeating earlier: Request? = nil, _ cluster: inout Cluster
    ) {
        let peer = node ?? cluster.owner(of: user)
        let request = waiting.send(operation, of: user, for: call, to: peer, repeating: earlier)
        cluster.send(waiting.message(request, of: call), to: peer)
    }

    /// Sends a request to every live node.
    mutating func askAllNodes(_ operation: OwnerOperation, of user: UserID, for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for peer in cluster.peers.indices where peer == 0 || cluster.peers[peer].isAlive {
            ask(operation, of: user, at: peer, for: call, &cluster)
        }
    }

    /// Collects the records of `users` from here and from their owners, and then continues with ``advance(_:_:_:_:at:)``.
    mutating func gather(
        _ users: [UserID], for call: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        let viewer = waiting[call]?.viewer
        var asOf = now.wall
        var records: [Record?] = []
        var missing: [UserID] = []
        for user in users {
            let record = recordHere(user, viewer, asOf: &asOf, edge, owner, cluster)
            records.append(record)
            if record == nil { missing.append(user) }
        }
        waiting[call]?.users = users
        waiting[call]?.records = records
        waiting[call]?.asOf = asOf
        for (_, group) in cluster.placement.grouped(missing) { ask(.records(group, for: viewer), of: group[0], for: call, &cluster) }
        advance(call, edge, owner, &cluster, at: now)
    }

    /// Handles an owner's answer to a request.
    mutating func onAnswer(
        _ answer: Answer, to id: UInt64, from peer: PeerIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        if answer == .sentBack { return waiting.retry(id, at: now.instant + cluster.settings.retryInterval) }
        if rates.counted(id, answer, at: now.instant) { return }
        guard waiting.sent[id]?.request.operation.isAnswered(by: answer) == true else { return }
        guard let sent = waiting.take(id), let pending = waiting[sent.call] else { return }
        if pending.call == .deleteUser, DeleteUser.takes(answer, of: sent.call, &self, edge, &cluster, at: now) { return }
        switch answer {
        case .rateLimited(let seconds):
            if case .countQuery = sent.request.operation { rates.close(pending.caller, for: seconds, at: now.instant) }
            finish(sent.call, .rateLimited(retryAfter: Int(clamping: seconds)), edge, &cluster)
        case .followerLimitReached(let targets): countFollowers(of: targets, for: sent.call, &cluster)
        case .followers(let counts):
            add(counts, to: sent.call)
            advance(sent.call, edge, owner, &cluster, at: now)
        case .subscriptions(let page, let total):
            waiting[sent.call]?.answered.page = (page, total)
            gather(page.map(\.target), for: sent.call, edge, owner, &cluster, at: now)
        case .explained(let part, let json):
            if part == .own { return finish(sent.call, .explained([Explanation(part: part, json: json)]), edge, &cluster) }
            waiting[sent.call]?.answered.explanations.append(Explanation(part: part, json: json))
            advance(sent.call, edge, owner, &cluster, at: now)
        case .records(let records):
            if peer != 0 { waiting[sent.call]?.asOf = min(pending.asOf, edge.relays.knownUpTo(peer)) }
            waiting.fill(records, into: sent.call)
            advance(sent.call, edge, owner, &cluster, at: now)
        case .sessions(let lists): take(lists, to: sent, edge, owner, &cluster, at: now)
        case .replayed(let count, let isComplete):
            ReplayWebhooks.take(count, isComplete: isComplete, of: sent.call, &self, edge, &cluster)
        case .factsExported(let page) where pending.call.isExportUser:
            ExportUser.take(page, of: sent.call, &self, edge, &cluster)
        case .mentioned(let found): ExportUser.take(found, of: sent.call, &self, edge, &cluster)
        case .onlineUsers(let users, let total): OnlineUsers.take(users, total: total, of: sent.call, &self, edge, &cluster)
        case .subscribed(let evicted, let refused, let nonFriends):
            onSubscribed(sent.call, evicted: evicted, refused: refused, nonFriends: nonFriends, edge, owner, &cluster)
        case .record where sent.request.operation == .register: advance(sent.call, edge, owner, &cluster, at: now)
        case .refused(let refusal): RefusedPart(sent: sent, pending: pending).take(refusal, &self, edge, owner, &cluster, at: now)
        case .done:
            if case .countQuery = sent.request.operation { return advance(sent.call, edge, owner, &cluster, at: now) }
            finish(sent.call, pending.answerWhenDone, edge, &cluster)
        case .listed(let json): ProfileGathering.take(json, for: sent.call, &self, edge, &cluster)
        case .profiles(let profiles): ProfileGathering.take(profiles, to: sent, &self, edge, &cluster)
        case .friendCalled where pending.call.gathersProfiles: ProfileGathering.finishIfComplete(sent.call, &self, edge, &cluster)
        case .chained, .blocked, .friendCalled:
            finish(sent.call, .owner(answer.adding(pending.addedOutcomes)), edge, &cluster)
        case .relationsChecked(let found):
            RelationGathering.take(found, by: sent, &self, edge, owner, &cluster, at: now)
            advance(sent.call, edge, owner, &cluster, at: now)
        // The answer of one owner is the whole answer.
        default: finish(sent.call, .owner(answer), edge, &cluster)
        }
    }

    /// Continues a call whose records have all arrived.
    mutating func advance(
        _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard let pending = waiting[index], pending.openCount == 0 else { return }
        switch waiting[index]?.endCheck(owner.policies.policy(of: pending.caller), unsure: cluster.unsure) {
        case .refused(let answer): return finish(index, answer, edge, &cluster)
        case .passed(let call): return begin(call, of: pending.caller, index, edge, owner, &cluster, at: now)
        case nil: break
        }
        switch pending.call {
        case .getUserStatus, .getSubscribedUserStatus, .querySessions: finishQuery(index, edge, owner, &cluster)
        case .subscribeUserStatus: continueSubscribe(index, edge, owner, &cluster)
        case .exportUser: ExportUser.advance(index, &self, edge, &cluster)
        case .importUsers: finish(index, .imported(failed: pending.excluded), edge, &cluster)
        case .explain, .clusterLoad: finish(index, .explained(pending.answered.explanations), edge, &cluster)
        case .checkRelations(let users, _, _):
            finish(index, .relationsChecked(pending.relations(of: users, unsure: cluster.unsure)), edge, &cluster)
        // The answer of one owner is the whole answer, or ``ProfileGathering`` has the parts.
        default: break
        }
    }

    /// Handles the subscription list of a user with sessions here, or a change of it.
    mutating func onListUpdate(_ listUpdate: ListUpdate, _ edge: inout Edge, _ cluster: inout Cluster) {
        edge.sessions.note(listUpdate)
        cluster.sendToGateways(.listUpdate(waiting.note(listUpdate)), mask: edge.sessions.gateways(of: listUpdate.user))
    }

    mutating func finish(_ index: PendingCalls.CallIndex, _ answer: CallAnswer, _ edge: borrowing Edge, _ cluster: inout Cluster) {
        guard let pending = waiting.finish(index) else { return }
        if case .refused = answer, let listUpdate = pending.answeredList {
            cluster.sendToGateways(.callFailed(listUpdate), mask: edge.sessions.gateways(of: listUpdate.user))
        }
        cluster.outbox.effects.append(.answer(gateway: pending.gateway, token: pending.token, answer))
    }

    // MARK: Time

    /// Repeats due requests, and ends calls that have waited for too long. Called at every tick.
    mutating func tick(_ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        repeatDue(edge, owner, &cluster, at: now)
        rates.tick(at: now.instant)
    }

    /// Repeats at the next tick the requests to a peer, because the peer or the link to it is new or gone.
    mutating func retry(to peer: PeerIndex, at now: Now) { retry(at: now) { $0.peer == peer } }

    /// Repeats at the next tick the requests for which `isDue` holds.
    mutating func retry(at now: Now, where isDue: (PendingCalls.Sent) -> Bool) {
        for sent in waiting.requests(where: isDue) { waiting.retryUnanswered(sent.request.id, at: now.instant) }
    }

    /// Repeats a little later the requests about users that a peer no longer decides about. It may have performed some of them.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, retryInterval: Duration, at now: Now) {
        let named = Set(users)
        for sent in waiting.requests(where: { $0.peer == peer && named.contains($0.request.user) }) {
            waiting.retryUnanswered(sent.request.id, at: now.instant + retryInterval)
        }
    }

    /// Repeats at once the requests that a peer has rejected, because it now decides about all its users.
    mutating func retryMisrouted(
        by peer: PeerIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        for sent in waiting.requests(where: { $0.peer == peer && $0.retryAt != nil }) { waiting.retry(sent.request.id, at: now.instant) }
        repeatDue(edge, owner, &cluster, at: now)
    }

    private mutating func repeatDue(_ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard waiting.count > 0 else { return }
        for sent in waiting.requests(where: { ($0.retryAt ?? .farFuture) <= now.instant }) {
            guard waiting.take(sent.request.id) != nil else { continue }
            repeatRequest(sent, edge, owner, &cluster, at: now)
        }
        for index in waiting.overdue(at: now.instant) + waiting.vain(cluster.reach) { giveUp(index, edge, owner, &cluster) }
    }

    /// Sends a request again to the current owner of its users.
    private mutating func repeatRequest(
        _ sent: PendingCalls.Sent, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        // A dead node shows nobody anything.
        if case .explain(_, .view) = sent.request.operation { return }
        if sent.request.operation.isForAllNodes {
            guard sent.peer == 0 || cluster.peers[sent.peer].isAlive else {
                switch sent.request.operation {
                case .followers, .explain: return advance(sent.call, edge, owner, &cluster, at: now)
                // Nodes that have answered may own the users of a dead node now.
                default: return giveUp(sent.call, edge, owner, &cluster)
                }
            }
            return ask(sent.request.operation, of: sent.request.user, at: sent.peer, for: sent.call, repeating: sent.request, &cluster)
        }
        switch sent.request.operation {
        case .sessions(let users): askSessions(of: users, for: sent.call, &cluster)
        case .records(let users, let viewer):
            for (_, group) in cluster.placement.grouped(users) { ask(.records(group, for: viewer), of: group[0], for: sent.call, &cluster) }
        case .checkRelations(let check):
            if case .others(let users, let other) = check.side {
                askOthers(users, whether: other, in: check.list, for: sent.call, &cluster)
            } else {
                ask(sent.request.operation, of: sent.request.user, for: sent.call, repeating: sent.request, &cluster)
            }
        case .profiles(let users): ProfileGathering.repeatRequest(for: users, sent.call, &self, &cluster)
        default: ask(sent.request.operation, of: sent.request.user, for: sent.call, repeating: sent.request, &cluster)
        }
    }

    /// Answers a call whose deadline has passed: with what has arrived, and 50001 for the rest.
    private mutating func giveUp(
        _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        guard let pending = waiting[index] else { return }
        let unanswered = waiting.requests { $0.call == index }
        for sent in unanswered { _ = waiting.take(sent.request.id) }
        if [.checkingCaller, .checkingTargets].contains(pending.phase) { return finish(index, .refused(.unavailable), edge, &cluster) }
        switch pending.call {
        case .importUsers: finish(index, .imported(failed: pending.excluded + unanswered.map(\.request.user)), edge, &cluster)
        case .getUserStatus where !pending.records.isEmpty, .getSubscribedUserStatus where !pending.records.isEmpty,
            .querySessions where !pending.records.isEmpty:
            finishQuery(index, edge, owner, &cluster)
        case .checkRelations(let users, _, _) where pending.phase != .running:
            finish(index, .relationsChecked(pending.relations(of: users, unsure: cluster.unsure)), edge, &cluster)
        case .explain where !pending.answered.explanations.isEmpty, .clusterLoad where !pending.answered.explanations.isEmpty:
            finish(index, .explained(pending.answered.explanations), edge, &cluster)
        case .getUsersProfile, .getFriendList: ProfileGathering.finish(index, &self, edge, &cluster)
        case .deleteUser: finish(index, pending.answered.deletion.answerOfTimeout, edge, &cluster)
        default:
            let isPassedOn = unanswered.contains { $0.request.operation.mayTakeEffect }
            finish(index, .refused(isPassedOn ? .unavailable.afterPassingOn : .unavailable), edge, &cluster)
        }
    }
}
