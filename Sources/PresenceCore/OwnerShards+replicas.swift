import PresenceWire

/// What a node keeps of users that others own, and what it does when a slot changes hands (design §6).
extension OwnerShards {
    /// What a new ring says of a user.
    struct Role {
        /// 0 is this node.
        let owner: PeerIndex
        /// This node is one of the slot's replicas, or its owner.
        let isKept: Bool
    }

    /// Takes rows from another node that keeps this user's slot: what is newer replaces what is here, and goes to disk.
    mutating func receive(_ rows: [Row], isOwned: (UserID) -> Bool, at now: Now, into outbox: inout Outbox) throws(RowError) {
        for row in rows {
            let (user, isNew) = users.index(of: row.user, orInsert: OwnedUser(record: Record(blank: row.user)))
            if isNew { users[user].isReplica = !isOwned(row.user) }
            switch row.kind {
            case .status:
                let record = try Record(row)
                if users[user].isReplica {
                    if keep(record, at: user, now: now) { outbox.rows.append(row) }
                } else {
                    adopt(record, at: user, now: now, into: &outbox)
                }
            case .subscription:
                let entry = try Subscription(row)
                if users[user].isReplica {
                    guard clock.accepts(entry.version, at: now.wall), users[user].subscriptions.merge(entry) else { continue }
                    clock.observe(entry.version)
                    outbox.rows.append(row)
                } else {
                    merge([entry], at: user, now: now, into: &outbox)
                }
            }
            if !users[user].isReplica { schedule(user, at: now) }
        }
    }

    /// Gives every user the role that a new ring says. Users that this node owned go to their new owner, and those who had registered
    /// here are told that it was in vain; users that it kept for another and owns now are served from what it kept.
    mutating func reassign(_ role: (UserID) -> Role, at now: Now, into outbox: inout Outbox) {
        var registered: [[UserID]] = []
        for index in users.places where users.isLive(index) {
            let user = users.user(at: index)
            let role = role(user)
            if role.owner == 0 {
                promote(index, at: now)
                continue
            }
            if !users[index].isReplica {
                let state = users[index]
                if state.record.version > .zero || !state.subscriptions.isEmpty {
                    outbox.send(
                        .transfer(Transfer(record: state.record, subscriptions: state.subscriptions.entries)), to: role.owner)
                }
                for peer in Set(state.watchers + state.sessionPeers).sorted() {
                    while registered.count <= peer { registered.append([]) }
                    registered[peer].append(user)
                }
                demote(index)
            }
            if !role.isKept { users.remove(index) }
        }
        for (peer, users) in registered.enumerated() where !users.isEmpty { outbox.send(.misrouted(users), to: peer) }
    }

    /// A user that was kept for another owner is this node's own now. An ONLINE is doubted until a session vouches for it.
    private mutating func promote(_ index: Index, at now: Now) {
        guard users[index].isReplica else { return }
        users[index].isReplica = false
        if users[index].record.statusType == .online {
            users[index].doubtDeadline = now.instant + settings.reconnectGrace
            countOnline(1)
        }
        schedule(index, at: now)
    }

    private mutating func demote(_ index: Index) {
        if users[index].record.statusType == .online { countOnline(-1) }
        users[index].isReplica = true
        users[index].sessions = []
        users[index].watchers = []
        users[index].doubtDeadline = nil
        users[index].reviewAt = .farFuture
    }

    /// Users that this node keeps for another owner.
    var keptCount: Int { users.places.count { users.isLive($0) && users[$0].isReplica } }

    // MARK: Rows and digests

    /// All rows of the users for whom `isWanted` holds, in a fixed order.
    func rows(where isWanted: (UserID) -> Bool) -> [Row] {
        var rows: [Row] = []
        for index in users.places where users.isLive(index) && isWanted(users.user(at: index)) {
            let user = users.user(at: index)
            if users[index].record.version > .zero { rows.append(Row(users[index].record)) }
            rows += users[index].subscriptions.entries.map { Row($0, of: user) }
        }
        return rows
    }

    /// One hash for each range of slots over the users for whom `isWanted` holds; equal for equal facts, in whatever order they came.
    func digest(where isWanted: (UserID) -> Bool) -> [UInt64] {
        var hashes = Array(repeating: UInt64(0), count: Message.digestRangesCount)
        for index in users.places where users.isLive(index) && isWanted(users.user(at: index)) {
            let user = users.user(at: index)
            let slotsInRange = Ring.slotsCount / Message.digestRangesCount
            let name = user.withBytes { StableHash.hash64($0) }
            let record = users[index].record.version
            var hash = record == .zero ? 0 : Self.hash(name, record)
            for entry in users[index].subscriptions.entries {
                hash ^= Self.hash(StableHash.mix(name, entry.target.withBytes { StableHash.hash64($0) }), entry.version)
            }
            hashes[Int(user.slot) / slotsInRange] ^= hash
        }
        return hashes
    }

    private static func hash(_ name: UInt64, _ version: Version) -> UInt64 {
        StableHash.mix(StableHash.mix(name, version.stamp), UInt64(version.node))
    }
}
