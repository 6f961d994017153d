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

    static func write(_ answer: Answer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        json.object { json in
            let full =
                answer.refused.map { UserError(unfollowed: $0, policy) }
                + answer.followerLimitReached.map { UserError(followerLimitReached: $0, policy) }
            let others = answer.nonFriends.map { UserError(nonFriend: $0) } + answer.unknown.map { UserError(unknown: $0) }
            json.member("errorUserList", errors + full + others)
            json.key("evicted")
            json.array { json in
                for user in answer.evicted { json.string(user.id) }
            }
            if let records = answer.records {
                json.member("userStatusList", zip(records, answer.users).map { ($0 ?? Record(blank: $1)).shown(by: policy) })
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

    /// The refusal of a whole call because there is no room for `surplus`; nil if it is not refused (T37).
    private func refusal(ofSurplus surplus: [UserID], by caller: UserID, _ owner: borrowing Owner) -> Refusal? {
        let policy = owner.policies.policy(of: caller)
        guard !surplus.isEmpty, policy.errorShape == .wholeCall else { return nil }
        return .tooManySubscriptions(surplus, most: Int(policy.subscriptionsMax))
    }

    /// Continues a subscription whose records or follower counts have arrived.
    mutating func continueSubscribe(
        _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        if waiting[index]?.followerSums == nil, let refusal = excludeUnknown(index, owner) {
            return finish(index, .refused(refusal), edge, &cluster)
        }
        subscribe(index, edge, owner, &cluster)
    }

    /// Handles the owner's answer.
    mutating func onSubscribed(
        _ index: PendingCalls.CallIndex, evicted: [UserID], refused: [UserID], nonFriends: [UserID], _ edge: borrowing Edge,
        _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        guard let pending = waiting[index], case .subscribeUserStatus = pending.call else { return }
        if let refusal = refusal(ofSurplus: refused, by: pending.caller, owner) {
            return finish(index, .refused(refusal), edge, &cluster)
        }
        finish(index, subscribed(pending, evicted: evicted, refused: refused, nonFriends: nonFriends), edge, &cluster)
    }

    /// Leaves out the targets of a `subscribe` that are not users of the app. Returns why the whole call is refused, if it is (T37).
    private mutating func excludeUnknown(_ index: PendingCalls.CallIndex, _ owner: borrowing Owner) -> Refusal? {
        guard let pending = waiting[index], owner.policies.policy(of: pending.caller).mustBeRegistered else { return nil }
        let unknown = zip(pending.users, pending.records).filter { $1?.isOfKnownUser == false }.map(\.0)
        guard !unknown.isEmpty else { return nil }
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
        for peer in cluster.peers.indices where peer == 0 || cluster.peers[peer].isAlive {
            cluster.send(.request(waiting.send(.followers(targets), of: pending.caller, for: call, to: peer)), to: peer)
        }
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

/// A `subscribe` call at the owner of the caller.
struct SubscribeRequest {
    enum Outcome {
        /// The call has changed nothing.
        case refused(Answer)
        /// The answer waits for the disk.
        case done(Answer)
    }

    let request: Request
    /// The validity of the subscriptions; nil for unlimited.
    let seconds: Int64?
    let type: UInt8
    /// The calling session, if it is known.
    let session: OriginSession
    let now: Now

    private var id: UserID { request.user }

    /// - Parameter isCounted: whether all nodes have counted the followers of the targets.
    func perform(
        _ asked: [OwnerOperation.Target], isCounted: Bool, on owner: inout Owner, into outbox: inout Outbox
    ) -> Outcome {
        let full = isCounted ? [] : targetsWithoutRoom(asked, at: owner)
        guard full.isEmpty else { return .refused(.followerLimitReached(full)) }
        let nonFriends = type == Subscription.friendOnlineStatus ? nonFriends(among: asked, at: owner) : []
        let policy = owner.policies.policy(of: id)
        if !nonFriends.isEmpty, policy.errorShape == .wholeCall { return .refused(.refused(.noFriends(nonFriends))) }
        _ = owner.accepts(request.begunAt, at: now)
        let targets = asked.filter { !nonFriends.contains($0.user) }
        let surplus = surplus(of: targets, by: policy, at: owner)
        if !surplus.isEmpty, policy.errorShape == .wholeCall {
            return .refused(.subscribed(evicted: [], refused: surplus, nonFriends: []))
        }
        let evicted = subscribe(targets, surplus, on: &owner, into: &outbox)
        return .done(.subscribed(evicted: evicted, refused: surplus, nonFriends: nonFriends))
    }

    /// Adds the subscriptions. Returns the evicted targets, also those of an earlier attempt whose answer was lost. There is no room for
    /// `refused`.
    private func subscribe(
        _ targets: [OwnerOperation.Target], _ refused: [UserID], on owner: inout Owner, into outbox: inout Outbox
    ) -> [UserID] {
        let user = owner.index(of: id)
        let version = owner.clock.next(at: now.wall)
        let expiresAt = seconds.map { now.wall + $0 * 1_000 }
        var changed: [Subscription] = []
        let quota = SubscriptionQuota(user: user)
        var inactive = Set(quota.inactive(of: owner).map(\.target))
        let sessionPeers = owner.users[user].sessionPeers
        let accepted = targets.map(\.user).filter { !refused.contains($0) }
        let done = owner.users[user].subscriptions.done(accepted, since: request.isRepeated ? request.begunAt : nil)
        let doneTargets = (done.added + done.evicted).map(\.target)
        for target in targets where !doneTargets.contains(target.user) && !refused.contains(target.user) {
            var entry = Subscription(
                target: target.user, subscribeType: type(of: target.user, for: owner.users[user]), subscribedAt: now.wall,
                expiresAt: expiresAt, version: version)
            // The gateways receive the entry after it is on disk. Positions that they claimed before do not cover it
            // (``Owner/releaseListUpdates(_:)``).
            entry.observedAt = sessionPeers.isEmpty ? owner.knownSince(at: now) : .max
            if owner.users.modify(user, { $0.subscriptions.merge(entry) }) { changed.append(entry) }
        }
        inactive.subtract(changed.map(\.target))
        let evictionVersion = owner.clock.next(at: now.wall)
        let evicted = quota.evict(downTo: owner.subscriptionsMax(of: user), besides: inactive, version: evictionVersion, from: &owner)
        // If several sessions exist, or the calling one is not known here, all receive the change by their streams.
        let sessions = owner.users[user].streams
        let isAlone = sessions.count == 1 && (session == .unknown || session == .session(sessions[0].id))
        let active = owner.subscriptions(of: user)
        let kept = targets.filter { active.contains($0.user) }
        let followed = kept.map {
            ListUpdate.Followed(
                target: $0.user, delivered: isAlone || $0.delivered == .laterChanges ? $0.delivered : .nothing, since: version.milliseconds,
                subscribeType: type(of: $0.user, for: owner.users[user]), expiresAt: expiresAt)
        }
        quota.sendWhenStored(quota.change(added: followed, removed: evicted, by: session, of: owner), by: &owner, into: &outbox)
        // The rows of an earlier attempt may be on no other disk yet.
        outbox.rows += (changed + evicted + done.added + done.evicted).map { Row($0, of: id) }
        owner.schedule(user, at: now)
        return (evicted + done.evicted).map(\.target)
    }

    /// Targets for which there is no room where the policy evicts nobody.
    private func surplus(of targets: [OwnerOperation.Target], by policy: Policy, at owner: borrowing Owner) -> [UserID] {
        guard policy.overflow == .reject else { return [] }
        let list = owner.users.index(of: id).map { owner.subscriptions(of: $0) } ?? Subscriptions()
        let new = targets.filter { !list.contains($0.user) }
        return new.dropFirst(max(Int(policy.subscriptionsMax) - list.liveCount, 0)).map(\.user)
    }

    /// Targets for which this node cannot tell alone whether one more may follow them.
    private func targetsWithoutRoom(_ targets: [OwnerOperation.Target], at owner: borrowing Owner) -> [UserID] {
        let share = Int(owner.policies.policy(of: id).followersMax) / owner.nodesCount
        let known = owner.users.index(of: id)
        return targets.map(\.user).filter { target in
            let isFollowed = known.map { owner.users[$0].subscriptions.contains(target) } ?? false
            return !isFollowed && !owner.users.hasRoom(for: target, share: share)
        }
    }

    /// Targets that are not friends of the user.
    private func nonFriends(among targets: [OwnerOperation.Target], at owner: borrowing Owner) -> [UserID] {
        let friends = owner.users.index(of: id).map { owner.users[$0].list(.friend) } ?? RowList()
        return targets.map(\.user).filter { !friends.contains(String($0.id)) }
    }

    /// The type of a subscription to a target.
    ///
    /// A subscription of the usual type keeps it if the target is also followed as a friend. The end of the friendship does not end it.
    private func type(of target: UserID, for user: OwnedUser) -> UInt8 {
        min(user.subscriptions.subscription(to: target)?.subscribeType ?? type, type)
    }
}
