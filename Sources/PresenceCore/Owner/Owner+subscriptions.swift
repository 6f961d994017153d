import PresenceWire

/// Changes of the lists of subscriptions that no call asks for, and the messages about all changes.
extension Owner {
    /// Changes that were held back are sent to the gateways now. Those of one user go together, because the list has one mark.
    mutating func noteTold(_ interests: [(peer: PeerIndex, interest: Interest)]) -> [(peer: PeerIndex, interest: Interest)] {
        var last: (peer: PeerIndex, interest: Interest)?
        return interests.map { peer, interest in
            // The peers of one change are in their order.
            let isSame = last.map { $0.peer < peer && $0.interest == interest } ?? false
            if !isSame, let user = index(ofKnown: interest.user) {
                users.modify(user) { user in
                    user.listMark = interest.marked(after: user.listMark)
                    user.unpublishedCount = max(user.unpublishedCount - 1, 0)
                }
            }
            last = (peer, interest)
            return (peer, noteTold(interest))
        }
    }

    /// A change that was held back until it was on disk is sent to the gateways now. Returns the part of it that still holds: the list may
    /// have changed meanwhile, and that was sent.
    mutating func noteTold(_ interest: Interest) -> Interest {
        guard let user = index(ofKnown: interest.user) else { return interest }
        var interest = interest
        interest.added.removeAll { users[user].subscriptions.entry(for: $0.target) == nil }
        interest.removed.removeAll { users[user].subscriptions.entry(for: $0) != nil }
        interest.unfollowed.removeAll { users[user].subscriptions.entry(for: $0.target) != nil }
        interest.removed = forgotten(interest.removed, by: user)  // One of them may be a friend by now.
        let learntAt = max(clock.milliseconds(at: 0), claimedByOthers)
        users.modify(user) { user in
            for followed in interest.added { user.subscriptions.learn(followed.target, at: learntAt) }
        }
        return interest
    }

    /// Ends the subscriptions whose time is up (N6); nobody is notified (R12), unless the policy wants it.
    mutating func expireSubscriptions(_ user: Index, at now: Now, into outbox: inout Outbox) {
        guard let expiry = users[user].subscriptions.nextExpiry, expiry <= now.wall else { return }
        let version = clock.next(at: now.wall)
        let notifies = policies.policy(of: users.user(at: user)).notifiesExpiry
        let expired = users.modify(user) { $0.subscriptions.expire(at: now.wall, version: version) }
        drop(expired, of: user, hasExpired: notifies, into: &outbox)
    }

    /// Merges subscriptions that another owner knew, and sends the list to the gateways if one was newer. Returns whether one was.
    mutating func merge(_ entries: [Subscription], at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        let id = users.user(at: user)
        let learntAt = knownSince(at: now)
        let changed = users.modify(user) { user in entries.filter { user.subscriptions.merge($0.learnt(at: learntAt)) } }
        guard !changed.isEmpty else { return false }
        clock.observe(users[user].subscriptions.version)
        outbox.rows += changed.map { Row($0, of: id) }
        repairQuotaLater(user, at: now)
        repairFriendsLater(user, at: now)
        queueList(of: user, into: &outbox)
        schedule(user, at: now)
        return true
    }

    /// A list that is longer than its quota is cut a while later. Two replicas may each have known a part of it.
    ///
    /// Another part may still come, and remove some of the list.
    mutating func repairQuotaLater(_ user: Index, at now: Now) {
        guard users[user].subscriptions.liveCount > subscriptionsMax(of: user) else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = due }
    }

    /// Cuts a list to what may be in it, a while after its last part has come.
    mutating func repairList(of user: Index, at now: Now, into outbox: inout Outbox) {
        endFriendships(of: user, at: now, into: &outbox)
        guard users[user].subscriptions.liveCount > subscriptionsMax(of: user) else { return }
        let evicted = evict(downTo: subscriptionsMax(of: user), from: user, version: clock.next(at: now.wall))
        drop(evicted, of: user, into: &outbox)
    }

    /// Ends the earliest subscriptions until `countMax` are left. Returns their tombstones.
    mutating func evict(downTo countMax: Int, from user: Index, version: Version) -> [Subscription] {
        let evicted = users.modify(user) { $0.subscriptions.evict(downTo: countMax, version: version) }
        counters.evictions += UInt64(evicted.count)
        return evicted
    }

    /// Sends the sessions what of the list has ended, and writes the tombstones.
    ///
    /// - Parameters:
    ///   - session: the session that asked; nil for a change that no session asked for.
    ///   - hasExpired: their time was up, and the sessions are notified.
    mutating func drop(
        _ removed: [Subscription], of user: Index, by session: SessionID?? = nil, hasExpired: Bool = false, into outbox: inout Outbox
    ) {
        guard !removed.isEmpty else { return }
        var interest = change(of: user, added: [], removed: removed, by: session)
        interest.hasExpired = hasExpired
        users.modify(user) { $0.listMark = interest.marked(after: $0.listMark) }
        for peer in users[user].sessionPeers { outbox.send(.interest(interest), to: peer) }
        outbox.rows += removed.map { Row($0, of: users.user(at: user)) }
    }

    /// The user's other devices are notified of the call (R14). If the session that asked is not known, the only session did.
    private func name(_ session: SessionID?, in interest: inout Interest, of user: Index) {
        let sessions = users[user].sessions
        let session = session ?? (sessions.count == 1 ? sessions[0].id : nil)
        interest.asker = session
        interest.isNews = !(interest.added.isEmpty && interest.unfollowed.isEmpty) && sessions.contains { $0.id != session }
    }

    /// A change of the list, as the gateways are sent it.
    ///
    /// - Parameter session: the session that asked; nil for a change that no session asked for.
    func change(of user: Index, added: [Interest.Followed], removed: [Subscription], by session: SessionID??) -> Interest {
        var interest = Interest(
            user: users.user(at: user), version: users[user].subscriptions.version, isWhole: false, added: added,
            removed: forgotten(removed.map(\.target), by: user))
        interest.unfollowed = removed.map { Interest.Unfollowed(target: $0.target, subscribeType: $0.subscribeType) }
        if let session { name(session, in: &interest, of: user) }
        return interest
    }
}

extension Subscription {
    /// The same, learnt of when the node's version clock showed `time`. A client that resumes from an earlier time was not sent the target.
    func learnt(at time: Milliseconds) -> Subscription {
        var learnt = self
        learnt.learntAt = time
        return learnt
    }
}

extension Interest {
    /// The whole list of `user`.
    init(whole subscriptions: Subscriptions, of user: UserID) {
        let added = subscriptions.live.map {
            Followed(
                target: $0.target, told: .zero, since: max($0.version.milliseconds, $0.learntAt), subscribeType: $0.subscribeType,
                expiresAt: $0.expiresAt)
        }
        self.init(user: user, version: subscriptions.version, isWhole: true, added: added, removed: [])
    }
}
