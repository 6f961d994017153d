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

/// The quota of one user, which tells the sessions which subscriptions become active or inactive.
struct SubscriptionQuota {
    let user: Owner.Index

    /// The active subscriptions to profiles.
    func activeProfiles(of owner: borrowing Owner) -> Subscriptions {
        owner.users[user].profileSubscriptions.active(within: owner.subscriptionsMax(of: user))
    }

    /// The inactive subscriptions to statuses, the earliest first.
    func inactive(of owner: borrowing Owner) -> [Subscription] {
        owner.users[user].subscriptions.inactive(beyond: owner.subscriptionsMax(of: user))
    }

    /// The inactive subscriptions to profiles, the earliest first.
    func inactiveProfiles(of owner: borrowing Owner) -> [Subscription] {
        owner.users[user].inactiveProfileSubscriptions(beyond: owner.subscriptionsMax(of: user))
    }

    /// Ends the earliest subscriptions until `countMax` are left besides the `inactive` ones. Returns their tombstones.
    func evict(downTo countMax: Int, besides inactive: Set<UserID> = [], version: Version, from owner: inout Owner) -> [Subscription] {
        let evicted = owner.users.modify(user) { $0.subscriptions.evict(downTo: countMax, besides: inactive, version: version) }
        owner.counters.evictions += UInt64(evicted.count)
        return evicted
    }

    /// Has the sessions follow the subscriptions that are active by the new quota, and no others.
    func changed(from old: Policy, by owner: inout Owner, at now: Now, into outbox: inout Outbox) {
        let quota = Int(old.subscriptionsMax)
        let inactive = owner.users[user].subscriptions.inactive(beyond: quota)
        let inactiveProfiles = owner.users[user].inactiveProfileSubscriptions(beyond: quota)
        sendActivity(inactiveBefore: inactive, by: &owner, at: now, into: &outbox)
        sendProfileActivity(inactiveBefore: inactiveProfiles, by: &owner, into: &outbox)
    }

    /// Sends the sessions the subscriptions that have become active or inactive.
    ///
    /// - Parameter before: the subscriptions that were inactive before the list or its quota changed.
    func sendActivity(inactiveBefore before: [Subscription], by owner: inout Owner, at now: Now, into outbox: inout Outbox) {
        let subscriptions = owner.users[user].subscriptions
        let change = ActivityChange(from: before, to: inactive(of: owner)) { subscriptions.contains($0) }
        guard !change.isEmpty else { return }
        // A client that resumes was not sent the changes that the targets made while their subscriptions were inactive.
        let time = owner.knownSince(at: now)
        if !change.begun.isEmpty { owner.users.modify(user) { $0.subscriptions.observeAll(at: time) } }
        let update = owner.change(of: user, added: change.followed(since: time), removed: change.ended, by: .backEnd)
        send(update, by: &owner, into: &outbox)
    }

    /// Sends the sessions the subscriptions to profiles that have become active or inactive.
    ///
    /// - Parameter before: the subscriptions that were inactive before the list or its quota changed.
    func sendProfileActivity(inactiveBefore before: [Subscription], by owner: inout Owner, into outbox: inout Outbox) {
        let list = owner.users[user].list(.profileSubscription)
        let change = ActivityChange(from: before, to: inactiveProfiles(of: owner)) { list.contains(String($0.id)) }
        guard !change.isEmpty else { return }
        let update = ProfileFollows(user: user).change(
            added: change.followed(since: owner.policies.changedAt(for: owner.users.user(at: user))), removed: change.ended, by: .backEnd,
            of: owner)
        send(update, by: &owner, into: &outbox)
    }

    private func send(_ listUpdate: ListUpdate, by owner: inout Owner, into outbox: inout Outbox) {
        owner.users.modify(user) { $0.listHash = listUpdate.listHash(after: $0.listHash) }
        for peer in owner.users[user].sessionPeers { outbox.send(.listUpdate(listUpdate), to: peer) }
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
        inactiveProfiles = Set(SubscriptionQuota(user: user).inactiveProfiles(of: owner).map(\.target))
    }

    /// Whether a subscription to the status of `target` is active.
    func hasStatus(of target: UserID) -> Bool { statuses.contains(target) }

    /// Whether a subscription to the profile of `target` is active.
    func hasProfile(of target: UserID) -> Bool { profiles.contains(String(target.id)) && !inactiveProfiles.contains(target) }

    /// Whether a subscription of the kind of `type` is active.
    func has(_ target: UserID, _ type: UInt8) -> Bool { Subscription.isOfProfile(type) ? hasProfile(of: target) : hasStatus(of: target) }
}
