import PresenceWire

/// The users whose status a user receives: those of the subscriptions, and friends without one (T28, `friends.autoNotify`).
///
/// The rows of the relationship chain say who the friends are. They take no place in the user's list. A subscription to a friend is
/// another matter (T27). A subscription of type 3 ends with the friendship (R3).
extension Owner {
    /// All users whose status a user receives, as far as this node knows.
    func list(of id: UserID) -> ListUpdate {
        let user = index(ofKnown: id)
        var listUpdate = ListUpdate(whole: user.map { self.subscriptions(of: $0) } ?? Subscriptions(), of: id)
        listUpdate.mayBeIncomplete = listsMayBeIncomplete
        listUpdate.notices = [RelationshipNotice(.state, user.map { users[$0].relationship } ?? RelationshipState())]
        guard let user else { return listUpdate }
        listUpdate.version = max(listUpdate.version, users[user].followsVersion)
        listUpdate.listHash = users[user].listHash
        listUpdate.sessions = users[user].sessionsToTell
        let subscriptions = self.subscriptions(of: user)
        if listsMayBeIncomplete {
            let ended = (subscriptions.tombstones(of: nil) + SubscriptionQuota(user: user).inactive(of: self)).map(\.target)
            let formerFriends = users[user].list(.friend).removedKeys.filter { $0 != Row.lateMark }.map { UserID($0, besides: id) }
            listUpdate.removed = droppedTargets(ended + formerFriends.filter { !subscriptions.contains($0) }, by: user)
        }
        ProfileFollows(user: user).add(to: &listUpdate, of: self)
        FriendFollows(user: user).add(to: &listUpdate, of: self)
        return listUpdate
    }

    /// The targets of ended subscriptions whose status the user does not receive any more.
    func droppedTargets(_ removed: [UserID], by user: Index) -> [UserID] {
        guard !removed.isEmpty, FriendFollows(user: user).areTold(by: self) else { return removed }
        return removed.filter { !users[user].isFriend($0) }
    }

    /// Sends the whole list to the nodes with sessions, because the user's friends or the app's policy have changed.
    mutating func queueList(of user: Index, into outbox: inout Outbox) {
        modify(user) { $0.listHash = StableHash.mix($0.listHash, 1) }
        for peer in users[user].sessionPeers { outbox.lists.append((peer, users.user(at: user))) }
    }
}
