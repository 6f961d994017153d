import PresenceWire

/// Rows from another replica of their users. Newer facts replace the facts here, and go to disk.
struct ReceivedRows {
    let rows: [Row]
    /// Whether the sender waits until the rows are on disk. A known fact is then written again, because its first write may still be
    /// queued.
    let isAwaited: Bool
    let now: Now

    /// Takes a durable row back at the start.
    static func load(_ row: Row, into owner: inout Owner, in turn: inout Turn) throws(RowError) {
        owner.observe(row.version)
        let user = owner.index(of: row.user)
        // The disk had not deleted it yet when the node ended.
        if owner.users[user].isVoid(row.version, row.kind) { return turn.outbox.deletedRows.append(row) }
        switch row.kind.place {
        case .record: _ = owner.keep(try owner.users[user].record(in: row, RecordFacts(row)), at: user, isOwn: true, now: turn.now)
        case .visibility:
            let privacy = try Privacy(row)
            owner.modify(user) { $0.record.privacy = privacy }
        case .subscriptions:
            let entry = try Subscription(row).observed(at: owner.clock.milliseconds(at: turn.now.wall))
            owner.modify(user) { _ = $0.subscriptions.merge(entry) }
        case .list:
            try owner.load(listed: row, of: user)
            if row.kind == .deletion { UserDeletion.apply(to: user, of: &owner, in: &turn) }
        case .node, .everyNode: throw RowError(row, "is not a row of a user")
        }
        owner.schedule(user, at: turn.now)
    }

    /// Returns whether all of the rows could be believed: a row from a clock that is far ahead is not kept.
    func merge(into owner: inout Owner, isOwned: (UserID) -> Bool, _ outbox: inout Outbox) throws(RowError) -> Bool {
        var isBelieved = true
        var told: Set<UserID> = []
        var lists: [LateRows] = []
        var groups: [(user: Owner.Index, row: Row)] = []
        for (index, row) in rows.enumerated() {
            guard owner.clock.accepts(row.version, at: now.wall) else {
                owner.count { $0.clocksRefused += 1 }
                isBelieved = false
                continue
            }
            let user = owner.index(of: row.user)
            // A node that has just started has loaded the user. It decides about no user before it has a role.
            if !owner.users[user].isReplica, !isOwned(row.user) { owner.modify(user) { $0.becomeReplica() } }
            if owner.users[user].isVoid(row.version, row.kind) {
                if owner.users[user].isReplica, told.insert(row.user).inserted {
                    outbox.rowsForOwners += owner.users[user].rowsOfDeletion
                }
                continue
            }
            if row.kind.hasSequence, lists.last.map({ $0.user != user || $0.kind != row.kind }) ?? true {
                lists.append(LateRows(user: user, kind: row.kind, version: owner.users[user].list(row.kind).version))
            }
            let isCompared = row.isUnseen || row.kind == .friendGroup
            let held = isCompared ? owner.users[user].list(row.kind).entry(for: row.key) : nil
            let isWritten =
                switch row.kind.place {
                case .record: try merge(row, with: try rule(after: index), of: user, into: &owner, &outbox)
                case .visibility: merge(try Privacy(row), of: user, into: &owner, &outbox)
                case .subscriptions: merge(try Subscription(row), row, of: user, into: &owner, &outbox)
                case .list(.call, _): try AnsweredCalls.merge(row, of: user, in: &owner, in: &outbox[at: now])
                case .list: try owner.merge(listed: row, of: user, in: &outbox[at: now])
                case .node, .everyNode: throw RowError(row, "is not a row of a user")
                }
            if isWritten, row.kind.hasSequence { lists[lists.count - 1].take(row, insteadOf: held) }
            if isWritten, row.kind == .friendGroup, held?.isRemoved == false { groups.append((user, row)) }
            if isAwaited, !isWritten { write(row, again: owner.users[user], &outbox) }
            if !owner.users[user].isReplica { owner.schedule(user, at: now) }
        }
        for list in lists where !list.rows.isEmpty { list.mark(in: &owner, in: &outbox[at: now]) }
        for (user, row) in groups { show(row, of: user, in: &owner, &outbox) }
        for list in lists where list.kind == .friend && list.isWritten {
            ChainVisibility(user: list.user).showReceived(by: &owner, in: &outbox[at: now])
        }
        return isBelieved
    }

    /// Moves the sequence of the friends after a group has another name or is gone, unless the node that wrote the group has done so.
    private func show(_ group: Row, of user: Owner.Index, in owner: inout Owner, _ outbox: inout Outbox) {
        guard !owner.users[user].isReplica, ListMarks(user: user, kind: .friend).version(in: owner) < group.version else { return }
        _ = ListMarks.showGroups([group], of: user, in: &owner, in: &outbox[at: now])
    }

    /// The rows of one list that clients may have passed: they are not newer than the list was.
    private struct LateRows {
        let user: Owner.Index
        let kind: Row.Kind
        /// The version of the list before.
        let version: Version
        private(set) var rows: [Row] = []
        /// Whether a row of the list was newer than the one here.
        private(set) var isWritten = false
        /// The version that a mark needs; nil for one that is newer than the list was.
        private(set) var markedAt: Version? = .zero

        /// - Parameter held: the row here that a tombstone which has removed nothing elsewhere has replaced.
        mutating func take(_ row: Row, insteadOf held: RowList.Entry?) {
            isWritten = true
            if row.isUnseen {
                guard let held, !held.isUnseen else { return }
                rows.append(row)
                markedAt = held.isRemoved ? markedAt.map { max($0, held.version) } : nil
            } else if row.version <= version, row.key != Row.lateMark {
                rows.append(row)
                markedAt = nil
            }
        }

        /// Marks the list, unless its sender did. A replica sends the owner the rows and the mark, because the owner may lack them.
        func mark(in owner: inout Owner, in turn: inout Turn) {
            let marks = ListMarks(user: user, kind: kind)
            let marked = marks.version(in: owner)
            if marked > version || markedAt.map({ marked >= $0 }) ?? false { return }
            let mark = marks.mark(&owner, version: markedAt, in: &turn)
            if owner.users[user].isReplica { turn.outbox.rowsForOwners += rows + [mark] }
        }
    }

    /// The visibility of the same user that follows a record. The two were written together, and are stored together.
    ///
    /// The record alone would be shown under an older visibility, and would need another version once the newer one arrives.
    private func rule(after index: Int) throws(RowError) -> Privacy? {
        guard index + 1 < rows.count, rows[index + 1].kind == .visibility, rows[index + 1].user == rows[index].user else { return nil }
        return try Privacy(rows[index + 1])
    }

    /// Writes a fact again that is not older than `row`.
    private func write(_ row: Row, again user: OwnedUser, _ outbox: inout Outbox) {
        switch row.kind.place {
        case .record: if user.record.version > .zero { outbox.rows.append(Row(user.record)) }
        case .visibility: if let privacy = user.record.privacy { outbox.rows.append(Row(privacy, of: row.user)) }
        case .list:
            let held = user.list(row.kind).entry(for: row.key)
            outbox.rows.append(held.map { Row($0, of: row.user, row.kind) } ?? row)
        case .subscriptions, .node, .everyNode: outbox.rows.append(row)
        }
    }

    // Each function returns whether it has written a row.

    private func merge(
        _ row: Row, with rule: Privacy?, of user: Owner.Index, into owner: inout Owner, _ outbox: inout Outbox
    ) throws(RowError) -> Bool {
        let old = owner.users[user].keptBeforeRule.first ?? owner.users[user].record
        // A viewer may have received the old record. The owner, who has hidden the user since, may never have received it.
        if owner.users[user].isReplica, old.privacy == nil, old.version > .zero, row.version > old.version, row.namesRule {
            outbox.rowsForOwners.append(Row(old))
        }
        let facts = try RecordFacts(row)
        let rule = rule.map(owner.users[user].published)
        let isWritten = merge(try owner.users[user].record(in: row, facts, with: rule), of: user, into: &owner, &outbox)
        // An owner shows a received record at once, under its current visibility. A later copy of the record does not undo that.
        if owner.users[user].record.version == row.version {
            owner.modify(user) { user in
                let isKept = user.isReplica && user.awaitsRule(facts) && old.version < row.version
                user.keptBeforeRule = isKept ? [old] : []
            }
        }
        return isWritten
    }

    private func merge(
        _ record: Record, of user: Owner.Index, into owner: inout Owner, _ outbox: inout Outbox
    ) -> Bool {
        guard owner.users[user].isReplica else { return owner.adopt(record, at: user, in: &outbox[at: now]) }
        let old = owner.users[user].record
        guard owner.keep(record, at: user, now: now) else { return false }
        let kept = owner.users[user].record
        var rows = [Row(kept)]
        if let privacy = kept.privacy, privacy.version != old.privacy?.version { rows.append(Row(privacy, of: kept.user)) }
        outbox.rows += rows
        if kept.version != record.version, kept.version != old.version { outbox.rowsForOwners += rows }
        return true
    }

    private func merge(
        _ entry: Subscription, _ row: Row, of user: Owner.Index, into owner: inout Owner, _ outbox: inout Outbox
    ) -> Bool {
        guard owner.users[user].isReplica else { return owner.merge([entry], at: user, in: &outbox[at: now]) }
        guard owner.accepts(entry.version, at: now) else { return false }
        let entry = entry.observed(at: owner.clock.milliseconds(at: now.wall))
        guard owner.modify(user, { $0.subscriptions.merge(entry) }) else { return false }
        outbox.rows.append(row)
        return true
    }

    /// Stores a newer visibility from another node. With the facts here it is a new fact.
    private func merge(
        _ privacy: Privacy, of user: Owner.Index, into owner: inout Owner, _ outbox: inout Outbox
    ) -> Bool {
        let record = owner.users[user].record
        guard privacy.isNewer(than: record.privacy), owner.accepts(privacy.version, at: now) else { return false }
        if owner.users[user].isVoid(privacy.writtenAt, .visibility) { return false }
        let privacy = owner.users[user].published(privacy)
        let old = record.privacy?.version ?? .zero
        // Under the current version a viewer may have received the record by another visibility, whichever of them shows more.
        let isRuleNewer = privacy.writtenAt > record.privacy?.writtenAt ?? .zero && privacy.version <= record.version
        let before = owner.modify(user) { user in
            user.record.privacy = privacy
            return user.keptBeforeRule.takeAll().first
        }
        guard !owner.users[user].isReplica else {
            // The owner, who has hidden the user since, may never have received the facts kept here before.
            let isUnaware = before.map(owner.users[user].record.isBehind) ?? (isRuleNewer || privacy.isUnknown(to: record))
            var kept = privacy
            // The newer visibility may be in an older row.
            if privacy.version < old || isUnaware {
                kept.raise(to: owner.nextVersion(at: now))
                owner.modify(user) { $0.record.privacy = kept }
            }
            outbox.rows.append(Row(kept, of: record.user))
            if kept.version != privacy.version { outbox.rowsForOwners.append(Row(kept, of: record.user)) }
            return true
        }
        owner.renewVersion(of: user, at: now)
        owner.refresh(user, StatusChange(isNews: true), in: &outbox[at: now])
        // If the status has changed with it, the record has a newer version, and is written without the visibility.
        let renewed = owner.users[user].record
        if let privacy = renewed.privacy, !renewed.changesPrivacy { outbox.rows.append(Row(privacy, of: record.user)) }
        // Its owner may not have known the newest lists.
        ChainVisibility(user: user).repairLater(by: &owner, at: now)
        return true
    }
}

extension OwnedUser {
    /// The rows that tell another node of the user's deletion.
    fileprivate var rowsOfDeletion: [Row] {
        list(.deletion).entries.map { Row($0, of: record.user, .deletion) } + (record.version > .zero ? [Row(record)] : [])
    }

    /// The record of a row from disk or from another node.
    ///
    /// The visibility has a row of its own. A record whose writer did not know the newest visibility, or the newest hidden views, has none.
    ///
    /// - Parameters:
    ///   - facts: the content of the row.
    ///   - rule: the visibility that came with it.
    func record(in row: Row, _ facts: RecordFacts, with rule: Privacy? = nil) throws(RowError) -> Record {
        var record = try facts.record(in: row)
        let known = facts.ruleNamed
        // An older one says what viewers were shown of an older record.
        if let rule, known == RuleName(rule), row.version < self.record.version || rule.isNewer(than: self.record.privacy) {
            record.privacy = rule
            return record
        }
        guard let privacy = self.record.privacy else { return record }
        // A record that is not newer than the one here, or than the hidden views, was not shown without them.
        let isOlder = row.version <= max(self.record.version, privacy.version)
        if known.writtenAt >= privacy.writtenAt, known.version >= privacy.version || isOlder { record.privacy = privacy }
        return record
    }

    /// A visibility from a row, as it is shown if this node is the owner. A replica shows nobody anything.
    fileprivate func published(_ privacy: Privacy) -> Privacy { isReplica ? privacy : withFriends(privacy) }

    /// Whether the record's writer knew a newer visibility than this node.
    fileprivate func awaitsRule(_ facts: RecordFacts) -> Bool {
        let privacy = record.privacy ?? Privacy()
        return facts.ruleNamed > RuleName(privacy)
    }
}
