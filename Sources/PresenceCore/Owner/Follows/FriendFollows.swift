import PresenceWire

/// The friends of one user, as far as the user's sessions follow their statuses.
struct FriendFollows {
    /// The time from a decision about a friend to the moment at which the sessions follow the friend, unless the friend is written late.
    ///
    /// A client that resumes from a position of that time may not have been sent the friend. An answer waits for two disks for
    /// ``CoreSettings/replicationTimeout``, which is shorter than half of it.
    static let publicationTime: Milliseconds = 6_000

    let user: Owner.Index

    /// Whether the user is sent the statuses of all friends (`friends.autoNotify`).
    func areTold(by owner: borrowing Owner) -> Bool {
        let chain = owner.policies.policy(of: owner.users.user(at: user)).chain
        return chain.autoNotifiesFriends && chain.isEnabled
    }

    /// Whether `target` is a friend, and the user is sent the status.
    func isTold(_ target: UserID, by owner: borrowing Owner) -> Bool { areTold(by: owner) && owner.users[user].isFriend(target) }

    /// Adds the friends, and the users who are not friends any more, to a whole list for the gateways.
    func add(to list: inout ListUpdate, of owner: borrowing Owner) {
        addFormer(to: &list, of: owner)
        guard owner.users[user].list(.friend).liveCount > 0, areTold(by: owner) else { return }
        list.added += followed(by: owner)
        let subscriptions = owner.subscriptions(of: user)
        list.profiles.removeAll { !subscriptions.contains($0) }
    }

    /// Adds the users who are not friends any more, and whose statuses the sessions do not follow any more.
    ///
    /// The time is that of a new friend (``followed(by:)``). A client that resumes from an earlier position may hold the view of a friend.
    private func addFormer(to list: inout ListUpdate, of owner: borrowing Owner) {
        let friends = owner.users[user].list(.friend)
        guard friends.tombstonesCount > 0 else { return }
        let (areTold, subscriptions) = (areTold(by: owner), owner.subscriptions(of: user))
        let learnedAt = owner.users[user].lists.learnedAt(.friend)
        list.formerFriends = friends.removals.compactMap { key, version in
            let friend = UserID(key, besides: list.user)
            guard key != Row.lateMark, !subscriptions.contains(friend) else { return nil }
            // Without `friends.autoNotify` the sessions followed friends by subscriptions alone.
            guard areTold || !subscriptions.tombstones(of: [friend]).isEmpty else { return nil }
            return ListUpdate.Followed(friend: friend, since: max(learnedAt, version.milliseconds + Self.publicationTime))
        }
    }

    /// The friends without a subscription; sorted.
    private func followed(by owner: borrowing Owner) -> [ListUpdate.Followed] {
        let (id, friends) = (owner.users.user(at: user), owner.users[user].list(.friend))
        let allowedAt = owner.policies.changedAt(for: id)
        let since = max(allowedAt, owner.users[user].lists.learnedAt(.friend))
        let subscriptions = owner.subscriptions(of: user)
        return friends.live.compactMap { key, version in
            let friend = UserID(key, besides: id)
            guard !subscriptions.contains(friend) else { return nil }
            return ListUpdate.Followed(friend: friend, since: max(since, version.milliseconds + Self.publicationTime))
        }
    }

    /// The time at which a new friend, or the end of a friendship, is written, if that is long after the decision; nil if it is not.
    ///
    /// The row has the version of the decision, which may have waited for the owner of the other user. Clients have passed it since.
    static func lateness(of row: Row, by owner: borrowing Owner, at now: Now) -> Milliseconds? {
        guard row.kind == .friend, !row.isUnseen, case let time = owner.knownSince(at: now) else { return nil }
        return time > row.version.milliseconds + publicationTime / 2 ? time : nil
    }

    // MARK: Subscriptions to friends

    /// Ends subscriptions to users who are not friends any more (R3), if the changes have removed friends.
    ///
    /// A replica may lack other friends, and leaves that to the owner.
    func endNonFriends(after changes: [ChainRules.Change], by owner: inout Owner, in turn: inout Turn) {
        guard changes.contains(where: { $0.kind == .friend && $0.fact == nil }), !owner.users[user].isReplica else { return }
        endNonFriends(by: &owner, in: &turn)
        ProfileFollows(user: user).endNonFriends(by: &owner, in: &turn)
    }

    /// Ends subscriptions to users who are not friends any more (R3).
    func endNonFriends(by owner: inout Owner, in turn: inout Turn) {
        let ended = owner.users[user].subscriptionsToNonFriends
        guard !ended.isEmpty else { return }
        let version = owner.clock.next(at: turn.now.wall)
        let inactive = SubscriptionQuota(user: user).inactive(of: owner)
        owner.drop(owner.users.modify(user) { $0.subscriptions.remove(ended, version: version) }, of: user, into: &turn.outbox)
        SubscriptionQuota(user: user).sendActivity(inactiveBefore: inactive, by: &owner, in: &turn)
    }

    /// Schedules the end of subscriptions to users who are not friends, as in ``Owner/repairQuotaLater(_:at:)``: a replica may know the
    /// friendship.
    func repairLater(by owner: inout Owner, at now: Now) {
        guard !owner.users[user].subscriptionsToNonFriends.isEmpty else { return }
        let due = now.instant + owner.settings.takeoverTimeout
        owner.users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// Schedules the end of subscriptions that a row of another node does not allow.
    func repairLater(after row: Row, by owner: inout Owner, at now: Now) {
        guard !owner.users[user].isReplica else { return }
        ProfileFollows(user: user).repairLater(after: row, by: &owner, at: now)
        if row.kind == .friend, row.value == nil { repairLater(by: &owner, at: now) }
    }
}

extension OwnedUser {
    /// Whether a user is in the friend list.
    func isFriend(_ user: UserID) -> Bool { list(.friend).contains(String(user.id)) }

    /// The targets of subscriptions of type 3 that are not friends of the user.
    fileprivate var subscriptionsToNonFriends: [UserID] {
        let friends = list(.friend)
        return subscriptions.entries.filter {
            !$0.isRemoved && $0.subscribeType == Subscription.friendOnlineStatus && !friends.contains(String($0.target.id))
        }.map(\.target)
    }
}
