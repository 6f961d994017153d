import PresenceWire

/// The deletion of one user at the user's owner, and at the replicas.
///
/// The owner writes one row, the ``PresenceWire/Deletion``, and a blank record that is newer. A node that takes the row drops all facts of
/// the user up to the beginning of the deletion, and takes no such fact any more. So a node that was away cannot bring them back.
struct UserDeletion {
    /// How long the end of a deletion waits for the app's webhook to take the ends of the user's sessions, in milliseconds.
    private static let webhookWait: Milliseconds = 10_000

    let id: UserID
    let now: Now

    // MARK: Steps

    /// The deletion that the owner knows, and the user's own facts.
    ///
    /// A user who has facts that are newer than the end of a deletion is another user of the same name.
    func found(by owner: borrowing Owner) -> DeletionAnswer {
        guard let user = owner.index(ofKnown: id) else { return DeletionAnswer(nil) }
        let facts = owner.users[user].countedFacts
        let deletion = owner.users[user].deletion
        let isOver = deletion?.completedAt != nil && !facts.isEmpty
        return DeletionAnswer(isOver ? nil : deletion, facts: facts)
    }

    /// Removes the user's own facts, and keeps what was found about the user. A deletion that has begun goes on.
    func begin(
        _ removed: [Deletion.Removed], at nodes: [String], on owner: inout Owner, into outbox: inout Outbox
    ) -> DeletionAnswer {
        let user = owner.index(of: id)
        if let deletion = found(by: owner).deletion {
            writeAgain(user, owner, into: &outbox)
            return DeletionAnswer(deletion)
        }
        let version = owner.nextVersion(at: now)
        let deletion = Deletion(
            receiptID: version.text, voidUpTo: version, begunAt: now.wall, removed: removed, nodes: Array(nodes.prefix(Deletion.nodesMax)))
        store(deletion, at: version, of: user, by: &owner, in: &outbox[at: now])
        blank(user, by: &owner, in: &outbox[at: now])
        return DeletionAnswer(deletion)
    }

    /// Ends the deletion, after all nodes have found nothing about the user. A user of the same name may have come meanwhile.
    func end(on owner: inout Owner, into outbox: inout Outbox) -> DeletionAnswer {
        guard let user = owner.index(ofKnown: id), var deletion = owner.users[user].deletion else { return DeletionAnswer(nil) }
        guard deletion.completedAt == nil else {
            writeAgain(user, owner, into: &outbox)
            return DeletionAnswer(deletion)
        }
        deletion.sweptAt = deletion.sweptAt ?? now.wall
        let log = OwnedWebhookLog(user: user)
        var events = log.log(in: owner)
        if !events.hasWaiting(upTo: deletion.voidUpTo) || now.wall - deletion.begunAt >= Self.webhookWait {
            if events.forget(upTo: deletion.voidUpTo) { log.write(events, by: &owner, in: &outbox[at: now]) }
            deletion.completedAt = now.wall
        }
        store(deletion, at: owner.nextVersion(at: now), of: user, by: &owner, in: &outbox[at: now])
        return DeletionAnswer(deletion)
    }

    /// An earlier attempt may have failed, so that the rows are only on this disk.
    private func writeAgain(_ user: Owner.Index, _ owner: borrowing Owner, into outbox: inout Outbox) {
        outbox.writeAgain([.deletion], about: "", of: owner.users[user])
        outbox.rows.append(Row(owner.users[user].record))
    }

    private func store(
        _ deletion: Deletion, at version: Version, of user: Owner.Index, by owner: inout Owner, in turn: inout Turn
    ) {
        let row = Row(deletion, of: id, key: "", version: version)
        owner.modifyLists(user) { _ = $0.merge(row) }
        turn.outbox.rows.append(row)
        Self.apply(to: user, of: &owner, in: &turn)
    }

    /// Writes a blank record, which is newer than the deletion.
    private func blank(_ user: Owner.Index, by owner: inout Owner, in turn: inout Turn) {
        var record = Record(blank: id)
        record.version = owner.nextVersion(at: now)
        // A late older row must not win in any part.
        record.customStatusVersion = record.version
        record.events = PublishedEvents(newest: nil, forLogins: nil, newestID: record.version, newestIDForLogins: record.version)
        record.knownSince = owner.knownSince(ofNew: record)
        owner.modify(user) { ($0.record, $0.lastSeenTime) = (record, 0) }
        owner.publish(user, into: &turn.outbox)
        owner.queueList(of: user, into: &turn.outbox)
        // A session that has begun meanwhile is that of another user of the same name.
        owner.refresh(user, in: &turn)
    }

    // MARK: Every node that keeps the user

    /// Drops all facts of a user that the deletion makes void, from memory and from disk.
    static func apply(to user: Owner.Index, of owner: inout Owner, in turn: inout Turn) {
        guard let deletion = owner.users[user].deletion else { return }
        let (id, version) = (owner.users.user(at: user), deletion.voidUpTo)
        var rows = owner.modifyLists(user) { $0.removeAll(upTo: version, of: id) }
        rows += owner.modify(user) { user in
            // Those that end are counted at their targets, which removed rows are not.
            let ended = user.subscriptions.live.filter { $0.version <= version }
            _ = user.subscriptions.remove(ended.map(\.target), version: version)
            return (ended + user.subscriptions.removeAll(upTo: version)).map { Row($0, of: id) }
        }
        let record = owner.users[user].record
        // Its version may have been raised by a node that did not know the deletion.
        if let privacy = record.privacy, privacy.writtenAt <= version {
            rows.append(Row(privacy, of: id))
            owner.modify(user) { $0.record.privacy = nil }
        }
        if owner.users[user].isVoid(record) {
            if record.version > .zero { rows.append(Row(record)) }
            var blank = Record(blank: id)
            // The records that this node writes from here on are not void.
            blank.customStatusVersion = Version(stamp: version.stamp + 1, node: version.node)
            owner.modify(user) { ($0.record, $0.lastSeenTime, $0.keptBeforeRule) = (blank, 0, []) }
        }
        turn.outbox.deletedRows += rows
        // Pages and the log of the disk have the rows as they were.
        if !rows.isEmpty { turn.outbox.effects.append(.truncateLog) }
        owner.noteDeletions { if deletion.completedAt == nil { $0.insert(id) } else { $0.remove(id) } }
    }
}

/// The deletions that go on by themselves, because no caller has brought them to their end.
enum OpenDeletions {
    /// The time between two looks, and the age of a deletion that goes on by itself. A call ends long before.
    private static let interval = Duration.seconds(15)

    /// Has the deletions of this node's users go on. Called at every tick.
    static func resume(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now, next: inout Instant) {
        guard now.instant >= next else { return }
        next = now.instant + interval
        for id in owner.openDeletions.sorted() {
            guard let user = owner.index(ofKnown: id), let deletion = owner.users[user].deletion, deletion.completedAt == nil else {
                owner.noteDeletions { $0.remove(id) }
                continue
            }
            guard cluster.decides(id), now.wall - deletion.begunAt >= interval.wholeMilliseconds else { continue }
            cluster.outbox.effects.append(.resumeDeletion(id))
        }
    }
}

extension OwnedUser {
    /// The deletion of the user; nil for a user who was not deleted lately.
    var deletion: Deletion? { lists.isEmpty ? nil : list(.deletion).fact("", of: record.user) }

    /// Whether a fact of this version and kind does not count, because the user was deleted after it.
    ///
    /// The webhook events stay until the end of the deletion: the last ones are the ends of the sessions.
    func isVoid(_ version: Version, _ kind: Row.Kind) -> Bool {
        guard kind != .deletion, kind != .webhookLog, let deletion else { return false }
        return version <= deletion.voidUpTo
    }

    /// Whether a record does not count: it is not newer than the deletion, or it was made from one that is not, by a node that was away.
    ///
    /// The first record after a deletion has a newer version of the custom status, which no later record lowers.
    func isVoid(_ record: Record) -> Bool { deletion.map { min(record.version, record.customStatusVersion) <= $0.voidUpTo } ?? false }

    /// The user's own facts, by kind. Tombstones and the deletion itself do not count.
    fileprivate var countedFacts: [Deletion.Removed] {
        var counts: [(Row.Kind, Int)] = []
        if record.version > .zero, !record.isBlank || !sessions.isEmpty { counts.append((.status, 1)) }
        counts.append((.subscription, subscriptions.liveCount))
        if record.hasPrivacy { counts.append((.visibility, 1)) }
        for kind in Row.Kind.ofUsers where kind != .deletion && kind != .webhookLog {
            guard case .list = kind.place else { continue }
            counts.append((kind, list(kind).liveCount))
        }
        return counts.filter { $0.1 > 0 }.map { Deletion.Removed(kind: $0.0, count: UInt64($0.1)) }
    }
}
