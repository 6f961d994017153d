import PresenceWire

/// `subscribeUserStatus`: follows users, whose changes then arrive on the event stream.
enum SubscribeUserStatus: ClientOperation {
    /// The users of the call by their results, and with `sync` the records of those who are followed.
    struct Answer: OperationAnswer {
        let evicted: [UserID]
        let refused: [UserID]
        let followerLimitReached: [UserID]
        let nonFriends: [UserID]
        let unknown: [UserID]
        let records: [Record?]?
        let users: [UserID]

        init?(_ answer: CallAnswer) {
            guard
                case .subscribed(let evicted, let refused, let followerLimitReached, let nonFriends, let unknown, let records, let users) =
                    answer
            else { return nil }
            (self.evicted, self.refused, self.followerLimitReached) = (evicted, refused, followerLimitReached)
            (self.nonFriends, self.unknown, self.records, self.users) = (nonFriends, unknown, records, users)
        }
    }

    static let description = OpenAPI.Operation(
        name: "subscribeUserStatus", summary: "Follows users; their changes then arrive on the event stream.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: OpenAPI.standard.subscribeUsersMax)), Schema.optional("expiry", Schema.expiry),
            Schema.optional(
                "sync",
                Schema.described(Schema.bool, "True: the answer has the statuses of the users, and the stream then has only newer ones.")),
            Schema.optional("subscribeType", Schema.subscribeType), Schema.originSession, Schema.asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("errorUserList", Schema.errors), Schema.required("evicted", Schema.list(of: Schema.reference("UserID"))),
            Schema.sometimes("userStatusList", Schema.statuses),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.subscribeUsersMax))
        let range = policy.subscriptionSeconds.min...policy.subscriptionSeconds.max
        let seconds = try fields.integer("expiry", in: range, by: .ttl)
        guard seconds != nil || !policy.isSubscriptionTTLRequired else {
            throw .parameter("expiry: is missing; it must be an integer in \(range.lowerBound)...\(range.upperBound)", by: .ttl)
        }
        let sync = try fields.bool("sync") ?? false
        let type = try fields.subscribeType() ?? Subscription.onlineStatus
        guard !sync || !Subscription.isOfProfile(type) else {
            throw .parameter("sync: a subscription to profiles has no statuses; getUsersProfile returns the profiles")
        }
        var errors = found.errors
        let targets = found.users.filter { $0 != subject }
        if targets.count < found.users.count {
            errors.append(
                UserError(
                    userID: String(subject.id), code: 6017,
                    reason: "userIDs: is the caller itself; own changes arrive without a subscription"))
        }
        let call = Call.subscribeUserStatus(targets, seconds: seconds, sync: sync, subscribeType: type)
        return API.Parsed(call: call, subject: subject, errors: errors, session: try fields.session())
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope {
        if case .subscribeUserStatus(_, _, _, let type) = call, Subscription.isOfProfile(type) { .chain } else { .others }
    }

    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            let full =
                answer.refused.map { UserError(unfollowed: $0, policy) }
                + answer.followerLimitReached.map { UserError(followerLimitReached: $0, policy) }
            let others = answer.nonFriends.map { UserError(nonFriend: $0) } + answer.unknown.map { UserError(unknown: $0) }
            json.member("errorUserList", call.errors + full + others)
            json.array("evicted", answer.evicted) { $0.string($1.id) }
            if let records = answer.records {
                json.array("userStatusList", zip(records, answer.users)) { json, told in
                    json.userStatus((told.0 ?? Record(blank: told.1)).shown(by: policy), isUnsure: call.unsure.contains(told.1))
                }
            }
        }
    }

    static func countRejections(in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections) {
        rejections.count(.friends, answer.nonFriends.count)
        rejections.count(.quota, answer.refused.count)
        rejections.count(.followers, answer.followerLimitReached.count)
        rejections.count(.registered, answer.unknown.count)
    }
}

/// The calling node's part: which targets the app knows, which have room for a follower, and which versions the answer has.
extension Calls {
    /// Begins a subscription, or collects the records of the targets first.
    mutating func beginSubscribe(
        _ index: PendingCalls.CallIndex, to targets: [UserID], sync: Bool, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: inout Cluster, at now: Now
    ) {
        guard let caller = waiting[index]?.caller else { return }
        waiting[index]?.users = targets
        if sync || owner.policies.policy(of: caller).mustBeRegistered {
            gather(targets, for: index, edge, owner, &cluster, at: now)
        } else {
            subscribe(index, edge, owner, &cluster)
        }
    }

    /// Sends the owner the targets that are left.
    private mutating func subscribe(
        _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        if let refusal = excludeFullTargets(from: index, owner) { return finish(index, .refused(refusal), edge, &cluster) }
        guard let pending = waiting[index], case .subscribeUserStatus(_, let seconds, let sync, let type) = pending.call else { return }
        let targets = pending.users
        if targets.isEmpty { return finish(index, subscribed(pending), edge, &cluster) }
        let originSessions = pending.originSessions
        let isAnswered = sync && originSessions.count <= 1 && originSessions != [.backEnd]
        // N8: the subscriber receives only later changes, unless it requested the current records.
        let isLater = !sync && owner.policies.policy(of: pending.caller).snapshot == .onRequest
        if isAnswered { waiting.willAnswerWithRecords(index) }
        let delivered = targets.indices.map { index in
            let record = isAnswered ? DeliveredRecord(pending.records[index]?.version) : isLater ? .laterChanges : .nothing
            return OwnerOperation.Target(user: targets[index], delivered: record)
        }
        let operation = OwnerOperation.subscribe(
            delivered, seconds: seconds, subscribeType: type, session: waiting.originSession(of: index),
            isCounted: pending.followerSums != nil)
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

    /// Continues a subscription whose records or follower counts have arrived.
    mutating func continueSubscribe(
        _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        if waiting[index]?.followerSums == nil, let refusal = excludeUnknown(index, owner, unsure: cluster.unsure) {
            return finish(index, .refused(refusal), edge, &cluster)
        }
        subscribe(index, edge, owner, &cluster)
    }

    /// Handles the owner's answer. The whole call is refused if there is no room for some targets, where the policy says so (T37).
    mutating func onSubscribed(
        _ index: PendingCalls.CallIndex, evicted: [UserID], refused: [UserID], nonFriends: [UserID], _ edge: borrowing Edge,
        _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        guard let pending = waiting[index], case .subscribeUserStatus = pending.call else { return }
        let policy = owner.policies.policy(of: pending.caller)
        if !refused.isEmpty, policy.errorShape == .wholeCall {
            return finish(index, .refused(.tooManySubscriptions(refused, most: Int(policy.subscriptionsMax))), edge, &cluster)
        }
        finish(index, subscribed(pending, evicted: evicted, refused: refused, nonFriends: nonFriends), edge, &cluster)
    }

    /// Leaves out the targets of a `subscribe` that are not users of the app. Returns why the whole call is refused, if it is (T37, or a
    /// target is `unsure`).
    private mutating func excludeUnknown(_ index: PendingCalls.CallIndex, _ owner: borrowing Owner, unsure: UnsureUsers) -> Refusal? {
        guard let pending = waiting[index], owner.policies.policy(of: pending.caller).mustBeRegistered else { return nil }
        let unknown = zip(pending.users, pending.records).filter { $1?.isOfKnownUser == false }.map(\.0)
        guard !unknown.isEmpty else { return nil }
        if unknown.contains(where: unsure.contains) { return .unavailable }
        if owner.policies.policy(of: pending.caller).errorShape == .wholeCall { return .noSuchUser(unknown) }
        let known = pending.records.indices.filter { pending.records[$0]?.isOfKnownUser != false }
        waiting[index]?.users = known.map { pending.users[$0] }
        waiting[index]?.records = known.map { pending.records[$0] }
        waiting[index]?.excluded = unknown
        return nil
    }
    // MARK: Follower limit

    /// Asks all nodes how many of their users follow these targets.
    mutating func countFollowers(of targets: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        guard let pending = waiting[call] else { return }
        waiting[call]?.followerSums = PendingCalls.FollowerSums(targets: targets, counts: Array(repeating: 0, count: targets.count))
        askAllNodes(.followers(targets), of: pending.caller, for: call, &cluster)
    }

    /// Adds the counts of one node.
    mutating func add(_ counts: [UInt64], to call: PendingCalls.CallIndex) {
        for (index, count) in counts.prefix(waiting[call]?.followerSums?.counts.count ?? 0).enumerated() {
            // A count beyond any policy does not matter, and no answer may overflow the sum.
            waiting[call]?.followerSums?.counts[index] += Int(min(count, 1 << 32))
        }
    }

    /// Leaves out the targets that have reached the follower limit, after all nodes have answered. Returns why the whole call is refused,
    /// if it is (T37).
    private mutating func excludeFullTargets(from call: PendingCalls.CallIndex, _ owner: borrowing Owner) -> Refusal? {
        guard let pending = waiting[call], let followerSums = pending.followerSums else { return nil }
        let policy = owner.policies.policy(of: pending.caller)
        let most = Int(policy.followersMax)
        let full = zip(followerSums.targets, followerSums.counts).filter { $1 >= most }.map(\.0)
        if policy.errorShape == .wholeCall, !full.isEmpty { return .tooManyFollowers(full, most: most) }
        let kept = pending.users.indices.filter { !full.contains(pending.users[$0]) }
        waiting[call]?.followerLimitReached = full
        waiting[call]?.users = kept.map { pending.users[$0] }
        if !pending.records.isEmpty { waiting[call]?.records = kept.map { pending.records[$0] } }
        return nil
    }
}
