import PresenceWire

/// Friends of whom a user is told without having subscribed (T28, `friends.autoNotify`). The relationship chain says who they are
/// (``PresenceWire/Visibility/Change``); they take no place in the user's list, and a subscription to one of them is another matter (T27),
/// also one of type 3, which lasts no longer than the friendship (R3).
extension OwnerShards {
    /// Friends of whom the user is told without having subscribed, sorted.
    func friends(toldTo user: Index) -> [UserID] {
        guard users[user].record.hasPrivacy, policies.policy(of: users.user(at: user)).autoNotifiesFriends else { return [] }
        return users[user].friends
    }

    /// All whom a user is told of, as far as it is known here.
    func list(of id: UserID) -> Interest {
        let user = index(ofKnown: id)
        var interest = Interest(whole: user.map { users[$0].subscriptions } ?? Subscriptions(), of: id)
        interest.mayLackSome = isUnheard
        guard let user else { return interest }
        interest.mark = users[user].listMark
        if isUnheard { interest.removed = forgotten(users[user].subscriptions.tombstones(of: nil).map(\.target), by: user) }
        guard let privacy = users[user].record.privacy else { return interest }
        // Not the version of the rule, which another side of a split may have raised for its faces: of two lists the one would be taken for
        // the older that has the newer rule.
        interest.version = max(interest.version, privacy.writtenAt)
        let allowedAt = policies.entry(String(id.app))?.version ?? .zero
        let since = max(privacy.version, allowedAt).milliseconds
        for friend in friends(toldTo: user) where users[user].subscriptions.entry(for: friend) == nil {
            interest.added.append(Interest.Followed(target: friend, told: .zero, since: since, subscribeType: 0))
        }
        return interest
    }

    /// Those of `removed`, to whom a subscription has ended, of whom the user is told nothing any more.
    func forgotten(_ removed: [UserID], by user: Index) -> [UserID] {
        let friends = friends(toldTo: user)
        return friends.isEmpty ? removed : removed.filter { !friends.contains($0) }
    }

    /// Subscriptions to friends end with the friendship (R3).
    mutating func endFriendships(of user: Index, at now: Now, into outbox: inout Outbox) {
        let ended = users[user].subscriptionsToNonFriends
        guard !ended.isEmpty else { return }
        let version = clock.next(at: now.wall)
        drop(users.modify(user) { $0.subscriptions.remove(ended, version: version) }, of: user, into: &outbox)
    }

    /// As ``noteSurplus(_:at:)``: who is a friend may be what another part tells.
    mutating func noteStrangers(_ user: Index, at now: Now) {
        guard !users[user].subscriptionsToNonFriends.isEmpty else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// What another node knows of the user's friends is newer.
    mutating func friendsChanged(of user: Index, at now: Now, into outbox: inout Outbox) {
        noteStrangers(user, at: now)
        oweList(of: user, into: &outbox)
    }

    /// The user's friends are others now, or their app's policy is another: the nodes with sessions get the whole list.
    mutating func oweList(of user: Index, into outbox: inout Outbox) {
        users.modify(user) { $0.listMark = StableHash.mix($0.listMark, 1) }
        for peer in users[user].sessionPeers { outbox.lists.append((peer, users.user(at: user))) }
    }

    /// What all others hold has been heard after all: the lists that were told until now may have lacked some.
    mutating func noteHeard(into outbox: inout Outbox) {
        guard isUnheard else { return }
        isUnheard = false
        for user in users.places where users.isLive(user) && !users[user].isReplica { oweList(of: user, into: &outbox) }
    }
}

extension OwnedUser {
    /// The user's friends by the relationship chain, sorted.
    var friends: [UserID] { record.privacy?.visibility.friends ?? [] }

    /// Targets of subscriptions of type 3 that are not friends of the user.
    fileprivate var subscriptionsToNonFriends: [UserID] {
        let friends = friends
        return subscriptions.entries.filter {
            !$0.isRemoved && $0.subscribeType == Subscription.friendOnlineStatus && !friends.contains($0.target)
        }.map(\.target)
    }
}
