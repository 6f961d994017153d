import PresenceWire

/// Friends of whom a user is told without having subscribed (T28, `friends.autoNotify`). The relationship chain says who they are
/// (``PresenceWire/Visibility/Change``); they take no place in the user's list, and a subscription to one of them is another matter (T27),
/// also one of type 3, which lasts no longer than the friendship (R3).
extension OwnerShards {
    /// Whom the user is told of because they are friends, sorted.
    func friends(toldTo user: Index) -> [UserID] {
        guard let privacy = users[user].record.privacy, policies.policy(of: users.user(at: user)).autoNotifiesFriends else { return [] }
        return privacy.visibility.friends
    }

    /// All whom a user is told of, as far as it is known here.
    func list(of id: UserID) -> Interest {
        let user = index(ofKnown: id)
        var interest = Interest(whole: user.map { users[$0].subscriptions } ?? Subscriptions(), of: id)
        interest.mayLackSome = isUnheard
        interest.mark = user.map { users[$0].listMark } ?? 0
        guard let user else { return interest }
        if isUnheard { interest.removed = forgotten(users[user].subscriptions.tombstones(of: nil).map(\.target), by: user) }
        guard let privacy = users[user].record.privacy else { return interest }
        // Not the version of the rule, which another side of a split may have raised for its faces: of two lists the one would be taken for
        // the older that has the newer rule (seed 666584).
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

    /// Those of `targets` who are no friends of the user.
    func strangers(among targets: [OwnerOperation.Target], to id: UserID) -> [UserID] {
        let friends = index(ofKnown: id).flatMap { users[$0].record.privacy?.visibility.friends } ?? []
        return targets.map(\.user).filter { !friends.contains($0) }
    }

    /// Why a whole `subscribe` of type 3 is refused because of `strangers`, if it is (T37).
    func refusal(of strangers: [UserID], to id: UserID) -> Refusal? {
        strangers.isEmpty || policies.policy(of: id).errorShape != .wholeCall ? nil : .noFriends(strangers)
    }

    /// Who is followed by oneself stays so when followed as a friend: the end of the friendship does not end that.
    func type(of target: UserID, for user: Index, asked: UInt8) -> UInt8 {
        min(users[user].subscriptions.entry(for: target)?.subscribeType ?? asked, asked)
    }

    /// Subscriptions to friends end with the friendship (R3).
    mutating func endFriendships(of user: Index, at now: Now, into outbox: inout Outbox) {
        let ended = subscriptionsToStrangers(of: user)
        guard !ended.isEmpty else { return }
        let version = clock.next(at: now.wall)
        drop(users.modify(user) { $0.subscriptions.remove(ended, version: version) }, of: user, into: &outbox)
    }

    /// As ``noteSurplus(_:at:)``: who is a friend may be what another part tells.
    mutating func noteStrangers(_ user: Index, at now: Now) {
        guard !subscriptionsToStrangers(of: user).isEmpty else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    private func subscriptionsToStrangers(of user: Index) -> [UserID] {
        let friends = users[user].record.privacy?.visibility.friends ?? []
        return users[user].subscriptions.entries.filter {
            !$0.isRemoved && $0.subscribeType == Subscription.friendOnlineStatus && !friends.contains($0.target)
        }.map(\.target)
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

    /// Whether the relationship chain knows friends of the user.
    func hasFriends(_ user: Index) -> Bool { users[user].record.privacy?.visibility.friends.isEmpty == false }
}
