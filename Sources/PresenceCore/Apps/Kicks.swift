import PresenceWire

/// The kicks of users, by which every node rejects tokens that were issued before (X5).
struct Kicks {
    /// How long a kick counts: 30 days. No token should be valid for longer.
    static let horizon = Deletion.keptFor

    struct Entry {
        /// The time of the kick, by the clock of the user's owner (``time(of:at:)``). All nodes use this time, however their clocks differ.
        let before: Milliseconds
        /// The reason that the sessions receive.
        let reason: String
        let version: Version

        var expiresAt: Milliseconds { before + Kicks.horizon }
    }

    private var entries: [UserID: Entry] = [:]
    /// The number of entries by app.
    private var counts: [String: Int] = [:]

    var count: Int { entries.count }

    /// Whether an app may kick this user: the user's last kick still counts, or the app has room for one more.
    ///
    /// An entry is never removed to make room, because the user's earlier tokens would be valid again.
    func hasRoom(for user: UserID, by policy: Policy) -> Bool {
        entries[user] != nil || counts[String(user.app), default: 0] < Int(policy.kicksMax)
    }

    /// Whether a token that was issued at this time is void, because its user was kicked later.
    func isVoid(_ user: UserID, issuedAt: Milliseconds) -> Bool {
        guard let entry = entries[user] else { return false }
        return VoidTokens.isVoid(issuedAt: issuedAt, kickedAt: entry.before)
    }

    /// The kick that has ended a session which a node registers; nil if the session was opened later.
    ///
    /// The node may not have read the kick yet. Gateways date later sessions after the kick: ``VoidTokens/openingTime(of:at:)``.
    func end(of attach: Attach) -> Entry? {
        guard !entries.isEmpty, let entry = entries[attach.user], attach.openedAt <= entry.before else { return nil }
        return entry
    }

    /// The time of a kick of a user by an owner's clock: never before that of the user's last kick.
    ///
    /// The clock of the next owner may be behind that of the owner before. Tokens that were void stay void.
    func time(of user: UserID, at wall: Milliseconds) -> Milliseconds { max(wall, entries[user]?.before ?? wall) }

    /// Stores the entry if it is newer. Returns whether it is.
    ///
    /// Only the owner of a user asks ``hasRoom(for:by:)``. Every other node stores what the owner has decided.
    mutating func merge(_ entry: Entry, of user: UserID) -> Bool {
        guard entry.version > entries[user]?.version ?? .zero else { return false }
        if entries.updateValue(entry, forKey: user) == nil { counts[String(user.app), default: 0] += 1 }
        return true
    }

    /// Removes the expired entries. Returns their rows, by user.
    mutating func expire(at wall: Milliseconds) -> [Row] {
        let over = all.filter { $0.entry.expiresAt <= wall }
        for (user, _) in over {
            let app = String(user.app)
            entries[user] = nil
            let left = counts[app, default: 0] - 1
            counts[app] = left > 0 ? left : nil
        }
        return over.map { Row(kick: $0.entry, of: $0.user) }
    }

    /// All entries, by user.
    var all: [(user: UserID, entry: Entry)] { entries.keys.sorted().compactMap { user in entries[user].map { (user, $0) } } }

    var rows: [Row] { all.map { Row(kick: $0.entry, of: $0.user) } }
}

extension Row {
    /// The durable form of a kick, for every node.
    init(kick entry: Kicks.Entry, of user: UserID) {
        var json = JSONWriter(reserving: 120)
        json.object { json in
            json.member("before", entry.before)
            json.member("reason", entry.reason)
        }
        self.init(user: user, kind: .kick, key: "", version: entry.version, value: json.bytes, expiresAt: entry.expiresAt)
    }

    func kick() throws(RowError) -> Kicks.Entry {
        guard let value, let json = try? JSONReader.read(value), case .integer(let before) = json["before"] else {
            throw RowError(self, "the time of the kick is missing")
        }
        guard case .string(let reason) = json["reason"] else { throw RowError(self, "the reason of the kick is missing") }
        return Kicks.Entry(before: before, reason: reason, version: version)
    }
}
