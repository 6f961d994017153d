import PresenceWire

/// Removes users who have been away for long and of whom nothing of value is kept (`users.forgetAfter`).
///
/// The owner writes a blank record, which is the tombstone of the user: it replaces what other nodes hold, as any newer record does. All that
/// keep it forget it ``CoreSettings/blankHorizon`` after its version, by the wall clock. A blank record says what is true of a user of whom
/// nothing is known, and nothing is lost with it.
struct UserRemoval {
    /// The next place to look at.
    private var place: OwnerShards.Index = 0

    /// The users among the next `countMax` places that may be removed if nobody follows them.
    mutating func next(of owner: OwnerShards, countMax: Int, at now: Now) -> [UserID] {
        let places = owner.users.places
        guard !places.isEmpty else { return [] }
        var found: [UserID] = []
        for _ in 0..<min(countMax, places.count) {
            if place >= places.endIndex { place = 0 }
            if Self.isRemovable(place, of: owner, at: now) { found.append(owner.users.user(at: place)) }
            place += 1
        }
        return found
    }

    /// Nobody follows the user, as all nodes have said: removes it, unless something has changed meanwhile.
    static func remove(_ id: UserID, from owner: inout OwnerShards, at now: Now, into outbox: inout Outbox) {
        guard let user = owner.users.index(of: id), isRemovable(user, of: owner, at: now) else { return }
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
    private static func isRemovable(_ user: OwnerShards.Index, of owner: OwnerShards, at now: Now) -> Bool {
        guard owner.users.isLive(user), !owner.users[user].isReplica, owner.users[user].watchers.isEmpty else { return false }
        guard owner.users[user].isWorthless else { return false }
        let policy = owner.policies.policy(of: owner.users.user(at: user))
        guard policy.removesUsers else { return false }
        return owner.users[user].lastChange + policy.forgetAfterSeconds * 1_000 <= now.wall
    }
}

extension OwnedUser {
    /// When something of the user expires next, by the wall clock: a tombstone of its list or, because it is blank, all of it.
    func nextExpiry(blankHorizon: Milliseconds) -> Milliseconds { min(subscriptions.forgetsAt, blankEnd(horizon: blankHorizon)) }

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
        guard sessions.isEmpty, record.statusType != .online, doubtDeadline == nil, subscriptions.liveCount == 0 else { return false }
        guard untoldCount == 0, keptBeforeRule.isEmpty else { return false }
        let isRemoved = record.isBlank && (record.version > .zero || subscriptions.isEmpty)
        return !isRemoved && record.customStatus.isEmpty && !record.hasEvents && !record.hasPrivacy && !record.isRegistered
    }
}
