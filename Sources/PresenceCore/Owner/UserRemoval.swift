import PresenceWire

/// Removes users who have been away for long and of whom nothing of value is kept (`users.forgetAfter`).
///
/// The owner writes a blank record, which is the tombstone of the user: as any newer record it replaces those of other nodes. All replicas
/// remove it ``CoreSettings/blankHorizon`` after its version, by the wall clock. A blank record says what is true of an unknown user, and
/// nothing is lost with it.
struct UserRemoval {
    /// The next place to look at.
    private var place: UserStore.Index = 0

    /// The users among the next `countMax` places that may be removed if they have no followers.
    mutating func next(of users: UserStore, _ policies: Policies, countMax: Int, at now: Now) -> [UserID] {
        let places = users.places
        guard !places.isEmpty else { return [] }
        var found: [UserID] = []
        for _ in 0..<min(countMax, places.count) {
            if place >= places.endIndex { place = 0 }
            if Self.isRemovable(place, of: users, policies, at: now) { found.append(users.user(at: place)) }
            place += 1
        }
        return found
    }

    /// Removes a user who has no followers, as all nodes have said, unless something has changed meanwhile.
    static func remove(_ id: UserID, from owner: inout Owner, at now: Now, into outbox: inout Outbox) {
        guard let user = owner.users.index(of: id), isRemovable(user, of: owner.users, owner.policies, at: now) else { return }
        let old = owner.users[user].record
        var record = Record(blank: id)
        record.version = owner.clock.next(at: now.wall)
        // An older row that comes late is newer in nothing.
        (record.customStatusVersion, record.events) = (old.customStatusVersion, old.events)
        record.knownSince = owner.knownSince(ofNew: record)
        owner.users.modify(user) { ($0.record, $0.lastSeenTime) = (record, 0) }
        outbox.rows.append(Row(record))
    }

    /// This node decides about the user, nothing of value is kept of it, and that has been so for long enough.
    private static func isRemovable(_ user: UserStore.Index, of users: UserStore, _ policies: Policies, at now: Now) -> Bool {
        guard users.isLive(user), !users[user].isReplica, users[user].watchers.isEmpty, users[user].isWorthless else { return false }
        let policy = policies.policy(of: users.user(at: user))
        guard policy.removesUsers else { return false }
        return users[user].lastChange + policy.forgetAfterSeconds * 1_000 <= now.wall
    }
}

extension OwnedUser {
    /// When something of the user expires next, by the wall clock: a tombstone of its list or, because it is blank, all of it.
    func nextExpiry(blankHorizon: Milliseconds) -> Milliseconds { min(subscriptions.expiresNext, blankEnd(horizon: blankHorizon)) }

    /// When all that is kept of the user is removed, because its record is blank; `.max` for never.
    func blankEnd(horizon: Milliseconds) -> Milliseconds {
        guard record.lastUpdateTime == 0, record.isBlank, record.version > .zero, subscriptions.liveCount == 0 else { return .max }
        return max(record.version, subscriptions.version).milliseconds + horizon
    }

    /// The last change of anything that is kept of the user, and the last proof of life. A version is not enough: a restart gives new ones.
    fileprivate var lastChange: Milliseconds {
        max(record.lastUpdateTime, record.lastSeenTime, lastSeenTime, subscriptions.version.milliseconds)
    }

    /// The user has no session, and nothing of value is kept of it: no custom status, event in force, subscription, rule of who may see it,
    /// device that push reaches or registration. It is not removed already.
    fileprivate var isWorthless: Bool {
        guard sessions.isEmpty, record.statusType != .online, subscriptions.liveCount == 0 else { return false }
        guard confirmationDeadline == nil, unpublishedCount == 0, keptBeforeRule.isEmpty else { return false }
        let isRemoved = record.isBlank && (record.version > .zero || subscriptions.isEmpty)
        return !isRemoved && record.customStatus.isEmpty && !record.hasEvents && !record.hasPrivacy && !record.isRegistered
    }
}
