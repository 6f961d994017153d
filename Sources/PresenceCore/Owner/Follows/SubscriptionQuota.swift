import PresenceWire

/// The quota of a user's subscriptions (`subscription.maxPerSubscriber`).
///
/// The newest subscriptions are active, as many as the quota allows. The earlier ones are inactive. They stay in the list, and become
/// active when there is room. The order of the list and the app's policy decide alone, so no row changes with the quota.
extension Owner {
    /// Users that one user may follow.
    func subscriptionsMax(of user: Index) -> Int { Int(policies.policy(of: users.user(at: user)).subscriptionsMax) }

    /// The active subscriptions of a user to statuses.
    func subscriptions(of user: Index) -> Subscriptions { users[user].subscriptions.active(within: subscriptionsMax(of: user)) }
}

/// The two lists of subscriptions that a user has. Each has a quota of its own.
enum SubscriptionKind: CaseIterable {
    /// The subscriptions to statuses.
    case status
    /// The subscriptions to profiles, which are rows of a list.
    case profile
}

/// The quota of one list of a user, which tells the sessions which subscriptions become active or inactive.
struct SubscriptionQuota {
    let user: Owner.Index
    var kind = SubscriptionKind.status

    /// The subscriptions, active or not.
    func all(of user: OwnedUser) -> Subscriptions { kind == .status ? user.subscriptions : user.profileSubscriptions }

    func liveCount(of user: OwnedUser) -> Int {
        kind == .status ? user.subscriptions.liveCount : user.list(.profileSubscription).liveCount
    }

    /// The active subscriptions.
    func active(of owner: borrowing Owner) -> Subscriptions {
        all(of: owner.users[user]).active(within: owner.subscriptionsMax(of: user))
    }

    /// The inactive subscriptions, the earliest first.
    func inactive(of owner: borrowing Owner) -> [Subscription] { inactive(beyond: owner.subscriptionsMax(of: user), of: owner) }

    func inactive(beyond countMax: Int, of owner: borrowing Owner) -> [Subscription] {
        liveCount(of: owner.users[user]) > countMax ? all(of: owner.users[user]).inactive(beyond: countMax) : []
    }

    /// Ends the earliest subscriptions to statuses until `countMax` are left besides the `inactive` ones. Returns their tombstones.
    func evict(downTo countMax: Int, besides inactive: Set<UserID> = [], version: Version, from owner: inout Owner) -> [Subscription] {
        let evicted = owner.modify(user) { $0.subscriptions.evict(downTo: countMax, besides: inactive, version: version) }
        owner.count { $0.evictions += UInt64(evicted.count) }
        return evicted
    }

    /// Has the sessions follow the subscriptions that are active by the new quota, and no others.
    func changed(from old: Policy, by owner: inout Owner, in turn: inout Turn) {
        sendActivity(inactiveBefore: inactive(beyond: Int(old.subscriptionsMax), of: owner), by: &owner, in: &turn)
    }

    /// Sends the sessions the subscriptions that have become active or inactive.
    ///
    /// - Parameter before: the subscriptions that were inactive before the list or its quota changed.
    func sendActivity(inactiveBefore before: [Subscription], by owner: inout Owner, in turn: inout Turn) {
        let (after, held) = (inactive(of: owner), owner.users[user])
        let change = ActivityChange(from: before, to: after) { target in
            kind == .status ? held.subscriptions.contains(target) : held.list(.profileSubscription).contains(String(target.id))
        }
        guard !change.isEmpty else { return }
        // A client that resumes was not sent the changes that the targets made while their subscriptions were inactive.
        let time = kind == .status ? owner.knownSince(at: turn.now) : owner.policies.changedAt(for: owner.users.user(at: user))
        if kind == .status, !change.begun.isEmpty { owner.modify(user) { $0.subscriptions.observeAll(at: time) } }
        let update = self.change(added: change.followed(since: time), removed: change.ended, by: .backEnd, of: owner)
        send(update, by: &owner, into: &turn.outbox)
    }

    /// A change of the subscriptions for the gateways.
    ///
    /// - Parameter origin: the calling session; nil for a change that no call made.
    func change(
        added: [ListUpdate.Followed], removed: [Subscription], by origin: OriginSession?, of owner: borrowing Owner
    ) -> ListUpdate {
        let (held, targets) = (owner.users[user], removed.map(\.target))
        let version = kind == .status ? held.subscriptions.version : held.followsVersion
        var listUpdate = ListUpdate(user: held.record.user, version: version, isWhole: false, added: added, removed: [])
        switch kind {
        case .status: listUpdate.removed = owner.droppedTargets(targets, by: user)
        case .profile: listUpdate.removedProfiles = ProfileFollows(user: user).unfollowed(targets, by: owner)
        }
        listUpdate.unfollowed = removed.map { ListUpdate.Unfollowed(target: $0.target, subscribeType: $0.subscribeType) }
        if let origin { owner.name(origin, in: &listUpdate, of: user) }
        return listUpdate
    }

    /// Sends the ended subscriptions to the sessions.
    ///
    /// - Parameters:
    ///   - origin: the calling session; nil for a change that no call made.
    ///   - hasExpired: whether they have expired and the sessions receive a notice.
    func sendEnd(
        of removed: [Subscription], by origin: OriginSession?, hasExpired: Bool, from owner: inout Owner, into outbox: inout Outbox
    ) {
        var listUpdate = change(added: [], removed: removed, by: origin, of: owner)
        listUpdate.hasExpired = hasExpired
        send(listUpdate, by: &owner, into: &outbox)
    }

    private func send(_ listUpdate: ListUpdate, by owner: inout Owner, into outbox: inout Outbox) {
        owner.modify(user) { $0.listHash = listUpdate.listHash(after: $0.listHash) }
        for peer in owner.users[user].sessionPeers { outbox.send(.listUpdate(listUpdate), to: peer) }
    }

    /// Sends a change that a call has made to the sessions once its rows are on disk.
    func sendWhenStored(_ listUpdate: ListUpdate, by owner: inout Owner, into outbox: inout Outbox) {
        let sessionPeers = owner.users[user].sessionPeers
        outbox.sendWhenStored(listUpdate, to: sessionPeers)
        if !sessionPeers.isEmpty { owner.modify(user) { $0.unpublishedCount += 1 } }
    }
}

/// The subscriptions of one user that have become active or inactive.
private struct ActivityChange {
    /// The subscriptions that are active from now on.
    let begun: [Subscription]
    /// The subscriptions that are inactive from now on.
    let ended: [Subscription]

    var isEmpty: Bool { begun.isEmpty && ended.isEmpty }

    /// - Parameters:
    ///   - before: the inactive subscriptions before the change.
    ///   - after: the inactive subscriptions after it.
    ///   - isInList: whether the list still has a subscription to a target.
    init(from before: [Subscription], to after: [Subscription], isInList: (UserID) -> Bool) {
        let (targetsBefore, targetsAfter) = (Set(before.map(\.target)), Set(after.map(\.target)))
        begun = before.filter { !targetsAfter.contains($0.target) && isInList($0.target) }
        ended = after.filter { !targetsBefore.contains($0.target) }
    }

    func followed(since time: Milliseconds) -> [ListUpdate.Followed] {
        begun.map {
            ListUpdate.Followed(
                target: $0.target, delivered: .nothing, since: max(time, $0.version.milliseconds), subscribeType: $0.subscribeType,
                expiresAt: $0.expiresAt)
        }
    }
}

/// The active subscriptions of one user, to statuses and to profiles.
struct ActiveSubscriptions {
    private let statuses: Subscriptions
    private let profiles: RowList
    private let inactiveProfiles: Set<UserID>

    init(of user: Owner.Index, by owner: borrowing Owner) {
        statuses = owner.subscriptions(of: user)
        profiles = owner.users[user].list(.profileSubscription)
        inactiveProfiles = Set(SubscriptionQuota(user: user, kind: .profile).inactive(of: owner).map(\.target))
    }

    /// Whether a subscription to the status of `target` is active.
    func hasStatus(of target: UserID) -> Bool { statuses.contains(target) }

    /// Whether a subscription to the profile of `target` is active.
    func hasProfile(of target: UserID) -> Bool { profiles.contains(String(target.id)) && !inactiveProfiles.contains(target) }

    /// Whether a subscription of the kind of `type` is active.
    func has(_ target: UserID, _ type: UInt8) -> Bool { Subscription.isOfProfile(type) ? hasProfile(of: target) : hasStatus(of: target) }
}
