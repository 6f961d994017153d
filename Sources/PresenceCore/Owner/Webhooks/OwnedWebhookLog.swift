import PresenceWire

/// The webhook log of one user, as its owner or a replica keeps it.
struct OwnedWebhookLog {
    let user: Owner.Index

    /// The log; empty for none.
    func log(in owner: borrowing Owner) -> WebhookLog {
        guard let entry = owner.users[user].list(.webhookLog).entry(for: "") else { return WebhookLog() }
        // A row of a list was checked when it was stored.
        return (try? WebhookLog(Row(entry, of: owner.users.user(at: user), .webhookLog))) ?? WebhookLog()
    }

    /// Stores and writes the log. An empty one leaves a tombstone, once no older copy can have an event that is still kept.
    func write(_ log: WebhookLog, by owner: inout Owner, in turn: inout Turn) {
        let isOver = log.isEmpty && log.removed.isEmpty
        let row = Row(
            user: owner.users.user(at: user), kind: .webhookLog, key: "", version: owner.nextVersion(at: turn.now),
            value: isOver ? nil : log.text)
        owner.modifyLists(user) { _ = $0.merge(row) }
        turn.outbox.rows.append(row)
        count(in: &owner)
    }

    /// Counts the events that wait if this node owns the user. Called after each change of the log or of the owner.
    func count(in owner: inout Owner) {
        let text = owner.users[user].isReplica ? nil : owner.users[user].list(.webhookLog).entry(for: "")?.value
        owner.noteBacklog(WebhookLog.waitingBytes(in: text), of: user)
    }

    /// Takes the copy of another node. Returns whether that wrote a row.
    func merge(_ row: Row, into owner: inout Owner, in turn: inout Turn) throws(RowError) -> Bool {
        let received = try row.webhookLog()
        if !owner.users[user].isReplica { turn.outbox.webhookUsers.append(row.user) }
        let held = owner.users[user].list(.webhookLog).entry(for: "")
        let isNewer = row.version > held?.version ?? .zero
        guard owner.accepts(row.version, at: turn.now) else { return false }
        var kept = row
        var isJoined = false
        if let held, !held.isRemoved, row.value != nil {
            let own = try WebhookLog(Row(held, of: row.user, .webhookLog))
            let (newer, older) = isNewer ? (received, own) : (own, received)
            var joined = newer.joined(with: older)
            isJoined = joined != newer
            let dead = joined.trim(at: turn.now.wall)
            if isJoined, !owner.users[user].isReplica {
                owner.count {
                    $0.webhookEventsExpired += UInt64(dead.expired)
                    $0.webhookEventsDropped += UInt64(dead.full)
                }
            }
            // One version has one content.
            if isJoined { (kept.version, kept.value) = (owner.nextVersion(at: turn.now), joined.text) }
        }
        guard isNewer || isJoined else { return false }
        owner.modifyLists(user) { _ = $0.merge(kept) }
        count(in: &owner)
        turn.outbox.rows.append(kept)
        guard isJoined else { return true }
        // The owner adds the ends of the sessions that the other copy has announced.
        if owner.users[user].isReplica { turn.outbox.rowsForOwners.append(kept) } else { owner.refresh(user, in: &turn) }
        return true
    }
}
