import Foundation
import GRDB
import PresenceWire

/// The table of rows in the database.
///
/// SQLite's pages have no checksums. Each row therefore has a checksum over all its fields, so that damage is detected.
enum RowTable {
    /// The `PRAGMA user_version` that this code writes. Version 1 had no checksums.
    static let schemaVersion = 2

    private static let meta = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
    private static let rows = """
        CREATE TABLE rows (
            slot INTEGER NOT NULL, user BLOB NOT NULL, kind INTEGER NOT NULL, key TEXT NOT NULL,
            stamp INTEGER NOT NULL, node INTEGER NOT NULL, value BLOB, expires INTEGER, checksum INTEGER NOT NULL,
            PRIMARY KEY (slot, user, kind, key)
        ) WITHOUT ROWID
        """
    private static let rowsOfVersion1 = """
        CREATE TABLE row (
            slot INTEGER NOT NULL, user BLOB NOT NULL, kind INTEGER NOT NULL, key TEXT NOT NULL,
            stamp INTEGER NOT NULL, node INTEGER NOT NULL, value BLOB, expires INTEGER,
            PRIMARY KEY (slot, user, kind, key)
        ) WITHOUT ROWID
        """

    /// The expected texts of `sqlite_schema`. A column without its type would be readable, but lookups would miss its rows.
    static func schema(version: Int) -> [String] { [meta, version == 1 ? rowsOfVersion1 : rows] }

    static func create(in database: Database, version: Int = schemaVersion) throws {
        for sql in schema(version: version) { try database.execute(sql: sql) }
        try database.execute(sql: "PRAGMA application_id = \(SQLiteStore.applicationID); PRAGMA user_version = \(version)")
    }

    /// Gives every row of schema version 1 its checksum.
    static func migrate(_ database: Database) throws {
        guard try Int.fetchOne(database, sql: "PRAGMA user_version") == 1 else { return }
        try database.execute(sql: rows)
        let statement = try database.cachedStatement(sql: upsert)
        let found = try GRDB.Row.fetchCursor(database, sql: select(version: 1) + " ORDER BY slot, user, kind, key")
        while let row = try found.next() {
            if let row = read(row) { try statement.execute(arguments: arguments(row)) }  // The inspection has read all rows.
        }
        try database.execute(sql: "DROP TABLE row; PRAGMA user_version = \(schemaVersion)")
    }

    // MARK: Rows

    static func select(version: Int) -> String {
        let (checksum, table) = version == 1 ? ("NULL", "row") : ("checksum", "rows")
        return "SELECT slot, user, kind, key, stamp, node, value, expires, \(checksum) FROM \(table)"
    }

    /// Replaces a row that is not newer.
    static let upsert = upsert(where: ">=")
    /// Replaces a row that is older.
    static let upsertOverOlder = upsert(where: ">")

    private static func upsert(where comparison: String) -> String {
        """
        INSERT INTO rows (slot, user, kind, key, stamp, node, value, expires, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (slot, user, kind, key) DO UPDATE SET stamp = excluded.stamp, node = excluded.node, value = excluded.value,
        expires = excluded.expires, checksum = excluded.checksum
        WHERE (excluded.stamp, excluded.node) \(comparison) (rows.stamp, rows.node)
        """
    }

    /// Deletes all rows of the users of these slots.
    static func deleteSlots(_ slots: Set<Slot>, in database: Database) throws {
        guard !slots.isEmpty else { return }
        let kinds = PresenceWire.Row.Kind.ofUsers.map { String($0.rawValue) }.joined(separator: ", ")
        let statement = try database.cachedStatement(sql: "DELETE FROM rows WHERE slot = ? AND kind IN (\(kinds))")
        for slot in slots { try statement.execute(arguments: [Int(slot)]) }
    }

    /// Deletes rows that have not been replaced by another version.
    static func deleteRows(_ rows: ArraySlice<PresenceWire.Row>, in database: Database) throws {
        guard !rows.isEmpty else { return }
        let statement = try database.cachedStatement(
            sql: "DELETE FROM rows WHERE slot = ? AND user = ? AND kind = ? AND key = ? AND stamp = ? AND node = ?")
        for row in rows { try statement.execute(arguments: key(of: row) + version(of: row)) }
    }

    /// Deletes damaged rows, as far as they are found by their keys.
    static func deleteDamagedRows(_ keys: [StoreDamage.Key], in database: Database) throws {
        guard !keys.isEmpty else { return }
        let statement = try database.cachedStatement(sql: "DELETE FROM rows WHERE slot = ? AND user = ? AND kind = ? AND key = ?")
        for key in keys { try statement.execute(arguments: [key.slot, key.user, key.kind, key.key]) }
    }

    private static func key(of row: PresenceWire.Row) -> StatementArguments {
        [Int(row.user.slot), row.user.withBytes { Data($0) }, Int(row.kind.rawValue), row.key]
    }

    private static func version(of row: PresenceWire.Row) -> StatementArguments {
        [Int64(bitPattern: row.version.stamp), Int64(row.version.node)]
    }

    static func arguments(_ row: PresenceWire.Row) -> StatementArguments {
        key(of: row) + version(of: row) + [row.value.map { Data($0) }, row.expiresAt, checksum(of: row)]
    }

    /// Decodes a row; nil if its fields differ from those that were written.
    ///
    /// - Parameter row: a result of ``select(version:)``.
    static func read(_ row: GRDB.Row) -> PresenceWire.Row? {
        let field = { (index: Int) -> DatabaseValue in row[index] }
        guard let slot = Int.fromDatabaseValue(field(0)), let joined = Data.fromDatabaseValue(field(1)),
            let code = UInt8.fromDatabaseValue(field(2)), let kind = PresenceWire.Row.Kind(rawValue: code),
            let key = String.fromDatabaseValue(field(3)), let stamp = Int64.fromDatabaseValue(field(4)),
            let node = UInt32.fromDatabaseValue(field(5)), let user = UserID(stored: joined), Int(user.slot) == slot
        else { return nil }
        let (value, expires) = (Data.fromDatabaseValue(field(6)), Int64.fromDatabaseValue(field(7)))
        guard (value == nil) == field(6).isNull, (expires == nil) == field(7).isNull else { return nil }
        let found = PresenceWire.Row(
            user: user, kind: kind, key: key, version: Version(stamp: UInt64(bitPattern: stamp), node: node),
            value: value.map { Array($0) }, expiresAt: expires)
        if field(8).isNull { return found }  // Version 1.
        return Int64.fromDatabaseValue(field(8)) == checksum(of: found) ? found : nil
    }

    /// Returns the checksum over all fields. A missing field differs from an empty field and from 0.
    static func checksum(of row: PresenceWire.Row) -> Int64 {
        var hash = row.user.withBytes { StableHash.hash64($0) }
        hash = StableHash.mix(hash, UInt64(row.kind.rawValue))
        hash = StableHash.mix(hash, StableHash.hash64(row.key.utf8))
        hash = StableHash.mix(hash, row.version.stamp)
        hash = StableHash.mix(hash, UInt64(row.version.node))
        hash = StableHash.mix(hash, row.value.map { StableHash.hash64($0) } ?? 1)
        hash = StableHash.mix(hash, row.expiresAt.map { StableHash.mix(2, UInt64(bitPattern: $0)) } ?? 3)
        return Int64(bitPattern: hash)
    }
}

extension UserID {
    fileprivate init?(stored joined: Data) {
        let parts = joined.split(separator: 0, omittingEmptySubsequences: false)
        guard parts.count == 2, let app = String(validating: parts[0], as: UTF8.self), let id = String(validating: parts[1], as: UTF8.self)
        else { return nil }
        self.init(app: app, id: id)
    }
}
