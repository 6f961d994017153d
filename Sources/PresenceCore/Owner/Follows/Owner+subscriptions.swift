import PresenceWire

/// Changes of subscription lists that no call makes, and the messages about all changes.
extension Owner {
    /// Prepares changes that were held back for the gateways. The changes of one user go together, because the list has one hash.
    mutating func releaseListUpdates(_ listUpdates: [(peer: PeerIndex, listUpdate: ListUpdate)]) -> [(
        peer: PeerIndex, listUpdate: ListUpdate
    )] {
        var last: (peer: PeerIndex, listUpdate: ListUpdate)?
        return listUpdates.map { peer, listUpdate in
            // The peers of one change are in their order.
            let isSame = last.map { $0.peer < peer && $0.listUpdate == listUpdate } ?? false
            if !isSame, let user = index(ofKnown: listUpdate.user) {
                modify(user) { user in
                    user.listHash = listUpdate.listHash(after: user.listHash)
                    user.unpublishedCount = max(user.unpublishedCount - 1, 0)
                }
            }
            last = (peer, listUpdate)
            return (peer, releaseListUpdates(listUpdate))
        }
    }

    /// Prepares a change that waited for the disk for the gateways. Returns the part that still holds.
    ///
    /// The list may have changed meanwhile, and the later change was sent.
    mutating func releaseListUpdates(_ listUpdate: ListUpdate) -> ListUpdate {
        guard let user = index(ofKnown: listUpdate.user) else { return listUpdate }
        var listUpdate = listUpdate
        let active = ActiveSubscriptions(of: user, by: self)
        listUpdate.added.removeAll {
            $0.isFriend ? !FriendFollows(user: user).isTold($0.target, by: self) : !active.has($0.target, $0.subscribeType)
        }
        listUpdate.removed.removeAll { active.hasStatus(of: $0) }
        listUpdate.unfollowed.removeAll { active.has($0.target, $0.subscribeType) }
        ProfileFollows(user: user).release(&listUpdate, of: self)
        listUpdate.removed = droppedTargets(listUpdate.removed, by: user)  // Some may be friends by now.
        let observedAt = max(clock.milliseconds(at: 0), claimedByOthers)
        modify(user) { user in
            for followed in listUpdate.added where !followed.isOfProfile { user.subscriptions.observe(followed.target, at: observedAt) }
        }
        return listUpdate
    }

    /// Merges subscriptions of another owner, and sends the list to the gateways if one was newer. Returns whether one was.
    mutating func merge(_ entries: [Subscription], at user: Index, in turn: inout Turn) -> Bool {
        let id = users.user(at: user)
        let observedAt = knownSince(at: turn.now)
        let changed = modify(user) { user in entries.filter { user.subscriptions.merge($0.observed(at: observedAt)) } }
        guard !changed.isEmpty else { return false }
        observe(users[user].subscriptions.version)
        turn.outbox.rows += changed.map { Row($0, of: id) }
        repairQuotaLater(user, at: turn.now)
        SubscriptionEnds(user: user, kind: .status).repairLater(by: &self, at: turn.now)
        queueList(of: user, into: &turn.outbox)
        schedule(user, at: turn.now)
        return true
    }

    /// Schedules the cut of a list that is longer than any quota.
    ///
    /// Two replicas may each have known a part of it. Another part may still arrive, and remove some of the list.
    mutating func repairQuotaLater(_ user: Index, at now: Now) {
        guard users[user].subscriptions.liveCount > Limits.subscriptionsMax else { return }
        let due = now.instant + settings.takeoverTimeout
        modify(user) { $0.repairDueAt = due }
    }

    /// Schedules a review of the user's facts: a part that another replica knows may still arrive.
    mutating func repairLater(_ user: Index, at now: Now) {
        let due = now.instant + settings.takeoverTimeout
        modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// Removes the subscriptions that may not be in a list, a while after its last part has arrived, and hides the user from blocked users.
    ///
    /// While dead nodes may hold a newer change, the list is not cut: the subscription that looks like the earliest may be an acknowledged
    /// one of a moment ago.
    mutating func repairList(of user: Index, in turn: inout Turn) {
        guard !listsMayBeIncomplete else { return Reassignment(now: turn.now).repairListsLater(of: user, in: &self) }
        ChainVisibility(user: user).repair(by: &self, in: &turn)
        for kind in SubscriptionKind.allCases { SubscriptionEnds(user: user, kind: kind).endNonFriends(by: &self, in: &turn) }
        for kind in SubscriptionKind.allCases.reversed() { SubscriptionEnds(user: user, kind: kind).endSurplus(by: &self, in: &turn) }
    }

    /// Names the calling session, so that the user's other devices receive the change (R14). If it is unknown, the only session made the
    /// call.
    func name(_ origin: OriginSession, in listUpdate: inout ListUpdate, of user: Index) {
        let sessions = users[user].streams
        let origin = origin == .unknown && sessions.count == 1 ? .session(sessions[0].id) : origin
        listUpdate.originSession = origin
        listUpdate.isNews =
            !(listUpdate.added.isEmpty && listUpdate.unfollowed.isEmpty) && sessions.contains { .session($0.id) != origin }
    }
}

extension Subscription {
    /// The subscription with the time at which this node learned of it. A client that resumes from an earlier position has not received the
    /// target.
    func observed(at time: Milliseconds) -> Subscription {
        var observed = self
        observed.observedAt = time
        return observed
    }
}

extension ListUpdate {
    /// The whole list of `user`.
    init(whole subscriptions: Subscriptions, of user: UserID) {
        let added = subscriptions.live.map {
            Followed(
                target: $0.target, delivered: .version(.zero), since: max($0.version.milliseconds, $0.observedAt),
                subscribeType: $0.subscribeType,
                expiresAt: $0.expiresAt)
        }
        self.init(user: user, version: subscriptions.version, isWhole: true, added: added, removed: [])
    }
}
