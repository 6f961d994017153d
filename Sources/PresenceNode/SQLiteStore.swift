import Foundation
import GRDB
import NIOConcurrencyHelpers
import PresenceWire

/// Durable rows in SQLite, WAL and `synchronous=FULL`, through GRDB. One writer on its own thread takes all that waits into one
/// transaction (group commit): a synchronous write takes 0.3 to 4.5 ms, so rows that come together go together (design §6).
public final class SQLiteStore: Store {
    /// Rows that may wait for the disk; beyond it a write is refused with ``StoreError/overloaded``.
    public static let rowsWaitingMax = 1_000_000
    /// `PRAGMA user_version` of what this code writes.
    static let schemaVersion = 1
    /// `PRAGMA application_id`: "Roll".
    static let applicationID = 0x526F_6C6C

    private struct Pending {
        let rows: [PresenceWire.Row]
        let completion: @Sendable (Result<Void, StoreError>) -> Void
    }

    /// What the writer waits for.
    private enum Work { case idle, busy, ended }

    /// Touched under the lock only.
    private struct State {
        var pending: [Pending] = []
        var isClosed = false
        var statistics = StoreStatistics()
    }

    private let queue: DatabaseQueue
    private let state = ConditionLock(value: Work.idle)
    private nonisolated(unsafe) var shared = State()
    private let path: String

    /// Opens, or makes, `rollcall.sqlite` in `directory`. A file that cannot be used is left as it was.
    public init(directory: String, nodeID: String, cluster: String) throws(StoreError) {
        path = directory + "/rollcall.sqlite"
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw .unusable(path: directory, problem: "cannot be made: \(error.localizedDescription)")
        }
        let isNew = !FileManager.default.fileExists(atPath: path)
        if !isNew { try SQLiteInspection.check(path: path, nodeID: nodeID, cluster: cluster) }
        do {
            queue = try Self.open(path, isNew: isNew, nodeID: nodeID, cluster: cluster)
        } catch {
            throw .unusable(path: path, problem: SQLiteInspection.explain(error))
        }
        let thread = Thread { [self] in write() }
        thread.name = "rollcall-store"
        thread.start()
    }

    private static func open(_ path: String, isNew: Bool, nodeID: String, cluster: String) throws -> DatabaseQueue {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(1)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        if isNew { try create(path, nodeID: nodeID, cluster: cluster) }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Makes the file under another name and without a write-ahead log, then gives it its own: whatever kills the node, a file that is
    /// there says in its header what it is.
    private static func create(_ path: String, nodeID: String, cluster: String) throws {
        let draft = path + "-new"
        for leftover in [draft, draft + "-journal"] where FileManager.default.fileExists(atPath: leftover) {
            try FileManager.default.removeItem(atPath: leftover)
        }
        let queue = try DatabaseQueue(path: draft)
        try queue.write { database in
            try database.execute(
                sql: """
                    PRAGMA application_id = \(applicationID);
                    PRAGMA user_version = \(schemaVersion);
                    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                    CREATE TABLE row (
                        slot INTEGER NOT NULL, user BLOB NOT NULL, kind INTEGER NOT NULL, key TEXT NOT NULL,
                        stamp INTEGER NOT NULL, node INTEGER NOT NULL, value BLOB, expires INTEGER,
                        PRIMARY KEY (slot, user, kind, key)
                    ) WITHOUT ROWID;
                    """)
            try database.execute(sql: "INSERT INTO meta VALUES ('node', ?), ('cluster', ?)", arguments: [nodeID, cluster])
        }
        try queue.close()
        try FileManager.default.moveItem(atPath: draft, toPath: path)
    }

    public func load(_ body: (PresenceWire.Row) throws -> Void) throws {
        try queue.read { database in
            let sql = "SELECT user, kind, key, stamp, node, value, expires FROM row ORDER BY slot, user, kind, key"
            let rows = try GRDB.Row.fetchCursor(database, sql: sql)
            while let row = try rows.next() { try body(try PresenceWire.Row(row, path: path)) }
        }
    }

    public func persist(_ rows: [PresenceWire.Row], completion: @escaping @Sendable (Result<Void, StoreError>) -> Void) {
        state.lock()
        let isRefused = shared.isClosed || shared.statistics.rowsWaiting + rows.count > Self.rowsWaitingMax
        if !isRefused {
            shared.pending.append(Pending(rows: rows, completion: completion))
            shared.statistics.rowsWaiting += rows.count
        }
        state.unlock(withValue: shared.pending.isEmpty && !shared.isClosed ? .idle : .busy)
        if isRefused { completion(.failure(.overloaded)) }
    }

    public func close() {
        state.lock()
        let wasClosed = shared.isClosed
        shared.isClosed = true
        if wasClosed { return state.unlock() }
        state.unlock(withValue: .busy)
        state.lock(whenValue: .ended)
        state.unlock(withValue: .ended)
        do { try queue.close() } catch { return }  // Everything is in the file or its log.
    }

    public var statistics: StoreStatistics {
        state.lock()
        defer { state.unlock() }
        return shared.statistics
    }

    // MARK: The writer's thread

    private func write() {
        while true {
            state.lock(whenValue: .busy)
            let group = shared.pending
            shared.pending = []
            let isLast = shared.isClosed && group.isEmpty
            state.unlock(withValue: isLast ? .ended : shared.isClosed ? .busy : .idle)
            if isLast { return }
            let rowsCount = group.reduce(0) { $0 + $1.rows.count }
            let start = DispatchTime.now().uptimeNanoseconds
            let result = commit(group)
            let seconds = Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9
            state.lock()
            shared.statistics.rowsWaiting -= rowsCount
            shared.statistics.commitSeconds.observe(seconds: seconds)
            if case .success = result {
                shared.statistics.commits += 1
                shared.statistics.rows += UInt64(rowsCount)
            } else {
                shared.statistics.failures += 1
            }
            state.unlock()
            for pending in group { pending.completion(result) }
        }
    }

    private func commit(_ group: [Pending]) -> Result<Void, StoreError> {
        guard group.contains(where: { !$0.rows.isEmpty }) else { return .success(()) }
        do {
            try queue.write { database in
                let statement = try database.cachedStatement(sql: Self.upsert)
                for pending in group {
                    for row in pending.rows {
                        try statement.execute(arguments: [
                            Int(row.user.slot), row.user.withBytes { Data($0) }, Int(row.kind.rawValue), row.key,
                            Int64(bitPattern: row.version.stamp), Int64(row.version.node), row.value.map { Data($0) }, row.expiresAt,
                        ])
                    }
                }
            }
            return .success(())
        } catch {
            return .failure(.failed(SQLiteInspection.explain(error)))
        }
    }

    private static let upsert = """
        INSERT INTO row (slot, user, kind, key, stamp, node, value, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (slot, user, kind, key) DO UPDATE SET
        stamp = excluded.stamp, node = excluded.node, value = excluded.value, expires = excluded.expires
        WHERE (excluded.stamp, excluded.node) >= (row.stamp, row.node)
        """
}

extension PresenceWire.Row {
    fileprivate init(_ row: GRDB.Row, path: String) throws {
        let joined: Data = row["user"]
        let parts = joined.split(separator: 0, omittingEmptySubsequences: false)
        let code: Int = row["kind"]
        guard parts.count == 2, let kind = Kind(rawValue: UInt8(clamping: code)),
            let app = String(validating: parts[0], as: UTF8.self), let id = String(validating: parts[1], as: UTF8.self)
        else { throw StoreError.unusable(path: path, problem: "a row has kind \(code), or a user ID that is none; restore a backup") }
        let (stamp, node): (Int64, Int64) = (row["stamp"], row["node"])
        self.init(
            user: UserID(app: app, id: id), kind: kind, key: row["key"],
            version: Version(stamp: UInt64(bitPattern: stamp), node: UInt32(truncatingIfNeeded: node)),
            value: (row["value"] as Data?).map { Array($0) }, expiresAt: row["expires"])
    }
}
