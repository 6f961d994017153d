import PresenceWire

/// Until when the tokens of users who were kicked are void: what was issued before is not taken any more, on any node (X5).
struct Kicks {
    /// Users at a time; beyond it the one whose entry ends first is forgotten.
    var countMax = 100_000
    /// How long a kick is remembered: tokens should not be valid for longer. 30 days.
    static let horizon: Milliseconds = 30 * 86_400_000

    struct Entry {
        /// Tokens issued before are void.
        let before: Milliseconds
        /// What the sessions are told.
        let reason: String
        let version: Version

        var expiresAt: Milliseconds { before + Kicks.horizon }
    }

    private var entries: [UserID: Entry] = [:]

    var count: Int { entries.count }

    /// What became of an entry.
    enum OnMerge: Equatable {
        /// Something as new is known.
        case known
        /// It was taken over, and what this says of another user was forgotten for it.
        case merged(forgotten: Row?)
    }

    /// Takes over what is newer.
    mutating func merge(_ entry: Entry, of user: UserID) -> OnMerge {
        guard entry.version > entries[user]?.version ?? .zero else { return .known }
        var forgotten: Row?
        if entries[user] == nil, entries.count >= countMax {
            forgotten = entries.min { ($0.value.before, $0.key) < ($1.value.before, $1.key) }.map { Row(kick: $0.value, of: $0.key) }
        }
        if let forgotten { entries[forgotten.user] = nil }
        entries[user] = entry
        return .merged(forgotten: forgotten)
    }

    /// Forgets what is over. Returns it, by user.
    mutating func forget(at wall: Milliseconds) -> [Row] {
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
