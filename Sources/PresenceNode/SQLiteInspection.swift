import Foundation
import GRDB

/// Looks at a database file before it is opened for writing, on a copy-free read-only connection, so that a file that cannot be used
/// is left byte for byte as it was.
enum SQLiteInspection {
    static func check(path: String, nodeID: String, cluster: String) throws(StoreError) {
        do {
            try inspect(path, nodeID: nodeID, cluster: cluster)
        } catch let error as StoreError {
            throw error
        } catch {
            throw .unusable(path: path, problem: explain(error))
        }
    }

    private static func inspect(_ path: String, nodeID: String, cluster: String) throws {
        let header = try FileHandle(forReadingFrom: URL(fileURLWithPath: path)).read(upToCount: 100) ?? Data()
        guard header.starts(with: Array("SQLite format 3\0".utf8)), header.count == 100 else {
            throw StoreError.unusable(
                path: path, problem: "is not an SQLite database, or its first page is damaged; restore a backup or remove it")
        }
        let bigEndian = { (offset: Int) in header[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        guard bigEndian(68) == SQLiteStore.applicationID else {
            throw StoreError.unusable(path: path, problem: "is a database of another application (application_id \(bigEndian(68)))")
        }
        guard bigEndian(60) <= SQLiteStore.schemaVersion else {
            let problem = "has schema version \(bigEndian(60)); this binary knows up to \(SQLiteStore.schemaVersion): run a newer one"
            throw StoreError.unusable(path: path, problem: problem)
        }
        // Whose it is stands in the main file from the beginning: it is read before anything is opened for writing.
        let frozen = "file:\(path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path)?immutable=1"
        try examine(frozen, isReadOnly: true) { try checkOwner($0, path: path, nodeID: nodeID, cluster: cluster) }
        // With a log left by a crash only a connection that may write can read; its recovery is what the node needs anyway.
        let hasLog = FileManager.default.fileExists(atPath: path + "-wal")
        try examine(hasLog ? path : frozen, isReadOnly: !hasLog) { database in
            let problems = try String.fetchAll(database, sql: "PRAGMA quick_check(3)")
            guard problems == ["ok"] else {
                throw StoreError.unusable(path: path, problem: "is damaged: \(problems.joined(separator: "; ")); restore a backup")
            }
        }
    }

    private static func examine(_ path: String, isReadOnly: Bool, _ body: (Database) throws -> Void) throws {
        var configuration = GRDB.Configuration()
        configuration.readonly = isReadOnly
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.read(body)
        try queue.close()
    }

    private static func checkOwner(_ database: Database, path: String, nodeID: String, cluster: String) throws {
        let rows = try GRDB.Row.fetchAll(database, sql: "SELECT name, value FROM meta")
        let meta = Dictionary(uniqueKeysWithValues: rows.map { ($0["name"] as String, $0["value"] as String) })
        guard meta["cluster"] == cluster else {
            throw StoreError.unusable(path: path, problem: "belongs to cluster \"\(meta["cluster"] ?? "?")\", not \"\(cluster)\"")
        }
        guard meta["node"] == nodeID else {
            throw StoreError.unusable(
                path: path, problem: "belongs to node \"\(meta["node"] ?? "?")\", not \"\(nodeID)\"; use another --data-dir")
        }
    }

    static func explain(_ error: any Error) -> String {
        guard let error = error as? DatabaseError else { return error.localizedDescription }
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED: return "is in use by another process"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: return "is damaged: \(error.message ?? "no details"); restore a backup"
        default: return "\(error.message ?? "SQLite error") (\(error.extendedResultCode.rawValue))"
        }
    }
}
