import PresenceWire

/// `users.mustBeRegistered`: the users of an app are those that it has imported and those that have logged in.
extension Calls {
    /// Asks the owner of each user. The answer names the users that could not be registered.
    mutating func importUsers(_ users: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for user in users { ask(.register, of: user, for: call, &cluster) }
    }

    /// Leaves out the targets of a `subscribe` that are not users of the app. Returns why the whole call is refused, if it is (T37).
    mutating func excludeUnknown(_ index: PendingCalls.CallIndex, _ owner: inout Owner) -> Refusal? {
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

/// `subscription.maxPerTarget` if the caller's owner cannot decide alone.
extension Calls {
    /// Asks all nodes how many of their users follow these targets.
    mutating func countFollowers(of targets: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        guard let pending = waiting[call] else { return }
        waiting[call]?.followerSums = PendingCalls.FollowerSums(targets: targets, counts: Array(repeating: 0, count: targets.count))
        for peer in cluster.peers.indices where peer == 0 || cluster.peers[peer].isAlive {
            cluster.send(.request(waiting.send(.followers(targets), of: pending.caller, for: call, to: peer, isRepeated: false)), to: peer)
        }
    }

    /// Adds the counts of one node.
    mutating func add(_ counts: [UInt64], to call: PendingCalls.CallIndex) {
        for (place, count) in counts.prefix(waiting[call]?.followerSums?.counts.count ?? 0).enumerated() {
            // A count beyond any policy does not matter, and no answer may overflow the sum.
            waiting[call]?.followerSums?.counts[place] += Int(min(count, 1 << 32))
        }
    }

    /// Leaves out the targets that have reached the follower limit, after all nodes have answered. Returns why the whole call is refused,
    /// if it is (T37).
    mutating func excludeFullTargets(from call: PendingCalls.CallIndex, _ owner: inout Owner) -> Refusal? {
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
