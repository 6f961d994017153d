import PresenceWire

/// The ends of one user's subscriptions of a kind: by their expiry, by the end of a friendship, and by the repair of a list.
struct SubscriptionEnds {
    let user: Owner.Index
    let kind: SubscriptionKind

    private var quota: SubscriptionQuota { SubscriptionQuota(user: user, kind: kind) }

    /// Ends subscriptions: writes the tombstones, and sends the change to the sessions.
    ///
    /// - Parameters:
    ///   - origin: the calling session; nil for a change that no call made.
    ///   - hasExpired: whether they have expired and the sessions receive a notice.
    func end(
        _ ended: [Subscription], by origin: OriginSession? = nil, hasExpired: Bool = false, of owner: inout Owner, in turn: inout Turn
    ) {
        guard !ended.isEmpty else { return }
        let inactive = quota.inactive(of: owner)
        let version = owner.nextVersion(at: turn.now)
        switch kind {
        case .status:
            let removed = owner.modify(user) { $0.subscriptions.remove(ended.map(\.target), version: version) }
            turn.outbox.rows += removed.map { Row($0, of: owner.users.user(at: user)) }
        case .profile:
            let changes = ended.map { ChainRules.Change.remove(.profileSubscription, String($0.target.id)) }
            owner.write(changes, of: user, decidedAt: version, in: &turn)
        }
        quota.sendEnd(of: ended, by: origin, hasExpired: hasExpired, from: &owner, into: &turn.outbox)
        quota.sendActivity(inactiveBefore: inactive, by: &owner, in: &turn)
    }

    /// Ends the subscriptions that have expired (N6). Sessions receive no notice (R12), unless the policy wants it.
    func expire(by owner: inout Owner, in turn: inout Turn) {
        let wall = turn.now.wall
        let next = kind == .status ? owner.users[user].subscriptions.nextExpiry ?? .max : owner.users[user].lists.endsNext
        guard next <= wall else { return }
        let expired = quota.all(of: owner.users[user]).expired(at: wall)
        let notifies = owner.policies.policy(of: owner.users.user(at: user)).notifiesExpiry
        end(expired, hasExpired: notifies, of: &owner, in: &turn)
        if kind == .profile { owner.modifyLists(user) { $0.updateEnds() } }
    }

    // MARK: Friends

    /// Ends subscriptions to users who are not friends any more (R3), if the changes have removed friends.
    ///
    /// A replica may lack other friends, and leaves that to the owner.
    static func endNonFriends(
        of user: Owner.Index, after changes: [ChainRules.Change], by owner: inout Owner, in turn: inout Turn
    ) {
        guard changes.contains(where: { $0.kind == .friend && $0.fact == nil }), !owner.users[user].isReplica else { return }
        for kind in SubscriptionKind.allCases { SubscriptionEnds(user: user, kind: kind).endNonFriends(by: &owner, in: &turn) }
    }

    /// Ends subscriptions to users who are not friends any more (R3).
    func endNonFriends(by owner: inout Owner, in turn: inout Turn) { end(toNonFriends(of: owner), of: &owner, in: &turn) }

    /// The subscriptions for friends whose targets are not friends of the user.
    private func toNonFriends(of owner: borrowing Owner) -> [Subscription] {
        guard quota.liveCount(of: owner.users[user]) > 0 else { return [] }
        let friends = owner.users[user].list(.friend)
        return quota.all(of: owner.users[user]).entries.filter {
            !$0.isRemoved && Subscription.isForFriends($0.subscribeType) && !friends.contains(String($0.target.id))
        }
    }

    // MARK: Repair

    /// Schedules the end of subscriptions that a row of another node does not allow.
    ///
    /// Two sides of a split may each have known a part of the lists.
    static func repairLater(of user: Owner.Index, after row: Row, by owner: inout Owner, at now: Now) {
        guard !owner.users[user].isReplica else { return }
        if row.kind == .profileSubscription || row.kind == .friend {
            SubscriptionEnds(user: user, kind: .profile).repairLater(by: &owner, at: now)
        }
        if row.kind == .friend, row.value == nil { SubscriptionEnds(user: user, kind: .status).repairLater(by: &owner, at: now) }
    }

    /// Schedules the end of subscriptions to users who are not friends, as in ``Owner/repairQuotaLater(_:at:)``: a replica may know the
    /// friendship.
    func repairLater(by owner: inout Owner, at now: Now) {
        let isTooLong = kind == .profile && quota.liveCount(of: owner.users[user]) > Limits.subscriptionsMax
        if isTooLong || !toNonFriends(of: owner).isEmpty { owner.repairLater(user, at: now) }
    }

    /// Ends the earliest subscriptions of a list that is longer than any quota.
    func endSurplus(by owner: inout Owner, in turn: inout Turn) {
        let surplus = quota.inactive(beyond: Limits.subscriptionsMax, of: owner)
        if kind == .status { owner.count { $0.evictions += UInt64(surplus.count) } }
        end(surplus, of: &owner, in: &turn)
    }
}

extension Subscription {
    /// Whether the subscriptions of a type end with the friendship (R3).
    static func isForFriends(_ type: UInt8) -> Bool { type == friendOnlineStatus || type == ProfileSubscription.friendProfile }
}
