import PresenceWire

/// Friends of whom a user is told without having subscribed (T28, `friends.autoNotify`). The relationship chain says who they are
/// (``PresenceWire/Visibility/Change``); they take no place in the user's list, and a subscription to one of them is another matter (T27).
extension OwnerShards {
    /// Whom the user is told of because they are friends, sorted.
    func friends(toldTo user: Index) -> [UserID] {
        guard let privacy = users[user].record.privacy, policies.policy(of: users.user(at: user)).autoNotifiesFriends else { return [] }
        return privacy.visibility.friends
    }

    /// All whom a user is told of.
    func list(of id: UserID) -> Interest {
        guard let user = index(ofKnown: id) else { return Interest(whole: Subscriptions(), of: id) }
        var interest = Interest(whole: users[user].subscriptions, of: id)
        guard let privacy = users[user].record.privacy else { return interest }
        interest.version = max(interest.version, privacy.version)
        let allowedAt = policies.entry(String(id.app))?.version ?? .zero
        let since = max(privacy.version, allowedAt).milliseconds
        for friend in friends(toldTo: user) where users[user].subscriptions.entry(for: friend) == nil {
            interest.added.append(Interest.Followed(target: friend, told: .zero, since: since))
        }
        return interest
    }

    /// Those of `removed`, to whom a subscription has ended, of whom the user is told nothing any more.
    func forgotten(_ removed: [UserID], by user: Index) -> [UserID] {
        let friends = friends(toldTo: user)
        return friends.isEmpty ? removed : removed.filter { !friends.contains($0) }
    }

    /// The user's friends are others now, or their app's policy is another: the nodes with sessions get the whole list.
    func oweList(of user: Index, into outbox: inout Outbox) {
        for peer in users[user].sessionPeers { outbox.lists.append((peer, users.user(at: user))) }
    }

    /// Whether the relationship chain knows friends of the user.
    func hasFriends(_ user: Index) -> Bool { users[user].record.privacy?.visibility.friends.isEmpty == false }
}
