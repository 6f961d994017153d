import PresenceWire

extension OwnedUser {
    /// The subscriptions to profiles.
    var profileSubscriptions: Subscriptions { Subscriptions(profiles: list(.profileSubscription), of: record.user) }
}

/// The profiles that the sessions of one user follow: those of its friends (P43), and those of its subscriptions (R3).
struct ProfileFollows {
    let user: Owner.Index

    /// The quota of the subscriptions to profiles.
    var quota: SubscriptionQuota { SubscriptionQuota(user: user, kind: .profile) }

    // MARK: Lists for the gateways

    /// Adds all followed profiles to a whole list.
    func add(to list: inout ListUpdate, of owner: borrowing Owner) {
        guard !owner.users[user].lists.isEmpty else { return }
        let allowedAt = owner.policies.changedAt(for: list.user)
        list.added += quota.active(of: owner).entries.map {
            ListUpdate.Followed(
                target: $0.target, delivered: .nothing, since: max(allowedAt, $0.version.milliseconds), subscribeType: $0.subscribeType,
                expiresAt: $0.expiresAt)
        }
        let friends = owner.users[user].list(.friend)
        list.profiles = friends.liveKeys.map { UserID($0, besides: list.user) }
        guard list.mayBeIncomplete else { return }
        let inactive = quota.inactive(of: owner).map { String($0.target.id) }
        let removed = friends.removedKeys + owner.users[user].list(.profileSubscription).removedKeys + inactive
        let keys = Set(removed).subtracting([Row.lateMark]).sorted()
        list.removedProfiles = unfollowed(keys.map { UserID($0, besides: list.user) }, by: owner)
    }

    /// Leaves out of a change that waited for the disk what does not hold any more.
    func release(_ update: inout ListUpdate, of owner: borrowing Owner) {
        guard !update.profiles.isEmpty || !update.removedProfiles.isEmpty else { return }
        let friends = owner.users[user].list(.friend)
        update.profiles.removeAll { !friends.contains(String($0.id)) }
        update.removedProfiles = unfollowed(update.removedProfiles, by: owner)
    }

    /// Those of the users whose profiles the sessions do not follow: they are not friends, and no subscription is active.
    func unfollowed(_ targets: [UserID], by owner: borrowing Owner) -> [UserID] {
        guard !targets.isEmpty else { return [] }
        let (friends, active) = (owner.users[user].list(.friend), ActiveSubscriptions(of: user, by: owner))
        return targets.filter { !friends.contains(String($0.id)) && !active.hasProfile(of: $0) }
    }

    // MARK: Ends of subscriptions

    /// Ends subscriptions: writes the tombstones, and sends the change to the sessions.
    ///
    /// - Parameters:
    ///   - origin: the calling session; nil for a change that no call made.
    ///   - hasExpired: whether they have expired and the sessions receive a notice.
    func drop(
        _ ended: [Subscription], by origin: OriginSession? = nil, hasExpired: Bool = false, of owner: inout Owner, in turn: inout Turn
    ) {
        guard !ended.isEmpty else { return }
        let inactive = quota.inactive(of: owner)
        let changes = ended.map { ChainRules.Change.remove(.profileSubscription, String($0.target.id)) }
        owner.write(changes, of: user, decidedAt: owner.clock.next(at: turn.now.wall), in: &turn)
        quota.sendEnd(of: ended, by: origin, hasExpired: hasExpired, from: &owner, into: &turn.outbox)
        quota.sendActivity(inactiveBefore: inactive, by: &owner, in: &turn)
    }

    /// Ends the subscriptions that have expired.
    func expire(by owner: inout Owner, in turn: inout Turn) {
        guard owner.users[user].lists.endsNext <= turn.now.wall else { return }
        let expired = owner.users[user].profileSubscriptions.entries.filter { $0.expiresAt ?? .max <= turn.now.wall }
        let notifies = owner.policies.policy(of: owner.users.user(at: user)).notifiesExpiry
        drop(expired, hasExpired: notifies, of: &owner, in: &turn)
        owner.users.modifyLists(user) { $0.updateEnds() }
    }

    /// Ends the subscriptions to friends (type 4) whose targets are not friends any more.
    func endNonFriends(by owner: inout Owner, in turn: inout Turn) {
        drop(owner.users[user].profilesOfNonFriends, of: &owner, in: &turn)
    }

    // MARK: Repair

    /// Schedules a repair after a row from another node: two sides of a split may each have known a part of the lists.
    func repairLater(after row: Row, by owner: inout Owner, at now: Now) {
        guard row.kind == .profileSubscription || row.kind == .friend else { return }
        let isTooLong = owner.users[user].list(.profileSubscription).liveCount > Limits.subscriptionsMax
        guard isTooLong || !owner.users[user].profilesOfNonFriends.isEmpty else { return }
        let due = now.instant + owner.settings.takeoverTimeout
        owner.users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// Removes the subscriptions that may not be in the list.
    func repair(by owner: inout Owner, in turn: inout Turn) {
        endNonFriends(by: &owner, in: &turn)
        let surplus = owner.users[user].list(.profileSubscription).liveCount - Limits.subscriptionsMax
        guard surplus > 0 else { return }
        drop(Array(owner.users[user].profileSubscriptions.order.prefix(surplus)), of: &owner, in: &turn)
    }
}

extension OwnedUser {
    fileprivate var profilesOfNonFriends: [Subscription] {
        guard list(.profileSubscription).liveCount > 0 else { return [] }
        let friends = list(.friend)
        return profileSubscriptions.entries.filter {
            $0.subscribeType == ProfileSubscription.friendProfile && !friends.contains(String($0.target.id))
        }
    }
}
