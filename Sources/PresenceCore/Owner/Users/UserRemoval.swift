import PresenceWire

/// Finds and removes users who have been away for long and keep nothing of value (`users.forgetAfter`; <doc:BlankRecords>).
///
/// The owner writes a blank record, which is the tombstone of the user: like any newer record it replaces those of other nodes. All
/// replicas remove it ``CoreSettings/blankHorizon`` after its version, by the wall clock. A blank record equals that of an unknown user, so
/// its removal loses nothing.
struct UserRemoval {
    /// The next index to check.
    private var position: UserStore.Index = 0

    /// The users among the next `countMax` indices that may be removed if they have no followers.
    mutating func next(of users: UserStore, _ policies: Policies, countMax: Int, at now: Now) -> [UserID] {
        let indices = users.allIndices
        guard !indices.isEmpty else { return [] }
        var found: [UserID] = []
        for _ in 0..<min(countMax, indices.count) {
            if position >= indices.endIndex { position = 0 }
            if Self.isRemovable(position, of: users, policies, at: now) { found.append(users.user(at: position)) }
            position += 1
        }
        return found
    }

    /// Removes a user who has no followers, as all nodes have said, unless something has changed meanwhile.
    static func remove(_ id: UserID, from owner: inout Owner, in turn: inout Turn) {
        guard let user = owner.users.index(of: id), isRemovable(user, of: owner.users, owner.policies, at: turn.now) else { return }
        let old = owner.users[user].record
        var record = Record(blank: id)
        record.version = owner.nextVersion(at: turn.now)
        // A late older row must not win in any part.
        (record.customStatusVersion, record.events) = (old.customStatusVersion, old.events)
        record.knownSince = owner.knownSince(ofNew: record)
        owner.modify(user) { ($0.record, $0.lastSeenTime) = (record, 0) }
        turn.outbox.rows.append(Row(record))
    }

    /// Whether this node owns the user, keeps nothing of value of it, and has done so for long enough.
    private static func isRemovable(_ user: UserStore.Index, of users: UserStore, _ policies: Policies, at now: Now) -> Bool {
        guard users.isLive(user), !users[user].isReplica, users[user].watchers.isEmpty, users[user].isWorthless else { return false }
        let policy = policies.policy(of: users.user(at: user))
        guard policy.removesUsers else { return false }
        return users[user].lastChange + policy.forgetAfterSeconds * 1_000 <= now.wall
    }
}

extension OwnedUser {
    /// The time, by the wall clock, at which the next part of the user expires: a tombstone of a list or, if it is blank, all of it.
    func nextExpiry(blankHorizon: Milliseconds) -> Milliseconds {
        min(nextExpiryWithoutLists(blankHorizon: blankHorizon), lists.expiresNext)
    }

    /// The same without the tombstones of ``OwnedUser/lists``. Few changes of a user concern them.
    func nextExpiryWithoutLists(blankHorizon: Milliseconds) -> Milliseconds {
        min(subscriptions.expiresNext, blankEnd(horizon: blankHorizon))
    }

    /// The time at which all facts of the user are removed, because its record is blank; `.max` for never.
    func blankEnd(horizon: Milliseconds) -> Milliseconds {
        guard record.lastUpdateTime == 0, record.isBlank, record.version > .zero, subscriptions.liveCount == 0 else { return .max }
        guard lists.liveCount == 0 else { return .max }
        return max(record.version, subscriptions.version, lists.version).milliseconds + horizon
    }

    /// The time of the last change of any fact, or of the last sign of life. A version does not serve: a restart renews versions.
    fileprivate var lastChange: Milliseconds {
        max(record.lastUpdateTime, record.lastSeenTime, lastSeenTime, max(subscriptions.version, lists.version).milliseconds)
    }

    /// Whether the user has no session and keeps nothing of value.
    ///
    /// Of value are a custom status, an event in force, a subscription, a row of another list, a visibility, a device that push reaches and
    /// a registration. A user that is already removed is not worthless.
    fileprivate var isWorthless: Bool {
        guard streams.isEmpty, record.statusType != .online, subscriptions.liveCount == 0 else { return false }
        guard confirmationDeadline == nil, unpublishedCount == 0, keptBeforeRule.isEmpty, lists.liveCount == 0 else { return false }
        let isRemoved = record.isBlank && (record.version > .zero || (subscriptions.isEmpty && lists.isEmpty))
        return !isRemoved && record.customStatus.isEmpty && !record.hasEvents && !record.hasPrivacy && !record.isRegistered
    }
}
