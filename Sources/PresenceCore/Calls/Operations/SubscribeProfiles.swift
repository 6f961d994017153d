import PresenceWire

/// Subscriptions to profiles (R3, types 2 and 4) at the owner of the subscriber.
///
/// They have a list and a quota of their own, as large as those of the subscriptions to statuses.
extension OwnerRequest {
    /// Adds subscriptions to profiles. A call that arrives twice has the result of the first time.
    ///
    /// - Parameters:
    ///   - seconds: the validity; nil for unlimited.
    ///   - session: the calling session, if it is known.
    func subscribeProfiles(
        of targets: [UserID], _ seconds: Int64?, type: UInt8, by session: OriginSession, on owner: inout Owner, into outbox: inout Outbox
    ) {
        let policy = owner.policies.policy(of: id)
        let user = owner.index(of: id)
        let nonFriends = type == ProfileSubscription.friendProfile ? targets.filter { !isFriend($0, of: owner) } : []
        if !nonFriends.isEmpty, policy.errorShape == .wholeCall { return answer(.refused(.noFriends(nonFriends)), into: &outbox) }
        _ = owner.accepts(request.begunAt, at: now)
        let all = owner.users[user].profileSubscriptions
        let asked = targets.filter { !nonFriends.contains($0) }
        let done = asked.compactMap { all.subscription(to: $0) }.filter { request.isRepeated && $0.version > request.begunAt }
        let new = asked.filter { target in !done.contains { $0.target == target } }
        let quota = Int(policy.subscriptionsMax)
        let held = all.active(within: quota)
        let refused = policy.overflow == .reject ? surplus(of: new, besides: held, quota) : []
        if !refused.isEmpty, policy.errorShape == .wholeCall {
            return answer(.subscribed(evicted: [], refused: refused, nonFriends: []), into: &outbox)
        }
        let accepted = new.filter { !refused.contains($0) }
        // Those just added count as the latest.
        let kept = held.order.filter { !accepted.contains($0.target) }
        let evictedCount = max(kept.count + accepted.count - quota, 0)
        let evicted = Array(kept.prefix(evictedCount))
        let added = accepted.dropFirst(evictedCount - evicted.count)
        let version = owner.clock.next(at: now.wall)
        let expiresAt = seconds.map { now.wall + $0 * 1_000 }
        let followed = added.map { target in
            ListUpdate.Followed(
                target: target, delivered: .nothing, since: version.milliseconds,
                subscribeType: min(all.subscription(to: target)?.subscribeType ?? type, type), expiresAt: expiresAt)
        }
        let changes =
            followed.map { followed in
                let fact = ProfileSubscription(subscribeType: followed.subscribeType, subscribedAt: now.wall)
                return ChainRules.Change.set(fact, String(followed.target.id), until: expiresAt)
            } + evicted.map { .remove(.profileSubscription, String($0.target.id)) }
        // The tombstones have the version of the subscriptions for which there was no room. So a second attempt finds them.
        let earlier = evictions(with: done, of: owner)
        owner.write(changes, of: user, decidedAt: version, in: &outbox[at: now])
        for target in done.map(\.target) + earlier { writeAgain(.profileSubscription, String(target.id), of: owner, into: &outbox) }
        owner.counters.evictions += UInt64(evicted.count)
        let follows = ProfileFollows(user: user).quota
        follows.sendWhenStored(follows.change(added: followed, removed: evicted, by: session, of: owner), by: &owner, into: &outbox)
        owner.schedule(user, at: now)
        let surplus = evicted.map(\.target) + accepted.prefix(evictedCount - evicted.count) + earlier
        answerWhenStored(.subscribed(evicted: surplus, refused: refused, nonFriends: nonFriends), into: &outbox)
    }

    private func isFriend(_ target: UserID, of owner: borrowing Owner) -> Bool {
        list(.friend, of: owner).contains(String(target.id))
    }

    /// New targets for which there is no room where the policy evicts nobody.
    private func surplus(of targets: [UserID], besides held: Subscriptions, _ quota: Int) -> [UserID] {
        Array(targets.filter { !held.contains($0) }.dropFirst(max(quota - held.entries.count, 0)))
    }

    /// The targets that an earlier attempt has evicted for those that it added.
    private func evictions(with done: [Subscription], of owner: borrowing Owner) -> [UserID] {
        guard !done.isEmpty else { return [] }
        // One decision has one stamp. The version of a removal names no node.
        let stamps = Set(done.map(\.version.stamp))
        return list(.profileSubscription, of: owner).entries.filter { $0.isRemoved && stamps.contains($0.version.stamp) }
            .map { UserID($0.key, besides: id) }
    }

    /// Ends subscriptions to the profiles of some users, or all with nil; of one type, or with nil of any.
    func unsubscribeProfiles(
        of targets: [UserID]?, _ type: UInt8?, by session: OriginSession, on owner: inout Owner, into outbox: inout Outbox
    ) {
        let user = owner.index(of: id)
        let held = owner.users[user].profileSubscriptions
        let ended = (targets.map { $0.compactMap { held.subscription(to: $0) } } ?? held.entries).filter { $0.isOf(type) }
        // Dead nodes may hold a newer subscription than an earlier tombstone, and one that is unknown here.
        let list = list(.profileSubscription, of: owner)
        let others = (targets.map { $0.map { String($0.id) } } ?? list.removedKeys).filter { key in
            list.entry(for: key)?.isRemoved ?? owner.listsMayBeIncomplete
        }
        if !others.isEmpty { write(others.map { .remove(.profileSubscription, $0) }, on: &owner, into: &outbox) }
        ProfileFollows(user: user).drop(ended, by: session, of: &owner, in: &outbox[at: now])
    }
}
