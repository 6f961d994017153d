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
        // With a log left by a crash only a connection that may write can read; its recovery is what the node needs anyway.
        let hasLog = FileManager.default.fileExists(atPath: path + "-wal")
        try examine(path: hasLog ? path : "file:\(path)?immutable=1", isReadOnly: !hasLog, name: path, nodeID: nodeID, cluster: cluster)
    }

    private static func examine(path: String, isReadOnly: Bool, name: String, nodeID: String, cluster: String) throws {
        var configuration = GRDB.Configuration()
        configuration.readonly = isReadOnly
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let (problems, meta) = try queue.read { database in
            let problems = try String.fetchAll(database, sql: "PRAGMA quick_check(3)")
            let rows = try GRDB.Row.fetchAll(database, sql: "SELECT name, value FROM meta")
            return (problems, Dictionary(uniqueKeysWithValues: rows.map { ($0["name"] as String, $0["value"] as String) }))
        }
        try queue.close()
        guard problems == ["ok"] else {
            throw StoreError.unusable(path: name, problem: "is damaged: \(problems.joined(separator: "; ")); restore a backup")
        }
        guard meta["cluster"] == cluster else {
            throw StoreError.unusable(path: name, problem: "belongs to cluster \"\(meta["cluster"] ?? "?")\", not \"\(cluster)\"")
        }
        guard meta["node"] == nodeID else {
            throw StoreError.unusable(
                path: name, problem: "belongs to node \"\(meta["node"] ?? "?")\", not \"\(nodeID)\"; use another --data-dir")
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
