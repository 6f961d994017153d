import PresenceWire

/// `getUserStatus`: returns the present status of users.
enum GetUserStatus: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "getUserStatus", summary: "Returns the present status of users.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: OpenAPI.standard.queryUsersMax)), Schema.asUser]),
        isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
            Schema.required("asOf", Schema.described(Schema.time, "Time up to which the answering node knows that the answer is correct.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        var (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.queryUsersMax))
        if !policy.canQuerySelf, users.contains(subject) {
            users.removeAll { $0 == subject }
            errors.append(
                UserError(
                    userID: String(subject.id), code: 6017,
                    reason: "userIDs: the app's policy does not allow a query of the caller's own status (query.selfAllowed)",
                    rule: .ownStatus))
        }
        return API.Parsed(call: .getUserStatus(users), subject: subject, errors: errors)
    }

    /// A user may always query its own status (T15).
    static func scope(of call: Call, by subject: UserID) -> API.Scope {
        if case .getUserStatus(let users) = call, users.allSatisfy({ $0 == subject }) { .always } else { .others }
    }

    static func write(_ answer: UserStatusAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        try write(answer, to: call, policy, into: &json, adding: nil)
    }

    /// Writes the answer. `adding` writes further members of each record.
    static func write(
        _ answer: UserStatusAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter,
        adding: ((UserID, inout JSONWriter) -> Void)?
    ) throws(Problem) {
        let (records, users) = (answer.records, answer.users)
        let mustBeRegistered = policy.mustBeRegistered
        let isUnknown = { (record: Record?, user: UserID) in
            mustBeRegistered && record?.isOfKnownUser == false && user != call.caller
        }
        if policy.errorShape == .wholeCall {
            let unknown = zip(records, users).filter(isUnknown)
            if !unknown.isEmpty { throw Problem(.noSuchUser(unknown.map(\.1))) }
        }
        var errors = call.errors
        let showsPlatforms = policy.exposesPlatforms
        json.object { json in
            json.key("userStatusList")
            json.array { json in
                for (record, user) in zip(records, users) {
                    guard let record else {
                        errors.append(UserError(unreachable: user))
                        continue
                    }
                    guard !isUnknown(record, user) else {
                        errors.append(UserError(unknown: user))
                        continue
                    }
                    let isOwn = user == call.caller
                    json.userStatus(
                        record, showsPlatforms: showsPlatforms, isUnknown: isOwn && policy.selfReport == .unknown, isOwn: isOwn,
                        isUnsure: call.unsure.contains(user))
                    if let adding { json.reopen { adding(user, &$0) } }
                }
            }
            json.member("errorUserList", errors)
            json.member("asOf", answer.asOf)
        }
    }

    static func countRejections(in answer: UserStatusAnswer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections) {
        guard policy.mustBeRegistered else { return }
        rejections.count(.registered, zip(answer.records, answer.users).count { $0?.isOfKnownUser == false && $1 != caller })
    }
}

/// Records in the order of the users, nil if the owner was not reachable, and the time up to which they are known to be right.
struct UserStatusAnswer: OperationAnswer {
    var records: [Record?]
    let users: [UserID]
    let asOf: Milliseconds

    init(records: [Record?], users: [UserID], asOf: Milliseconds) { (self.records, self.users, self.asOf) = (records, users, asOf) }

    init?(_ answer: CallAnswer) {
        guard case .userStatusList(let records, let users, let asOf) = answer else { return nil }
        self.init(records: records, users: users, asOf: asOf)
    }
}

extension Calls {
    /// Answers a query without a hop, from records that this node owns or watches. Returns whether it has all of them.
    func answerAtOnce(
        _ users: [UserID], _ viewer: UserID?, gateway: Int?, token: UInt64, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: inout Cluster,
        at now: Now
    ) -> Bool {
        var records: [Record?] = []
        records.reserveCapacity(users.count)
        var asOf = now.wall
        for user in users {
            guard let record = recordHere(user, viewer, asOf: &asOf, edge, owner, cluster) else { return false }
            records.append(record.mayLackRegistration(for: viewer, owner, cluster) ? nil : record)
        }
        cluster.outbox.effects.append(.answer(gateway: gateway, token: token, .userStatusList(records, users: users, asOf: asOf)))
        return true
    }

    /// Returns a user's record if this node owns it, or watches the user and the owner is alive; nil otherwise.
    func recordHere(
        _ user: UserID, _ viewer: UserID?, asOf: inout Milliseconds, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: Cluster
    )
        -> Record?
    {
        let peer = cluster.owner(of: user)
        if peer == 0 { return cluster.decides(user) ? owner.record(of: user).shown(to: viewer) : nil }
        guard cluster.peers[peer].isAlive, let record = edge.fanOut.record(of: user) else { return nil }
        asOf = min(asOf, edge.relays.knownUpTo(peer))
        return record.shown(to: viewer)
    }

    /// Answers a query with the records that it has. Users may have hidden while it waited, so it reads the records of this node again.
    mutating func finishQuery(_ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        guard let pending = waiting[index] else { return }
        var (records, asOf) = (pending.records, pending.asOf)
        for (position, user) in pending.users.enumerated() {
            guard let record = recordHere(user, pending.viewer, asOf: &asOf, edge, owner, cluster) else { continue }
            records[position] = record
        }
        for (position, record) in records.enumerated() {
            if let record, record.mayLackRegistration(for: pending.viewer, owner, cluster) { records[position] = nil }
        }
        if case .getUserStatus(let users) = pending.call {
            finish(index, .userStatusList(records, users: users, asOf: asOf), edge, &cluster)
        } else if case .querySessions(let users) = pending.call {
            finish(index, .sessions(records, users: users, pending.answered.sessions, asOf: asOf), edge, &cluster)
        } else {
            finish(index, .subscriptions(pending.answered.page.rows, records: records, total: pending.answered.page.total), edge, &cluster)
        }
    }

    /// Reads again the records that waiting queries have from a peer that has sent a barrier. One of its users may have hidden.
    ///
    /// The requests leave at the next tick: however many barriers arrive, a query repeats a request at most once a tick.
    mutating func onBarrier(from peer: PeerIndex, _ cluster: borrowing Cluster, at now: Now) {
        for (index, users, viewer) in waiting.dropRecords(where: { cluster.owner(of: $0) == peer }) {
            let request = waiting.send(.records(users, for: viewer), of: users[0], for: index, to: peer)
            waiting.retry(request.id, at: now.instant)
        }
    }

    /// Counts a query that another node answers, for the user's owner.
    mutating func count(_ request: Request, isMade: Bool, _ owner: borrowing Owner, at now: Now) -> Answer {
        guard let rate = owner.policies.shared(of: request.user).policy.queryRate else { return .done }
        let wait = rates.ask(.query, of: request.user, rate, at: now.instant, isMade: isMade)
        return wait.map { .rateLimited(retryAfter: UInt64($0)) } ?? .done
    }

    /// Decides whether a query may be answered. This node counts by itself while the owner of the caller cannot be reached.
    mutating func count(
        _ call: Call, of caller: UserID, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) -> RateLimits.OnQuery {
        guard case .getUserStatus(let users) = call, users.count != 1 || users[0] != caller else { return .answer }  // T15
        guard let rate = owner.policies.shared(of: caller).policy.queryRate else { return .answer }
        let peer = cluster.owner(of: caller)
        guard peer != 0, cluster.links.isUp(peer) else {
            return rates.ask(.query, of: caller, rate, at: now.instant).map { .refuse(retryAfter: $0) } ?? .answer
        }
        let nodesCount = cluster.peers.count { $0.isAlive }
        let decision = rates.query(of: caller, rate, nodesCount: nodesCount, at: now.instant)
        if decision == .answer {
            let request = Request(id: waiting.nextRequestID(), user: caller, operation: .countQuery(isMade: true))
            rates.answered(caller, request: request.id, at: now.instant)
            cluster.send(.request(request), to: peer)
        }
        return decision
    }
}

extension Record {
    /// Whether the app does not know the user by this record, and this node may not know better: the user's owner, which is not heard, may
    /// have the registration. The answer then has no record.
    fileprivate func mayLackRegistration(for viewer: UserID?, _ owner: borrowing Owner, _ cluster: borrowing Cluster) -> Bool {
        guard !isOfKnownUser, user != viewer, cluster.unsure.contains(user) else { return false }
        return owner.policies.policy(of: user).mustBeRegistered
    }
}
