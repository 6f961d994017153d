import PresenceWire

/// Removes users who have been away for long and of whom nothing of value is kept (`users.forgetAfter`).
///
/// The owner writes a blank record, which is the tombstone of the user: it replaces what other nodes hold, as any newer record does. All that
/// keep it forget it ``CoreSettings/blankHorizon`` after its version, by the wall clock. A blank record says what is true of a user of whom
/// nothing is known, and nothing is lost with it.
extension OwnerShards {
    /// The users among the next `countMax` places that may be removed if nobody follows them.
    mutating func usersToRemove(countMax: Int, at now: Now) -> [UserID] {
        let places = users.places
        guard !places.isEmpty else { return [] }
        var found: [UserID] = []
        for _ in 0..<min(countMax, places.count) {
            if removalPlace >= places.endIndex { removalPlace = 0 }
            if isRemovable(removalPlace, at: now) { found.append(users.user(at: removalPlace)) }
            removalPlace += 1
        }
        return found
    }

    /// Nobody follows the user, as all nodes have said: removes it, unless something has changed meanwhile.
    mutating func removeUnfollowed(_ id: UserID, at now: Now, into outbox: inout Outbox) {
        guard let user = users.index(of: id), isRemovable(user, at: now) else { return }
        let old = users[user].record
        var record = Record(blank: id)
        record.version = clock.next(at: now.wall)
        // An older row that comes late is newer in nothing.
        (record.customStatusVersion, record.events) = (old.customStatusVersion, old.events)
        record.knownSince = knownSince(ofNew: record)
        users.modify(user) { ($0.record, $0.lastSeenTime) = (record, 0) }
        outbox.rows.append(Row(record))
    }

    /// This node decides about the user, nothing of value is kept of it, and that has been so for long enough.
    private func isRemovable(_ user: Index, at now: Now) -> Bool {
        guard users.isLive(user), !users[user].isReplica, users[user].watchers.isEmpty, users[user].isWorthless else { return false }
        let policy = policies.policy(of: users.user(at: user))
        guard policy.removesUsers else { return false }
        return users[user].lastChange + policy.forgetAfterSeconds * 1_000 <= now.wall
    }

    /// Removes a user whose blank record has been kept for long enough.
    ///
    /// A node that watches the user knows the record: its owner writes that again.
    mutating func expireBlank(_ user: Index, at now: Now, into outbox: inout Outbox) {
        guard users[user].blankEnd(horizon: settings.blankHorizon.wholeMilliseconds) <= now.wall else { return }
        guard users[user].watchers.isEmpty, users[user].sessions.isEmpty else {
            renew(user, at: now, into: &outbox)
            outbox.changes.append((users[user].record, users[user].watchers))
            return
        }
        let id = users.user(at: user)
        outbox.forgotten.append(Row(users[user].record))
        outbox.forgotten += users[user].subscriptions.entries.map { Row($0, of: id) }
        counters.usersRemoved += 1
        users.remove(user)
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
