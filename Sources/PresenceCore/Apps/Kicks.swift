import PresenceWire

/// The kicks of users, by which every node rejects tokens that were issued before (X5).
struct Kicks {
    /// Most users with a kick. One more replaces the entry that ends first.
    var countMax = 100_000
    /// How long a kick counts: 30 days. No token should be valid for longer.
    static let horizon: Milliseconds = 30 * 86_400_000

    struct Entry {
        /// The time of the kick, by the clock of the user's owner. All nodes use this time, however their clocks differ.
        let before: Milliseconds
        /// The reason that the sessions receive.
        let reason: String
        let version: Version

        var expiresAt: Milliseconds { before + Kicks.horizon }
    }

    private var entries: [UserID: Entry] = [:]

    var count: Int { entries.count }

    /// The outcome of a merge.
    enum OnMerge: Equatable {
        /// An entry of the same or a later time is here already.
        case known
        /// The entry was stored, and this row of another user was removed to make room.
        case merged(replaced: Row?)
    }

    /// Stores the entry if it is newer.
    mutating func merge(_ entry: Entry, of user: UserID) -> OnMerge {
        guard entry.version > entries[user]?.version ?? .zero else { return .known }
        var replaced: Row?
        if entries[user] == nil, entries.count >= countMax {
            replaced = entries.min { ($0.value.before, $0.key) < ($1.value.before, $1.key) }.map { Row(kick: $0.value, of: $0.key) }
        }
        if let replaced { entries[replaced.user] = nil }
        entries[user] = entry
        return .merged(replaced: replaced)
    }

    /// Removes the expired entries. Returns their rows, by user.
    mutating func expire(at wall: Milliseconds) -> [Row] {
        let over = rows.filter { ($0.expiresAt ?? .max) <= wall }
        for row in over { entries[row.user] = nil }
        return over
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
