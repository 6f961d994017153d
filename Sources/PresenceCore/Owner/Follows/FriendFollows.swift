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
}

extension OwnedUser {
    /// Whether a user is in the friend list.
    func isFriend(_ user: UserID) -> Bool { list(.friend).contains(String(user.id)) }
}
