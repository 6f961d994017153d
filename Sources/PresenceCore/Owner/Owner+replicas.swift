import PresenceWire

/// The facts that a replica loses in a simulation.
public enum LostFacts: CaseIterable, Sendable {
    case allRows, record, subscriptions
}

/// Users that a node keeps as a replica, and versions that change because a node was away.
extension Owner {
    /// Takes rows from another node that keeps these users: see ``ReceivedRows``.
    mutating func receive(
        _ rows: [Row], isOwned: (UserID) -> Bool, isAwaited: Bool, in turn: inout Turn
    ) throws(RowError) -> Bool {
        try ReceivedRows(rows: rows, isAwaited: isAwaited, now: turn.now).merge(into: &self, isOwned: isOwned, &turn.outbox)
    }

    /// Gives every user the role of a new ring: see ``Reassignment``.
    mutating func reassign(_ role: (Slot) -> Reassignment.Role, in turn: inout Turn) {
        Reassignment(now: turn.now).apply(role, to: &self, &turn.outbox)
    }

    /// Removes users that this node does not keep any more.
    mutating func dropUsers(where isMoved: (Slot) -> Bool) {
        for index in users.allIndices where users.isLive(index) && users[index].isReplica && isMoved(users[index].slot) {
            remove(index)
        }
    }

    /// Loses facts of a user that this node keeps for another owner: see ``Node/lose(_:ofReplica:)``.
    mutating func lose(_ facts: LostFacts, ofReplica user: UserID) {
        guard let index = users.index(of: user), users[index].isReplica else { return }
        let (record, subscriptions) = (users[index].record, users[index].subscriptions)
        remove(index)
        guard facts != .allRows else { return }
        let inserted = insert(user).index
        modify(inserted) { $0.isReplica = true }
        modify(inserted) { if facts == .record { $0.subscriptions = subscriptions } else { $0.record = record } }
    }

    /// Records that every list became known at `now`, because a client of another side of a split may not have received all of it.
    mutating func observeAll(at now: Now) {
        let time = knownSince(at: now)
        for index in users.allIndices where users.isLive(index) && !users[index].isReplica {
            modify(index) { $0.subscriptions.observeAll(at: time) }
            if !users[index].lists.isEmpty { modifyLists(index) { $0.learn(.friend, at: time) } }
        }
    }

    /// Gives a record and its visibility a new version.
    mutating func renewVersion(of user: Index, at now: Now) {
        let version = nextVersion(at: now)
        let knownSince = knownSince(at: now)
        modify(user) { user in
            user.record.version = version
            user.record.privacy?.raise(to: version)
            user.record.knownSince = knownSince
        }
    }

    /// The time from which this node answers for records that it did not write.
    func knownSince(at now: Now) -> Milliseconds { max(clock.milliseconds(at: now.wall), claimedByOthers) }

    /// The time from which this node answers for a record that it writes now.
    func knownSince(ofNew record: Record) -> Milliseconds { Presence.knownSince(ofNew: record, claimedByOthers: claimedByOthers) }

    /// Starts the grace of every unconfirmed user now, because reading the disk may have taken longer than the grace.
    mutating func restartConfirmations(at now: Now) {
        let deadline = now.instant + settings.reconnectGrace
        for index in users.allIndices where users.isLive(index) && users[index].confirmationDeadline != nil {
            modify(index) { $0.confirmationDeadline = deadline }
            schedule(index, at: now)
        }
    }

    /// Gives a version to a user without any write, because another node may have published a record.
    mutating func renew(_ user: Index, in turn: inout Turn) {
        let version = nextVersion(at: turn.now)
        let knownSince = knownSince(at: turn.now)
        modify(user) { ($0.record.version, $0.record.knownSince) = (version, knownSince) }
        turn.outbox.rows.append(Row(users[user].record))
    }
}
