import GRDB
import PresenceWire

/// The facts about a database file: its node, its cluster, the last generation, and whether rows are missing.
///
/// A checksum covers all of them. Without it a flipped bit in the name of the cluster would look like a file of another cluster.
struct StoreMeta {
    private static let names: Set<String> = ["node", "cluster", "generation", "incomplete"]
    private static let sumName = "sum"

    private var values: [String: String] = [:]
    /// Whether the checksum is right; nil for a file of a version without checksums.
    private(set) var isSumRight: Bool?

    subscript(name: String) -> String? { values[name] }

    init(_ database: Database) throws {
        var sum: String?
        var isReadable = true
        for row in try GRDB.Row.fetchAll(database, sql: "SELECT name, value FROM meta") {
            guard let name = String.fromDatabaseValue(row[0]), let value = String.fromDatabaseValue(row[1]) else {
                isReadable = false
                continue
            }
            if name == Self.sumName { sum = value } else { values[name] = value }
        }
        let isKnown = isReadable && Self.names.isSuperset(of: values.keys)
        isSumRight = sum == nil && isKnown ? nil : isKnown && sum == checksum
    }

    /// Writes a fact, or removes it, and the checksum.
    static func set(_ name: String, _ value: String?, in database: Database) throws {
        if let value {
            try database.execute(sql: "INSERT OR REPLACE INTO meta VALUES (?, ?)", arguments: [name, value])
        } else {
            try database.execute(sql: "DELETE FROM meta WHERE name = ?", arguments: [name])
        }
        try seal(database)
    }

    /// Writes the checksum of the facts.
    static func seal(_ database: Database) throws {
        let sum = try StoreMeta(database).checksum
        try database.execute(sql: "INSERT OR REPLACE INTO meta VALUES (?, ?)", arguments: [sumName, sum])
    }

    private var checksum: String {
        var hash: UInt64 = 0
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            hash = StableHash.mix(StableHash.mix(hash, StableHash.hash64(name.utf8)), StableHash.hash64(value.utf8))
        }
        return String(hash, radix: 16)
    }
}
