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

    /// Prepares a change that waited for the disk for the gateways. Returns the part that still holds.
    ///
    /// The list may have changed meanwhile, and the later change was sent.
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

    /// Ends the subscriptions that have expired (N6). Sessions receive no notice (R12), unless the policy wants it.
    mutating func expireSubscriptions(_ user: Index, at now: Now, into outbox: inout Outbox) {
        guard let expiry = users[user].subscriptions.nextExpiry, expiry <= now.wall else { return }
        let version = clock.next(at: now.wall)
        let notifies = policies.policy(of: users.user(at: user)).notifiesExpiry
        let expired = users.modify(user) { $0.subscriptions.expire(at: now.wall, version: version) }
        drop(expired, of: user, hasExpired: notifies, into: &outbox)
    }

    /// Merges subscriptions of another owner, and sends the list to the gateways if one was newer. Returns whether one was.
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

    /// Schedules the cut of a list beyond its quota.
    ///
    /// Two replicas may each have known a part of it. Another part may still arrive, and remove some of the list.
    mutating func repairQuotaLater(_ user: Index, at now: Now) {
        guard users[user].subscriptions.liveCount > subscriptionsMax(of: user) else { return }
        let due = now.instant + settings.takeoverTimeout
        users.modify(user) { $0.repairDueAt = due }
    }

    /// Removes the subscriptions that may not be in a list, a while after its last part has arrived.
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

    /// Sends the ended subscriptions to the sessions, and writes the tombstones.
    ///
    /// - Parameters:
    ///   - session: the calling session; nil for a change that no session made.
    ///   - hasExpired: whether they have expired and the sessions receive a notice.
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

    /// Names the calling session, so that the user's other devices receive the change (R14). If it is unknown, the only session made the
    /// call.
    private func name(_ session: SessionID?, in interest: inout Interest, of user: Index) {
        let sessions = users[user].sessions
        let session = session ?? (sessions.count == 1 ? sessions[0].id : nil)
        interest.asker = session
        interest.isNews = !(interest.added.isEmpty && interest.unfollowed.isEmpty) && sessions.contains { $0.id != session }
    }

    /// A change of the list for the gateways.
    ///
    /// - Parameter session: the calling session; nil for a change that no session made.
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
    /// The subscription with the time at which this node learned of it. A client that resumes from an earlier position has not received the
    /// target.
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
