import PresenceWire

/// `users.mustBeRegistered`: the users of an app are those that it has imported and those that have logged in.
extension Calls {
    /// Asks the owner of each user. The answer names the users that could not be registered.
    mutating func importUsers(_ users: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for user in users { ask(.register, of: user, for: call, &cluster) }
    }

    /// Leaves out the targets of a `subscribe` that are no users of the app. Returns why the whole call is refused, if it is (T37).
    mutating func excludeUnknown(_ index: PendingCalls.CallIndex, _ owner: Owner) -> Refusal? {
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
}

/// `subscription.maxPerTarget`: what happens when the caller's owner cannot decide alone.
extension Calls {
    /// Asks all nodes how many of their users follow these: the caller's owner needs it to decide.
    mutating func countFollowers(of targets: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        guard let pending = waiting[call] else { return }
        waiting[call]?.followerSums = PendingCalls.FollowerSums(targets: targets, counts: Array(repeating: 0, count: targets.count))
        for peer in cluster.peers.indices where peer == 0 || cluster.peers[peer].isAlive {
            cluster.send(.request(waiting.send(.followers(targets), of: pending.caller, for: call, to: peer, isRepeated: false)), to: peer)
        }
    }

    /// One node's part has come.
    mutating func add(_ counts: [UInt64], to call: PendingCalls.CallIndex) {
        for (place, count) in counts.prefix(waiting[call]?.followerSums?.counts.count ?? 0).enumerated() {
            // Beyond what any policy allows it does not matter how many, and nobody's answer may overflow the sum.
            waiting[call]?.followerSums?.counts[place] += Int(min(count, 1 << 32))
        }
    }

    /// All have said it: leaves out those that have no room for another follower. Returns why the whole call is refused, if it is (T37).
    mutating func excludeFullTargets(from call: PendingCalls.CallIndex, _ owner: Owner) -> Refusal? {
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
