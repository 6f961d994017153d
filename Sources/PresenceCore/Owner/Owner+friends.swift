import PresenceWire

/// Friends whose status a user receives without a subscription (T28, `friends.autoNotify`).
///
/// The relationship chain says who they are (``PresenceWire/Visibility/Change``). They take no place in the user's list. A subscription to
/// a friend is another matter (T27). A subscription of type 3 ends with the friendship (R3).
extension Owner {
    /// Friends whose status the user is sent without a subscription, sorted.
    func friends(toldTo user: Index) -> [UserID] {
        guard users[user].record.hasPrivacy, policies.policy(of: users.user(at: user)).chain.autoNotifiesFriends else { return [] }
        return users[user].friends
    }

    /// All users whose status a user receives, as far as this node knows.
    func list(of id: UserID) -> ListUpdate {
        let user = index(ofKnown: id)
        var listUpdate = ListUpdate(whole: user.map { users[$0].subscriptions } ?? Subscriptions(), of: id)
        listUpdate.mayBeIncomplete = listsMayBeIncomplete
        listUpdate.notices = [RelationshipNotice(.state, user.map { users[$0].relationship } ?? RelationshipState())]
        guard let user else { return listUpdate }
        listUpdate.version = max(listUpdate.version, users[user].followsVersion)
        listUpdate.listHash = users[user].listHash
        if listsMayBeIncomplete {
            listUpdate.removed = droppedTargets(users[user].subscriptions.tombstones(of: nil).map(\.target), by: user)
        }
        ProfileFollows(user: user).add(to: &listUpdate, of: self)
        guard let privacy = users[user].record.privacy else { return listUpdate }
        // The version of the visibility does not serve: another side of a split may have raised it for its hidden views. The list with the
        // newer visibility would then count as the older one.
        listUpdate.version = max(listUpdate.version, privacy.writtenAt)
        let allowedAt = policies.entry(String(id.app))?.version ?? .zero
        let since = max(privacy.version, allowedAt).milliseconds
        for friend in friends(toldTo: user) where users[user].subscriptions.entry(for: friend) == nil {
            listUpdate.added.append(ListUpdate.Followed(target: friend, delivered: .version(.zero), since: since, subscribeType: 0))
        }
        return listUpdate
    }

    /// The targets of ended subscriptions whose status the user does not receive any more.
    func droppedTargets(_ removed: [UserID], by user: Index) -> [UserID] {
        let friends = friends(toldTo: user)
        return friends.isEmpty ? removed : removed.filter { !friends.contains($0) }
    }

    /// Ends subscriptions to users who are not friends any more (R3).
    mutating func endFriendships(of user: Index, at now: Now, into outbox: inout Outbox) {
        let ended = users[user].subscriptionsToNonFriends
        guard !ended.isEmpty else { return }
        let version = clock.next(at: now.wall)
        drop(users.modify(user) { $0.subscriptions.remove(ended, version: version) }, of: user, into: &outbox)
    }

    /// Schedules the end of subscriptions to users who are not friends, as in ``repairQuotaLater(_:at:)``: a replica may know the
    /// friendship.
    mutating func repairFriendsLater(_ user: Index, at now: Now) {
        guard !users[user].subscriptionsToNonFriends.isEmpty else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// Handles newer friends of the user that another node knew.
    mutating func friendsChanged(of user: Index, at now: Now, into outbox: inout Outbox) {
        repairFriendsLater(user, at: now)
        queueList(of: user, into: &outbox)
    }

    /// Sends the whole list to the nodes with sessions, because the user's friends or the app's policy have changed.
    mutating func queueList(of user: Index, into outbox: inout Outbox) {
        users.modify(user) { $0.listHash = StableHash.mix($0.listHash, 1) }
        for peer in users[user].sessionPeers { outbox.lists.append((peer, users.user(at: user))) }
    }

    /// Records that this node has the facts of all other replicas. The lists that it sent until now may have lacked subscriptions.
    mutating func listsBecameComplete(into outbox: inout Outbox) {
        guard listsMayBeIncomplete else { return }
        listsMayBeIncomplete = false
        for user in users.allIndices where users.isLive(user) && !users[user].isReplica { queueList(of: user, into: &outbox) }
    }
}

extension OwnedUser {
    /// The user's friends by the relationship chain, sorted.
    var friends: [UserID] { record.privacy?.visibility.friends ?? [] }

    /// The targets of subscriptions of type 3 that are not friends of the user.
    fileprivate var subscriptionsToNonFriends: [UserID] {
        let friends = friends
        return subscriptions.entries.filter {
            !$0.isRemoved && $0.subscribeType == Subscription.friendOnlineStatus && !friends.contains($0.target)
        }.map(\.target)
    }
}
