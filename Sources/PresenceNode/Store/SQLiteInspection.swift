import CSQLite
import Foundation
import GRDB
import PresenceWire

/// Examines a database file before it is opened for writing. The file and its log stay byte for byte as they were.
enum SQLiteInspection {
    /// Damage of a file that belongs to this node.
    struct Damage: Error {
        let problem: String
    }

    /// Returns the damage of a file; nil for a file that can be used.
    ///
    /// - Throws: for a file that does not belong to this node, or that cannot be read.
    static func damage(path: String, nodeID: String, cluster: String) throws(StoreError) -> Damage? {
        try damage(path: path, isOwn: { isOwn(path, nodeID: nodeID, cluster: cluster) }) { database in
            try checkOwner(database, path: path, nodeID: nodeID, cluster: cluster)
        }
    }

    /// Returns the damage of a file; nil for a file that can be used.
    ///
    /// - Parameters:
    ///   - isOwn: whether a file whose header says otherwise belongs to this node.
    ///   - check: looks at the file before its pages and rows are compared with their checksums.
    static func damage(
        path: String, isOwn: () -> Bool = { false }, check: (Database) throws -> Void
    ) throws(StoreError) -> Damage? {
        do {
            let log = try WriteAheadLog(path: path + "-wal")
            if let problem = try headerProblem(path, hasLog: log.framesCount > 0) {
                guard isOwn() else { throw StoreError.unusable(path: path, problem: problem) }
                throw Damage(problem: "its header is damaged: it \(problem)")
            }
            if let problem = log.problem { throw Damage(problem: problem) }
            try examine(path) { database in
                try check(database)
                try checkPages(database)
                try checkRows(database)
            }
            return nil
        } catch let damage as Damage {
            return damage
        } catch let error as StoreError {
            throw error
        } catch {
            // Damage has many codes. A length that is too large is SQLITE_NOMEM or SQLITE_TOOBIG, an unreadable sector SQLITE_IOERR.
            if let code = (error as? DatabaseError)?.resultCode, !codesOfUse.contains(code) { return Damage(problem: "\(error)") }
            throw .unusable(path: path, problem: explain(error))
        }
    }

    /// Errors that say how a file may be used, and nothing about its content.
    static let codesOfUse: [ResultCode] = [
        .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_FULL, .SQLITE_INTERRUPT,
    ]

    /// Whether a file whose header says otherwise has this node's tables, of a known version, and its name.
    private static func isOwn(_ path: String, nodeID: String, cluster: String) -> Bool {
        do {
            var isOwn = false
            try examine(path) { database in
                let found = try schema(database)
                guard (1...RowTable.schemaVersion).contains(where: { RowTable.schema(version: $0) == found }) else { return }
                let meta = try StoreMeta(database)
                isOwn = meta["node"] == nodeID && meta["cluster"] == cluster
            }
            return isOwn
        } catch { return false }  // A file that SQLite cannot read.
    }

    private static func schema(_ database: Database) throws -> [String?] {
        try GRDB.Row.fetchAll(database, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .map { String.fromDatabaseValue($0[0]) }
    }

    /// Checks the application ID and the schema version in the header, whose places are the same in all versions of SQLite.
    ///
    /// - Returns: why the file seems to belong to another program or version.
    private static func headerProblem(_ path: String, hasLog: Bool) throws -> String? {
        let header = try FileHandle(forReadingFrom: URL(fileURLWithPath: path)).read(upToCount: 100) ?? Data()
        guard header.starts(with: Array("SQLite format 3\0".utf8)), header.count == 100 else {
            throw Damage(problem: "is not an SQLite database, or its first page is damaged")
        }
        let bigEndian = { (offset: Int) in header[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        guard bigEndian(68) == SQLiteStore.applicationID else {
            return "is a database of another application (application_id \(bigEndian(68))); use another --data-dir"
        }
        guard (1...RowTable.schemaVersion).contains(bigEndian(60)) else {
            return "has schema version \(bigEndian(60)); this binary reads versions up to \(RowTable.schemaVersion); run a newer binary"
        }
        // The bytes 2 and 2 mean that there may be a log, 1 and 1 mean that there is none.
        guard header[18] == header[19], header[18] == 2 || (header[18] == 1 && !hasLog) else {
            throw Damage(problem: "its header is damaged, or does not match the write-ahead log beside it")
        }
        return nil
    }

    /// Reads through a connection that writes nothing.
    ///
    /// Without a log, none is created. With a log, its index is in memory, and closing the connection leaves the log.
    static func examine(_ path: String, _ body: (Database) throws -> Void) throws {
        let hasLog = FileManager.default.fileExists(atPath: path + "-wal")
        let frozen = "file:\(path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path)?immutable=1"
        var configuration = GRDB.Configuration()
        configuration.readonly = !hasLog
        configuration.prepareDatabase { database in
            guard hasLog else { return }
            csqlite_keep_log(database.sqliteConnection)
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
        }
        let queue = try DatabaseQueue(path: hasLog ? path : frozen, configuration: configuration)
        try queue.read(body)
        try queue.close()
    }

    private static func checkOwner(_ database: Database, path: String, nodeID: String, cluster: String) throws {
        let meta = try StoreMeta(database)
        guard meta.isSumRight != false else { throw Damage(problem: "the names of its node and cluster have a wrong checksum") }
        guard meta["cluster"] == cluster else {
            throw StoreError.unusable(
                path: path, problem: "belongs to cluster \"\(meta["cluster"] ?? "?")\", not \"\(cluster)\"; use another --data-dir")
        }
        guard meta["node"] == nodeID else {
            throw StoreError.unusable(
                path: path, problem: "belongs to node \"\(meta["node"] ?? "?")\", not \"\(nodeID)\"; use another --data-dir")
        }
    }

    private static func checkPages(_ database: Database) throws {
        let problems = try String.fetchAll(database, sql: "PRAGMA quick_check(3)")
        guard problems == ["ok"] else { throw Damage(problem: problems.joined(separator: "; ")) }
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard try schema(database) == RowTable.schema(version: version) else {
            throw Damage(problem: "its schema differs from that of version \(version)")
        }
    }

    private static func checkRows(_ database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        let rows = try GRDB.Row.fetchCursor(database, sql: RowTable.select(version: version) + " ORDER BY slot, user, kind, key")
        var (count, damagedCount) = (0, 0)
        var last: PresenceWire.Row?
        while let row = try rows.next() {
            count += 1
            let next = RowTable.read(row)
            // A row that is out of order is present, but lookups miss it.
            let isInOrder = last.flatMap { last in next.map { last.key(isBefore: $0) } } ?? true
            if next == nil || !isInOrder { damagedCount += 1 }
            last = next
        }
        if damagedCount > 0 { throw Damage(problem: "\(damagedCount) of \(count) rows have a wrong checksum or order") }
    }

    static func explain(_ error: any Error) -> String {
        guard let error = error as? DatabaseError else { return error.localizedDescription }
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED: return "is in use by another process"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: return "is damaged: \(error.message ?? "no details")"
        default: return "\(error.message ?? "SQLite error") (\(error.extendedResultCode.rawValue))"
        }
    }
}

extension PresenceWire.Row {
    /// Whether this one's key comes before `other`'s in the table.
    func key(isBefore other: PresenceWire.Row) -> Bool {
        if user.slot != other.user.slot { return user.slot < other.user.slot }
        if user != other.user { return user < other.user }
        if kind != other.kind { return kind.rawValue < other.kind.rawValue }
        return key.utf8.lexicographicallyPrecedes(other.key.utf8)
    }
}
