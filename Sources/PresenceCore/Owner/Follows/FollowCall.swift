import PresenceWire

/// A call that begins or ends subscriptions, of both kinds, at the owner of the caller.
struct FollowCall {
    enum Outcome {
        /// The call has changed nothing.
        case refused(Answer)
        /// The answer waits for the disk.
        case done(Answer)
    }

    /// The subscriptions that a call asks for.
    struct Asked {
        let targets: [OwnerOperation.Target]
        /// The validity of the subscriptions; nil for unlimited.
        let seconds: Int64?
        let type: UInt8

        var users: [UserID] { targets.map(\.user) }

        func expiresAt(from now: Now) -> Milliseconds? { seconds.map { now.wall + $0 * 1_000 } }

        /// The type of a subscription to a target.
        ///
        /// A subscription of the usual type keeps it if the target is also followed as a friend. The end of the friendship does not end it.
        func type(of target: UserID, in held: Subscriptions) -> UInt8 {
            min(held.subscription(to: target)?.subscribeType ?? type, type)
        }

        func without(_ users: [UserID]) -> Asked {
            Asked(targets: targets.filter { !users.contains($0.user) }, seconds: seconds, type: type)
        }
    }

    let request: Request
    /// The calling session, if it is known.
    let session: OriginSession
    let now: Now

    private var id: UserID { request.user }

    // MARK: Begin

    /// Adds subscriptions. A call that arrives twice has the result of the first time.
    ///
    /// - Parameter isCounted: whether all nodes have counted the followers of the targets.
    func subscribe(_ asked: Asked, isCounted: Bool, on owner: inout Owner, into outbox: inout Outbox) -> Outcome {
        let kind = Subscription.isOfProfile(asked.type) ? SubscriptionKind.profile : .status
        let full = isCounted || kind == .profile ? [] : targetsWithoutRoom(asked.users, at: owner)
        guard full.isEmpty else { return .refused(.followerLimitReached(full)) }
        let nonFriends = Subscription.isForFriends(asked.type) ? nonFriends(among: asked.users, at: owner) : []
        let policy = owner.policies.policy(of: id)
        if !nonFriends.isEmpty, policy.errorShape == .wholeCall { return .refused(.refused(.noFriends(nonFriends))) }
        _ = owner.accepts(request.begunAt, at: now)
        let asked = asked.without(nonFriends)
        let done = kind == .profile ? doneProfiles(asked, at: owner) : []
        let surplus = policy.overflow == .reject ? surplus(of: asked.without(done.map(\.target)).users, kind, at: owner) : []
        if !surplus.isEmpty, policy.errorShape == .wholeCall {
            return .refused(.subscribed(evicted: [], refused: surplus, nonFriends: []))
        }
        let accepted = asked.without(surplus)
        let evicted =
            kind == .status
            ? followStatuses(accepted, on: &owner, into: &outbox) : followProfiles(accepted, done, on: &owner, into: &outbox)
        return .done(.subscribed(evicted: evicted, refused: surplus, nonFriends: nonFriends))
    }

    /// Targets for which this node cannot tell alone whether one more may follow them.
    private func targetsWithoutRoom(_ targets: [UserID], at owner: borrowing Owner) -> [UserID] {
        let share = Int(owner.policies.policy(of: id).followersMax) / owner.nodesCount
        let known = owner.index(ofKnown: id)
        return targets.filter { target in
            let isFollowed = known.map { owner.users[$0].subscriptions.contains(target) } ?? false
            return !isFollowed && !owner.users.hasRoom(for: target, share: share)
        }
    }

    /// Targets that are not friends of the user.
    private func nonFriends(among targets: [UserID], at owner: borrowing Owner) -> [UserID] {
        let friends = owner.index(ofKnown: id).map { owner.users[$0].list(.friend) } ?? RowList()
        return targets.filter { !friends.contains(String($0.id)) }
    }

    /// Targets for which there is no room where the policy evicts nobody.
    private func surplus(of targets: [UserID], _ kind: SubscriptionKind, at owner: borrowing Owner) -> [UserID] {
        let user = owner.index(ofKnown: id)
        let held = user.map { SubscriptionQuota(user: $0, kind: kind).active(of: owner) } ?? Subscriptions()
        let most = Int(owner.policies.policy(of: id).subscriptionsMax)
        return Array(targets.filter { !held.contains($0) }.dropFirst(max(most - held.liveCount, 0)))
    }

    /// Adds subscriptions to statuses. Returns the evicted targets, also those of an earlier attempt whose answer was lost.
    private func followStatuses(_ asked: Asked, on owner: inout Owner, into outbox: inout Outbox) -> [UserID] {
        let user = owner.index(of: id)
        let version = owner.nextVersion(at: now)
        let expiresAt = asked.expiresAt(from: now)
        var changed: [Subscription] = []
        let quota = SubscriptionQuota(user: user)
        var inactive = Set(quota.inactive(of: owner).map(\.target))
        let sessionPeers = owner.users[user].sessionPeers
        let done = owner.users[user].subscriptions.done(asked.users, since: request.isRepeated ? request.begunAt : nil)
        for target in asked.without((done.added + done.evicted).map(\.target)).users {
            var entry = Subscription(
                target: target, subscribeType: asked.type(of: target, in: owner.users[user].subscriptions), subscribedAt: now.wall,
                expiresAt: expiresAt, version: version)
            // The gateways receive the entry after it is on disk. Positions that they claimed before do not cover it
            // (``Owner/releaseListUpdates(_:)``).
            entry.observedAt = sessionPeers.isEmpty ? owner.knownSince(at: now) : .max
            if owner.modify(user, { $0.subscriptions.merge(entry) }) { changed.append(entry) }
        }
        inactive.subtract(changed.map(\.target))
        let evictionVersion = owner.nextVersion(at: now)
        let evicted = quota.evict(downTo: owner.subscriptionsMax(of: user), besides: inactive, version: evictionVersion, from: &owner)
        // If several sessions exist, or the calling one is not known here, all receive the change by their streams. A session that has just
        // been ended may be the calling one.
        let sessions = owner.users[user].streams
        let mayBeOther = session == .unknown ? !owner.users[user].endedSessions.isEmpty : session != sessions.first.map { .session($0.id) }
        let isAlone = sessions.count == 1 && !mayBeOther
        let active = owner.subscriptions(of: user)
        let followed = asked.targets.filter { active.contains($0.user) }.map {
            ListUpdate.Followed(
                target: $0.user, delivered: isAlone || $0.delivered == .laterChanges ? $0.delivered : .nothing, since: version.milliseconds,
                subscribeType: asked.type(of: $0.user, in: owner.users[user].subscriptions), expiresAt: expiresAt)
        }
        quota.sendWhenStored(quota.change(added: followed, removed: evicted, by: session, of: owner), by: &owner, into: &outbox)
        // The rows of an earlier attempt may be on no other disk yet.
        outbox.rows += (changed + evicted + done.added + done.evicted).map { Row($0, of: id) }
        owner.schedule(user, at: now)
        return (evicted + done.evicted).map(\.target)
    }

    /// The subscriptions to profiles that an earlier attempt of the call has added.
    private func doneProfiles(_ asked: Asked, at owner: borrowing Owner) -> [Subscription] {
        guard request.isRepeated, let user = owner.index(ofKnown: id) else { return [] }
        let all = owner.users[user].profileSubscriptions
        return asked.users.compactMap { all.subscription(to: $0) }.filter { $0.version > request.begunAt }
    }

    /// Adds subscriptions to profiles. Returns the evicted targets, also those of an earlier attempt.
    private func followProfiles(
        _ asked: Asked, _ done: [Subscription], on owner: inout Owner, into outbox: inout Outbox
    ) -> [UserID] {
        let user = owner.index(of: id)
        let quota = SubscriptionQuota(user: user, kind: .profile)
        let all = owner.users[user].profileSubscriptions
        let accepted = asked.without(done.map(\.target)).users
        // Those just added count as the latest.
        let kept = quota.active(of: owner).order.filter { !accepted.contains($0.target) }
        let evictedCount = max(kept.count + accepted.count - owner.subscriptionsMax(of: user), 0)
        let displaced = kept.prefix(evictedCount)
        let surplus = accepted.prefix(evictedCount - displaced.count)
        let added = accepted.dropFirst(surplus.count)
        // The call's own surplus may have been subscribed to before.
        let evicted = displaced + surplus.compactMap { all.subscription(to: $0) }
        let version = owner.nextVersion(at: now)
        let followed = added.map { target in
            ListUpdate.Followed(
                target: target, delivered: .nothing, since: version.milliseconds, subscribeType: asked.type(of: target, in: all),
                expiresAt: asked.expiresAt(from: now))
        }
        let changes =
            followed.map { followed in
                let fact = ProfileSubscription(subscribeType: followed.subscribeType, subscribedAt: now.wall)
                return ChainRules.Change.set(fact, String(followed.target.id), until: followed.expiresAt)
            } + evicted.map { .remove(.profileSubscription, String($0.target.id)) }
        // The tombstones have the version of the subscriptions for which there was no room. So a second attempt finds them.
        let earlier = evictions(with: done, of: owner.users[user].list(.profileSubscription))
        owner.write(changes, of: user, decidedAt: version, in: &outbox[at: now])
        for target in done.map(\.target) + earlier {
            outbox.writeAgain([.profileSubscription], about: String(target.id), of: owner.users[user])
        }
        owner.count { $0.evictions += UInt64(evicted.count) }
        quota.sendWhenStored(quota.change(added: followed, removed: Array(evicted), by: session, of: owner), by: &owner, into: &outbox)
        owner.schedule(user, at: now)
        return displaced.map(\.target) + surplus + earlier
    }

    /// The targets that an earlier attempt has evicted for those that it added.
    private func evictions(with done: [Subscription], of list: RowList) -> [UserID] {
        guard !done.isEmpty else { return [] }
        // One decision has one stamp. The version of a removal names no node.
        let stamps = Set(done.map(\.version.stamp))
        return list.entries.filter { $0.isRemoved && stamps.contains($0.version.stamp) }.map { UserID($0.key, besides: id) }
    }

    // MARK: End

    /// Ends the subscriptions to some users, or to all with nil; of one type, or with nil of any.
    func unsubscribe(_ targets: [UserID]?, of type: UInt8?, on owner: inout Owner, into outbox: inout Outbox) {
        let isOfProfile = type.map(Subscription.isOfProfile)
        if isOfProfile ?? true { unfollowProfiles(targets, of: type, on: &owner, into: &outbox) }
        if !(isOfProfile ?? false) { unfollowStatuses(targets, of: type, on: &owner, into: &outbox) }
    }

    private func unfollowStatuses(_ targets: [UserID]?, of type: UInt8?, on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        let quota = SubscriptionQuota(user: user)
        let version = owner.nextVersion(at: now)
        let inactive = quota.inactive(of: owner)
        let unknownAt = owner.listsMayBeIncomplete ? now.wall : nil
        let (ended, others) = owner.modify(user) {
            $0.subscriptions.unsubscribe(targets, of: type, version: version, unknownAt: unknownAt)
        }
        // Gateways may follow targets that this node does not know, because nodes that have not answered may have sent them.
        let gone = owner.listsMayBeIncomplete && targets != nil ? ended + others : ended
        if !gone.isEmpty { quota.sendEnd(of: gone, by: session, hasExpired: false, from: &owner, into: &outbox) }
        quota.sendActivity(inactiveBefore: inactive, by: &owner, in: &outbox[at: now])
        outbox.rows += (ended + others).map { Row($0, of: id) }
    }

    private func unfollowProfiles(_ targets: [UserID]?, of type: UInt8?, on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        let held = owner.users[user].profileSubscriptions
        let ended = (targets.map { $0.compactMap { held.subscription(to: $0) } } ?? held.entries).filter { $0.isOf(type) }
        // Dead nodes may hold a newer subscription than an earlier tombstone, and one that is unknown here.
        let list = owner.users[user].list(.profileSubscription)
        let others = (targets.map { $0.map { String($0.id) } } ?? list.removedKeys).filter { key in
            list.entry(for: key)?.isRemoved ?? owner.listsMayBeIncomplete
        }
        if !others.isEmpty {
            let version = owner.nextVersion(at: now)
            owner.write(others.map { .remove(.profileSubscription, $0) }, of: user, decidedAt: version, in: &outbox[at: now])
        }
        SubscriptionEnds(user: user, kind: .profile).end(ended, by: session, of: &owner, in: &outbox[at: now])
    }
}
