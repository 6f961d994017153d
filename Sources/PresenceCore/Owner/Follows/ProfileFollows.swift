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
}
