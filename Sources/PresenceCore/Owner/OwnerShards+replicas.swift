import PresenceWire

/// What a node keeps of users that others own, and what it does when a slot changes hands (design §6).
extension OwnerShards {
    /// What a new ring says of a user.
    struct Role {
        /// 0 is this node.
        let owner: PeerIndex
        /// This node owns the slot and has heard what all others hold of it.
        let decides: Bool
    }

    /// Takes rows from another node that keeps this user's slot: what is newer replaces what is here, and goes to disk. Returns whether
    /// all of them could be believed: one from a clock that is far ahead is not kept.
    ///
    /// - Parameter isAwaited: somebody is to be told that they are on disk: what is known here goes there again, because it may be on its
    ///   way behind others.
    mutating func receive(
        _ rows: [Row], isOwned: (UserID) -> Bool, isAwaited: Bool, at now: Now, into outbox: inout Outbox
    ) throws(RowError) -> Bool {
        var isBelieved = true
        for (place, row) in rows.enumerated() {
            guard clock.accepts(row.version, at: now.wall) else {
                counters.clocksRefused += 1
                isBelieved = false
                continue
            }
            let (user, isNew) = users.insert(row.user)
            if isNew, !isOwned(row.user) { users.modify(user) { $0.isReplica = true } }
            let isWritten: Bool
            switch row.kind {
            case .status:
                let old = users[user].keptBeforeRule.first ?? users[user].record
                // Somebody may have been shown that, and the owner, who has hidden the user since, may never have heard of it.
                if users[user].isReplica, old.privacy == nil, old.version > .zero, row.version > old.version, row.namesRule {
                    outbox.rowsForOwners.append(Row(old))
                }
                let facts = try RecordFacts(row)
                let rule = try Self.rule(after: place, in: rows)
                isWritten = receive(try record(in: row, facts, of: user, with: rule), at: user, now: now, into: &outbox)
                // An owner shows at once what it takes, by the rule that it has: that it is told again later does not undo that.
                if users[user].record.version == row.version {
                    let awaitsRule = self.awaitsRule(facts, at: user)
                    users.modify(user) { $0.keptBeforeRule = awaitsRule && $0.isReplica && old.version < row.version ? [old] : [] }
                }
            case .visibility: isWritten = receive(try Privacy(row), at: user, now: now, into: &outbox)
            case .subscription: isWritten = receive(try Subscription(row), row, at: user, now: now, into: &outbox)
            case .member, .clock, .policy, .kick: throw RowError(row, "is no fact of a user")
            }
            if isAwaited, !isWritten { rewrite(row, of: user, into: &outbox) }
            if !users[user].isReplica { schedule(user, at: now) }
        }
        return isBelieved
    }

    /// The rule of the same user that follows a record: the two were written together, and are taken together. If the record were taken alone,
    /// it would be shown by an older rule, and need another version once the rule is there.
    private static func rule(after place: Int, in rows: [Row]) throws(RowError) -> Privacy? {
        guard place + 1 < rows.count, rows[place + 1].kind == .visibility, rows[place + 1].user == rows[place].user else { return nil }
        return try Privacy(rows[place + 1])
    }

    /// What is known here is not older than `row`.
    private func rewrite(_ row: Row, of user: Index, into outbox: inout Outbox) {
        let record = users[user].record
        switch row.kind {
        case .status: if record.version > .zero { outbox.rows.append(Row(record)) }
        case .visibility: if let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
        default: outbox.rows.append(row)
        }
    }

    private mutating func receive(_ record: Record, at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        guard users[user].isReplica else { return adopt(record, at: user, now: now, into: &outbox) }
        let old = users[user].record
        guard keep(record, at: user, now: now) else { return false }
        let kept = users[user].record
        var rows = [Row(kept)]
        if let privacy = kept.privacy, privacy.version != old.privacy?.version { rows.append(Row(privacy, of: kept.user)) }
        outbox.rows += rows
        if kept.version != record.version, kept.version != old.version { outbox.rowsForOwners += rows }
        return true
    }

    private mutating func receive(_ entry: Subscription, _ row: Row, at user: Index, now: Now, into outbox: inout Outbox) -> Bool {
        guard users[user].isReplica else { return merge([entry], at: user, now: now, into: &outbox) }
        guard accepts(entry.version, at: now) else { return false }
        let entry = entry.learnt(at: clock.milliseconds(at: now.wall))
        guard users.modify(user, { $0.subscriptions.merge(entry) }) else { return false }
        outbox.rows.append(row)
        return true
    }

    /// Gives every user the role that a new ring says. Those who had registered here for users that this node owned are told that it was
    /// in vain; users that it kept for another and owns now are served from what it kept.
    mutating func reassign(_ role: (Slot) -> Role, at now: Now, into outbox: inout Outbox) {
        var registered: [[UserID]] = []
        for index in users.places where users.isLive(index) {
            let role = role(users[index].slot)
            if role.decides {
                promote(index, at: now, into: &outbox)
                continue
            }
            guard !users[index].isReplica else { continue }
            for peer in Set(users[index].watchers + users[index].sessionPeers).sorted() {
                while registered.count <= peer { registered.append([]) }
                registered[peer].append(users.user(at: index))
            }
            demote(index)
        }
        for (peer, users) in registered.enumerated() where !users.isEmpty { outbox.send(.misrouted(users), to: peer) }
    }

    /// Forgets users that this node is not to keep any more.
    mutating func forget(where isMoved: (Slot) -> Bool) {
        for index in users.places where users.isLive(index) && users[index].isReplica && isMoved(users[index].slot) { users.remove(index) }
    }

    /// A user that was kept for another owner is this node's own now. An ONLINE is doubted until a session vouches for it.
    private mutating func promote(_ index: Index, at now: Now, into outbox: inout Outbox) {
        guard users[index].isReplica else { return }
        let time = knownSince(at: now)
        users.modify(index) { user in
            user.isReplica = false
            // From now on it is shown by the rule that is known here.
            user.keptBeforeRule = []
            user.record.knownSince = time
        }
        raisePrivacy(of: index, at: now, into: &outbox)
        let doubtDeadline = now.instant + settings.reconnectGrace
        users.modify(index) { user in
            // The gateways may not have heard of all: the owner before held targets back until they were on disk, or never knew them.
            user.subscriptions.relearn(at: time)
            if user.record.statusType == .online { user.doubtDeadline = doubtDeadline }
        }
        noteSurplus(index, at: now)
        noteStrangers(index, at: now)
        noteOutlived(index, at: now)
        schedule(index, at: now)
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

    /// Gives all records a new version: what was told of them before a crash may have been newer than what is here.
    mutating func renew(at now: Now) {
        for index in users.places where users.isLive(index) && users[index].record.version > .zero {
            renewVersion(of: index, at: now)
        }
        (isRenewed, unwritten) = (true, 0)
    }

    /// Other nodes went on when this one had ended, and have left, or are missed. Their clocks may have been ahead of the one that is here now:
    /// positions that they told do not count until this clock is past them for certain (seeds 548384, 14000848).
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

    /// Writes some of the records that were given new versions.
    mutating func writeRenewed(into outbox: inout Outbox) {
        guard let start = unwritten else { return }
        let places = users.places
        for index in places.dropFirst(start).prefix(Self.renewedRowsMax) where users.isLive(index) && users[index].record.version > .zero {
            outbox.rows.append(Row(users[index].record))
            if let privacy = users[index].record.privacy { outbox.rows.append(Row(privacy, of: users.user(at: index))) }
        }
        unwritten = start + Self.renewedRowsMax < places.count ? start + Self.renewedRowsMax : nil
    }

    /// Rows written at a time after a crash.
    static let renewedRowsMax = 2_000

    private mutating func demote(_ index: Index) {
        users.modify(index) { user in
            user.isReplica = true
            user.sessions = []
            user.watchers = []
            (user.listMark, user.untoldCount) = (0, 0)
            (user.doubtDeadline, user.repairDueAt) = (nil, nil)
        }
    }

    // MARK: Rows and digests

    /// All rows of a slot's users, in a fixed order.
    func rows(of slot: Slot) -> [Row] {
        var rows: [Row] = []
        for index in users.users(of: slot) {
            let user = users.user(at: index)
            if users[index].record.version > .zero { rows.append(Row(users[index].record)) }
            if let privacy = users[index].record.privacy { rows.append(Row(privacy, of: user)) }
            rows += users[index].subscriptions.entries.map { Row($0, of: user) }
        }
        return rows
    }

    /// Whether this node is to keep by a ring what a peer offers, and knows something else of it.
    func wants(_ offered: SlotHash, by placement: Placement) -> Bool {
        placement.isKept(offered.slot, by: 0) && users.hash(of: offered.slot) != offered.hash
    }

    /// One hash for each range of slots over the slots for which `isWanted` holds.
    func digest(where isWanted: (Slot) -> Bool) -> [UInt64] {
        var hashes = Array(repeating: UInt64(0), count: Message.digestRangesCount)
        let slotsInRange = Ring.slotsCount / Message.digestRangesCount
        users.forEachSlot { slot, hash in
            if isWanted(slot) { hashes[Int(slot) / slotsInRange] ^= StableHash.mix(hash, UInt64(slot)) }
        }
        return hashes
    }
}
