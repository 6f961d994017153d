import PresenceWire

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
    let session: SessionID?
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
        let sessionPeers = owner.users[user].sessionPeers
        let accepted = targets.map(\.user).filter { !refused.contains($0) }
        let done = owner.users[user].subscriptions.done(accepted, since: request.isRepeated ? request.begunAt : nil)
        let doneTargets = (done.added + done.evicted).map(\.target)
        for target in targets where !doneTargets.contains(target.user) && !refused.contains(target.user) {
            var entry = Subscription(
                target: target.user, subscribeType: type(of: target.user, for: owner.users[user]), subscribedAt: now.wall,
                expiresAt: expiresAt, version: version)
            // The gateways are sent it when it is on disk. No position that they claim before counts
            // (``Owner/releaseListUpdates(_:)``).
            entry.observedAt = sessionPeers.isEmpty ? owner.knownSince(at: now) : .max
            if owner.users.modify(user, { $0.subscriptions.merge(entry) }) { changed.append(entry) }
        }
        let evictionVersion = owner.clock.next(at: now.wall)
        let evicted = owner.evict(downTo: owner.subscriptionsMax(of: user), from: user, version: evictionVersion)
        // If several sessions exist, or the calling one is not known here, all receive the change by their streams.
        let sessions = owner.users[user].sessions
        let isAlone = sessions.count == 1 && (session ?? sessions[0].id) == sessions[0].id
        let kept = targets.filter { owner.users[user].subscriptions.entry(for: $0.user) != nil }
        let followed = kept.map {
            ListUpdate.Followed(
                target: $0.user, told: isAlone || $0.told == .max ? $0.told : nil, since: version.milliseconds,
                subscribeType: type(of: $0.user, for: owner.users[user]), expiresAt: expiresAt)
        }
        let listUpdate = owner.change(of: user, added: followed, removed: evicted, by: session)
        outbox.listUpdatesWhenStored += sessionPeers.map { ($0, listUpdate) }
        if !sessionPeers.isEmpty { owner.users.modify(user) { $0.unpublishedCount += 1 } }
        // The rows of an earlier attempt may be on no other disk yet.
        outbox.rows += (changed + evicted + done.added + done.evicted).map { Row($0, of: id) }
        owner.schedule(user, at: now)
        return (evicted + done.evicted).map(\.target)
    }

    /// Targets for which there is no room where the policy evicts nobody.
    private func surplus(of targets: [OwnerOperation.Target], by policy: Policy, at owner: Owner) -> [UserID] {
        guard policy.overflow == .reject else { return [] }
        let list = owner.users.index(of: id).map { owner.users[$0].subscriptions } ?? Subscriptions()
        let new = targets.filter { list.entry(for: $0.user) == nil }
        return new.dropFirst(max(Int(policy.subscriptionsMax) - list.liveCount, 0)).map(\.user)
    }

    /// Targets for which this node cannot tell alone whether one more may follow them.
    private func targetsWithoutRoom(_ targets: [OwnerOperation.Target], at owner: Owner) -> [UserID] {
        let share = Int(owner.policies.policy(of: id).followersMax) / owner.nodesCount
        let known = owner.users.index(of: id)
        return targets.map(\.user).filter { target in
            let isFollowed = known.map { owner.users[$0].subscriptions.entry(for: target) != nil } ?? false
            return !isFollowed && !owner.users.hasRoom(for: target, share: share)
        }
    }

    /// Targets that are not friends of the user.
    private func nonFriends(among targets: [OwnerOperation.Target], at owner: Owner) -> [UserID] {
        let friends = owner.users.index(of: id).flatMap { owner.users[$0].record.privacy?.visibility.friends } ?? []
        return targets.map(\.user).filter { !friends.contains($0) }
    }

    /// The type of a subscription to a target.
    ///
    /// A subscription of the usual type keeps it if the target is also followed as a friend. The end of the friendship does not end it.
    private func type(of target: UserID, for user: OwnedUser) -> UInt8 {
        min(user.subscriptions.entry(for: target)?.subscribeType ?? type, type)
    }
}
