import PresenceWire

extension OwnedUser {
    /// The durable list of one kind; empty if no row of the kind was ever written.
    ///
    /// All code outside ``UserStore`` reads lists through this function, because a later version keeps lists of users who are away on disk.
    ///
    /// - Parameter kind: a kind of rows that are kept in lists.
    func list(_ kind: Row.Kind) -> RowList { lists[kind] }

    /// The version of the newest change of the lists by which the user follows profiles.
    ///
    /// Other lists do not count. Two sides of a split may each have changed the profile, and its fields are merged without a new list for
    /// the sessions. With the version of the profile the list of one side would stay older than that of the other for good.
    var followsVersion: Version { max(list(.friend).version, list(.profileSubscription).version) }
}

extension Owner {
    /// The rows of a user's list that this node holds, as owner or replica, without tombstones. For simulations.
    package func liveRows(_ kind: Row.Kind, of user: UserID) -> [Row] { rows(kind, of: user) { !$0.isRemoved } }

    /// The rows of a user's list of which clients are told, with tombstones and the mark of the list. For simulations.
    package func shownRows(_ kind: Row.Kind, of user: UserID) -> [Row] { rows(kind, of: user) { !$0.isUnseen } }

    private func rows(_ kind: Row.Kind, of user: UserID, where isWanted: (RowList.Entry) -> Bool) -> [Row] {
        index(ofKnown: user).map { users[$0].list(kind).entries.filter(isWanted).map { Row($0, of: user, kind) } } ?? []
    }

    /// The newest versions of a user's relationship chain and profile that this node holds. For simulations.
    package func relationship(of user: UserID) -> RelationshipState { index(ofKnown: user).map { users[$0].relationship } ?? .init() }

    /// Loads a durable row of a list at the start.
    mutating func load(listed row: Row, of user: Index) throws(RowError) {
        try row.checkListed()
        modifyLists(user) { _ = $0.merge(row) }
    }

    /// Stores and writes a row of a list if it is newer than the one here. Returns whether it was.
    mutating func merge(listed row: Row, of user: Index, in turn: inout Turn) throws(RowError) -> Bool {
        if row.kind == .webhookLog { return try OwnedWebhookLog(user: user).merge(row, into: &self, in: &turn) }
        try row.checkListed()
        let held = users[user].list(row.kind).entry(for: row.key)
        if row.kind == .profile, let held, !held.isRemoved, row.value != nil {
            return try OwnedProfile(user: user).merge(row, into: Row(held, of: row.user, .profile), by: &self, in: &turn)
        }
        guard row.version > held?.version ?? .zero, accepts(row.version, at: turn.now) else { return false }
        // A node whose clock is a little behind may send what has ended here.
        if row.kind == .deletion, row.version.milliseconds + Deletion.keptFor <= turn.now.wall { return false }
        let time = knownSince(at: turn.now)
        modifyLists(user) { lists in
            _ = lists.merge(row)
            if row.kind == .friend { lists.learn(.friend, at: time) }
        }
        turn.outbox.rows.append(row)
        if row.kind == .deletion {
            UserDeletion.apply(to: user, of: &self, in: &turn)
            if !users[user].isReplica { refresh(user, in: &turn) }
        }
        if row.kind == .profile { OwnedProfile(user: user).publish(isLate: true, by: &self, in: &turn) }
        SubscriptionEnds.repairLater(of: user, after: row, by: &self, at: turn.now)
        // Another owner has written it. The sessions compare their sequences, and fetch what they lack.
        if !users[user].streams.isEmpty { queueList(of: user, into: &turn.outbox) }
        guard !users[user].isReplica else { return true }
        if row.kind == .blocked { ChainVisibility(user: user).repairLater(by: &self, at: turn.now) }
        if row.kind == .chainOutbox, row.value != nil {
            turn.outbox.chains.toReopen.append(ChainPair(user: row.user, other: UserID(app: String(row.user.app), id: row.key)))
        }
        if let decision = row.decisionOfOther { turn.outbox.chains.toVerify.append(decision) }
        if users[user].mayOutliveBlock(of: row.key) {
            turn.outbox.chains.toBlock.append(ChainPair(user: row.user, other: UserID(app: String(row.user.app), id: row.key)))
        }
        return true
    }
}
