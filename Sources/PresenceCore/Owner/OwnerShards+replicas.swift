import PresenceWire

/// What a node keeps of users that others own, and what it does when a slot changes hands (design §6).
extension OwnerShards {
    /// Takes rows from another node that keeps these users: see ``ReceivedRows``.
    mutating func receive(
        _ rows: [Row], isOwned: (UserID) -> Bool, isAwaited: Bool, at now: Now, into outbox: inout Outbox
    ) throws(RowError) -> Bool {
        try ReceivedRows(rows: rows, isAwaited: isAwaited, now: now).merge(into: &self, isOwned: isOwned, &outbox)
    }

    /// Gives every user the role that a new ring says: see ``Reassignment``.
    mutating func reassign(_ role: (Slot) -> Reassignment.Role, at now: Now, into outbox: inout Outbox) {
        Reassignment(now: now).apply(role, to: &self, &outbox)
    }

    /// Forgets users that this node is not to keep any more.
    mutating func forget(where isMoved: (Slot) -> Bool) {
        for index in users.places where users.isLive(index) && users[index].isReplica && isMoved(users[index].slot) { users.remove(index) }
    }

    /// Whoever was told of the whole list of a user by another side of a split may not have been told of all that is in it here.
    mutating func relearn(at now: Now) {
        let time = knownSince(at: now)
        for index in users.places where users.isLive(index) && !users[index].isReplica {
            users.modify(index) { $0.subscriptions.relearn(at: time) }
        }
    }

    /// Gives a record a new version, and the rule of who may see the user.
    mutating func renewVersion(of user: Index, at now: Now) {
        let version = clock.next(at: now.wall)
        let knownSince = knownSince(at: now)
        users.modify(user) { user in
            user.record.version = version
            user.record.privacy?.raise(to: version)
            user.record.knownSince = knownSince
        }
    }

    /// Gives all records a new version: what was published of them before a crash may have been newer than what is here.
    mutating func renew(at now: Now) {
        for index in users.places where users.isLive(index) && users[index].record.version > .zero { renewVersion(of: index, at: now) }
        renewal = .writing(from: 0)
    }

    /// Writes some of the records that were given new versions.
    mutating func writeRenewed(into outbox: inout Outbox) { renewal.write(some: users, into: &outbox) }

    /// Other nodes went on when this one had ended, and have left, or are missed. Their clocks may have been ahead of the one that is here now:
    /// positions that they told do not count until this clock is past them for certain.
    mutating func doubtPositions(at now: Now) { claimedByOthers = clock.milliseconds(at: now.wall) + clock.driftMax.wholeMilliseconds }

    /// Since when this node answers for what it did not write.
    func knownSince(at now: Now) -> Milliseconds { max(clock.milliseconds(at: now.wall), claimedByOthers) }

    /// The same of what it writes now.
    func knownSince(ofNew record: Record) -> Milliseconds { Presence.knownSince(ofNew: record, claimedByOthers: claimedByOthers) }

    /// Reading the disk may have taken longer than the grace: it begins now for each who was ONLINE.
    mutating func doubtAll(at now: Now) {
        let deadline = now.instant + settings.reconnectGrace
        for index in users.places where users.isLive(index) && users[index].doubtDeadline != nil {
            users.modify(index) { $0.doubtDeadline = deadline }
            schedule(index, at: now)
        }
    }

    /// The same for somebody of whom nothing was written: something may have been told all the same.
    mutating func renew(_ user: Index, at now: Now, into outbox: inout Outbox) {
        let version = clock.next(at: now.wall)
        let knownSince = knownSince(at: now)
        users.modify(user) { ($0.record.version, $0.record.knownSince) = (version, knownSince) }
        outbox.rows.append(Row(users[user].record))
    }
}
