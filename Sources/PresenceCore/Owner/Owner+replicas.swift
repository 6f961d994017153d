import PresenceWire

/// Users that a node keeps as a replica, and versions that change because a node was away.
extension Owner {
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

    /// Removes users that this node is not to keep any more.
    mutating func forget(where isMoved: (Slot) -> Bool) {
        for index in users.places where users.isLive(index) && users[index].isReplica && isMoved(users[index].slot) { users.remove(index) }
    }

    /// A client that was sent the list by another side of a split may not have been sent all that is in the list here.
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

    /// Other nodes went on while this node was down, and have left or are dead. Their clocks may have been ahead of this node's clock.
    ///
    /// Positions that they claimed do not count until this clock is past them for certain.
    mutating func doubtPositions(at now: Now) { claimedByOthers = clock.milliseconds(at: now.wall) + clock.driftMax.wholeMilliseconds }

    /// Since when this node answers for what it did not write.
    func knownSince(at now: Now) -> Milliseconds { max(clock.milliseconds(at: now.wall), claimedByOthers) }

    /// The same of what it writes now.
    func knownSince(ofNew record: Record) -> Milliseconds { Presence.knownSince(ofNew: record, claimedByOthers: claimedByOthers) }

    /// Begins the grace of every unconfirmed user now, because reading the disk may have taken longer than the grace.
    mutating func doubtAll(at now: Now) {
        let deadline = now.instant + settings.reconnectGrace
        for index in users.places where users.isLive(index) && users[index].confirmationDeadline != nil {
            users.modify(index) { $0.confirmationDeadline = deadline }
            schedule(index, at: now)
        }
    }

    /// Gives a version to a user of whom nothing was written: something may have been published all the same.
    mutating func renew(_ user: Index, at now: Now, into outbox: inout Outbox) {
        let version = clock.next(at: now.wall)
        let knownSince = knownSince(at: now)
        users.modify(user) { ($0.record.version, $0.record.knownSince) = (version, knownSince) }
        outbox.rows.append(Row(users[user].record))
    }
}
