import PresenceWire

/// Who may see a user: decided by the owner, kept in the record, and obeyed wherever a record is shown (``PresenceWire/Record/shown(to:)-(UserID)``).
extension OwnerShards {
    /// Answered when no node shows any more what may not be seen: see ``Outbox/needsWitnesses``.
    ///
    /// - Returns: false for a call that began before the one that wrote the rule: it comes late, and does not undo it. Who made it asks
    ///   again. The same for one that comes from a clock which is far ahead.
    mutating func setVisibility(_ request: Request, _ change: Visibility.Change, at now: Now, into outbox: inout Outbox) -> Bool {
        guard accepts(request.begunAt, at: now) else { return false }
        let user = index(of: request.user)
        let privacy = users[user].record.privacy ?? Privacy()
        let new = privacy.visibility.changed(by: change)
        // Of what is so already it is remembered since when it is meant: an older call that another side of a split took does not undo it.
        if new != privacy.visibility || request.begunAt > privacy.writtenAt {
            guard request.begunAt.milliseconds >= privacy.writtenAt.milliseconds else { return false }
            let writtenAt = request.begunAt > privacy.writtenAt ? request.begunAt : clock.next(at: now.wall)
            let change = StatusChange(visibility: StatusChange.Visibility(visibility: new, writtenAt: writtenAt))
            refresh(user, change, at: now, into: &outbox)
            if new.friends != privacy.visibility.friends {
                endFriendships(of: user, at: now, into: &outbox)
                oweList(of: user, into: &outbox)
            }
        } else if users[user].record.version > .zero {
            // What is so already may be on this disk alone, because an earlier attempt failed.
            outbox.rows.append(Row(users[user].record))
            if let privacy = users[user].record.privacy { outbox.rows.append(Row(privacy, of: request.user)) }
        }
        outbox.needsWitnesses = true
        return true
    }

    /// A record that a row of the disk or of another node tells. Who may see the user is told by a row of its own; a record that was
    /// written without knowing the newest rule, or the newest faces, has none.
    ///
    /// - Parameters:
    ///   - facts: what the row says.
    ///   - rule: what came with it.
    func record(in row: Row, _ facts: RecordFacts, of user: Index, with rule: Privacy? = nil) throws(RowError) -> Record {
        var record = try facts.record(in: row)
        let known = facts.ruleNamed
        if let rule, known == (rule.writtenAt, rule.version), rule.isNewer(than: users[user].record.privacy) {
            record.privacy = rule
            return record
        }
        guard let privacy = users[user].record.privacy else { return record }
        // What is not newer than what is here, or than the faces, brings nothing that was shown without them.
        let isOlder = row.version <= max(users[user].record.version, privacy.version)
        if known.writtenAt >= privacy.writtenAt, known.version >= privacy.version || isOlder { record.privacy = privacy }
        return record
    }

    func awaitsRule(_ facts: RecordFacts, at user: Index) -> Bool {
        let privacy = users[user].record.privacy ?? Privacy()
        return facts.ruleNamed > (privacy.writtenAt, privacy.version)
    }

    /// Another node knows a newer rule. With what is known here of the user it is a new fact.
    mutating func receive(_ privacy: Privacy, at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        guard privacy.isNewer(than: users[user].record.privacy), accepts(privacy.version, at: now) else { return false }
        let record = users[user].record
        let old = record.privacy?.version ?? .zero
        // Somebody may have been shown the record by another rule under the version that it has, whichever of them shows more (seed 337077).
        let isRuleNewer = privacy.writtenAt > record.privacy?.writtenAt ?? .zero && privacy.version <= record.version
        let before = users.modify(user) { user in
            user.record.privacy = privacy
            return user.keptBeforeRule.takeAll().first
        }
        // The owner, who has hidden the user since, may never have heard of what was kept here before (seed 418795).
        let isUnaware = before.map(users[user].record.isBehind) ?? (isRuleNewer || privacy.isUnknown(to: record))
        guard !users[user].isReplica else {
            // The newer rule may be in an older row.
            if privacy.version < old || isUnaware {
                let version = clock.next(at: now.wall)
                users.modify(user) { $0.record.privacy?.raise(to: version) }
            }
            guard let kept = users[user].record.privacy else { return false }
            outbox.rows.append(Row(kept, of: users.user(at: user)))
            if kept.version != privacy.version { outbox.rowsForOwners.append(Row(kept, of: users.user(at: user))) }
            return true
        }
        tellRenewed(user, at: now, into: &outbox)
        if privacy.visibility.friends != record.privacy?.visibility.friends ?? [] { friendsChanged(of: user, at: now, into: &outbox) }
        return true
    }

    /// A user who becomes this node's own: what may not be seen is newer than what was shown before.
    mutating func raisePrivacy(of user: Index, at now: Now, into outbox: inout Outbox) {
        guard let privacy = users[user].record.privacy, privacy.version > users[user].record.version else { return }
        renewVersion(of: user, at: now)
        publish(user, into: &outbox)
    }

    private mutating func tellRenewed(_ user: Index, at now: Now, into outbox: inout Outbox) {
        renewVersion(of: user, at: now)
        refresh(user, StatusChange(isNews: true), at: now, into: &outbox)
        // What has changed with it has a newer version, and is written without the rule.
        let record = users[user].record
        if let privacy = record.privacy, !record.changesPrivacy { outbox.rows.append(Row(privacy, of: record.user)) }
    }
}

extension Record {
    /// Brings what others are shown of a changed record in line with a new rule, and with the time.
    ///
    /// - Parameter face: the record with what has changed beside the rule.
    mutating func changePrivacy(to change: StatusChange.Visibility?, face: Record, by policy: Policy, at now: Now) {
        guard hasPrivacy || change != nil else { return }
        var privacy = privacy ?? Privacy()
        if let change {
            // A viewer who may see the user again sees the user come: nothing is dated before the user was shown as gone.
            if privacy.isOpened(by: change.visibility), statusType == .online {
                let isNewText = privacy.faces.contains { $0.customStatus != customStatus }
                if isNewText { lastCustomStatusUpdateTime = now.wall }
                lastUpdateTime = max(now.wall, lastUpdateTime + 1)
                lastOnlineStatusUpdateTime = now.wall
                lastSeenTime = max(lastSeenTime, now.wall)
            }
            let hidden = face.hidden(at: version, now.wall, by: policy)
            privacy = privacy.changed(to: change.visibility, writtenAt: change.writtenAt, face: hidden, at: version)
        }
        privacy.expire(at: now.wall, version: version)
        self.privacy = privacy
    }

    /// Something that is shown to those who may not see the user has ended.
    func hasExpiredFace(at wall: Milliseconds) -> Bool {
        guard let expiry = privacy?.nextExpiry else { return false }
        return expiry <= wall
    }

    /// This record is the first with a new rule of who may see the user, or with new faces.
    var changesPrivacy: Bool { hasPrivacy && privacy?.version == version }
}
