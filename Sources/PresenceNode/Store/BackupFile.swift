import Foundation
import GRDB

/// A file with the backup of one node's database: see <doc:Operations#Backup-and-restore>.
public struct BackupFile: Sendable {
    public let path: String
    /// The node and the cluster to which the database belongs.
    public let node: String
    public let cluster: String
    /// The rows in it, tombstones included.
    public let rowsCount: Int
    public let bytesCount: Int

    /// Examines a file: all pages and rows are compared with their checksums. Throws a ``StoreError`` for a file that is no intact backup.
    public init(checking path: String) throws(StoreError) {
        guard FileManager.default.fileExists(atPath: path) else { throw .notABackup(path: path, problem: "is not there") }
        self.path = path
        var found: (meta: StoreMeta, rowsCount: Int)?
        let damage: SQLiteInspection.Damage?
        do {
            damage = try SQLiteInspection.damage(path: path) { database in
                let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
                let rows = try Int.fetchOne(database, sql: "SELECT count(*) FROM (\(RowTable.select(version: version)))") ?? 0
                found = (try StoreMeta(database), rows)
            }
            bytesCount = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
        } catch {
            if case .unusable(_, let problem)? = error as? StoreError { throw .notABackup(path: path, problem: problem) }
            throw .notABackup(path: path, problem: SQLiteInspection.explain(error))
        }
        if let damage { throw .notABackup(path: path, problem: damage.problem) }
        guard let found, let node = found.meta["node"], let cluster = found.meta["cluster"] else {
            throw .notABackup(path: path, problem: "does not say to which node it belongs")
        }
        (self.node, self.cluster, rowsCount) = (node, cluster, found.rowsCount)
    }

    /// Puts the database into a data directory, which must have none. Nothing is changed if it throws.
    public func restore(into directory: String) throws(StoreError) {
        try PrivateFiles.makeFolder(directory, of: SQLiteStore.fileName)
        let target = "\(directory)/\(SQLiteStore.fileName)"
        let folder = try FolderLock(directory, of: target)
        defer { folder.release() }
        for file in [target, target + "-wal"] where FileManager.default.fileExists(atPath: file) {
            throw .unusable(path: file, problem: "exists; move it away, or restore into another --data-dir")
        }
        let part = target + "-restored"
        do {
            if FileManager.default.fileExists(atPath: part) { try FileManager.default.removeItem(atPath: part) }
            try PrivateFiles.make(part)
            try Self.copy(path, to: part)
            // A backup that was cut off or changed meanwhile does not become the database.
            _ = try BackupFile(checking: part)
            guard rename(part, target) == 0 else {
                throw StoreError.unusable(path: target, problem: String(cString: strerror(errno)))
            }
        } catch {
            unlink(part)
            if let error = error as? StoreError { throw error }
            throw .unusable(path: target, problem: "cannot be written: \(error.localizedDescription)")
        }
    }

    private static func copy(_ source: String, to target: String) throws {
        let (input, output) = (FileHandle(forReadingAtPath: source), FileHandle(forWritingAtPath: target))
        guard let input, let output else { throw StoreError.notABackup(path: source, problem: "cannot be read") }
        while let piece = try input.read(upToCount: 1 << 20), !piece.isEmpty { try output.write(contentsOf: piece) }
        try output.synchronize()
        try output.close()
        try input.close()
    }
}
