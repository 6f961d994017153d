import Foundation
import GRDB
import PresenceWire

/// Replaces a damaged file by a new file with all rows that can still be read.
///
/// If the node is killed meanwhile, the next start continues: the new file is complete before it gets its name, and only then is the
/// damaged file renamed.
struct SQLiteSalvage {
    let path: String
    private var finished: String { path + "-salvaged" }

    /// Creates the new file, moves the damaged file and its log aside, and moves the new file into their place.
    func salvage(_ damage: SQLiteInspection.Damage, nodeID: String, cluster: String, time: Milliseconds) throws -> StoreSalvage {
        let (kept, lost) = try copy(because: damage.problem, nodeID: nodeID, cluster: cluster)
        let aside = path + ".damaged-\(time)"
        try putAside(as: aside)
        try FileManager.default.moveItem(atPath: finished, toPath: path)
        return StoreSalvage(problem: damage.problem, damagedFile: aside, rowsKept: kept, rowsDamaged: lost)
    }

    /// Finishes a salvage that a crash interrupted.
    func resume(time: Milliseconds) throws {
        guard FileManager.default.fileExists(atPath: finished) else { return }
        try putAside(as: path + ".damaged-\(time)")
        try FileManager.default.moveItem(atPath: finished, toPath: path)
    }

    /// Moves the damaged file and its log aside. Both move before the new file gets the name, so that no log belongs to the wrong file.
    private func putAside(as aside: String) throws {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.moveItem(atPath: path + suffix, toPath: aside + suffix)
        }
    }

    /// Copies all readable rows into the new file, in one transaction.
    private func copy(because problem: String, nodeID: String, cluster: String) throws -> (kept: Int, lost: Int) {
        var (kept, lost) = (0, 0)
        let queue = try SQLiteStore.draft(path + "-new", nodeID: nodeID, cluster: cluster)
        try queue.write { target in
            try StoreMeta.set("incomplete", problem, in: target)
            let statement = try target.cachedStatement(sql: RowTable.upsert)
            let failure = readAll { row in
                guard let row else { return lost += 1 }
                try statement.execute(arguments: RowTable.arguments(row))
                kept += 1
            }
            if let failure { throw failure }
        }
        try queue.close()
        try FileManager.default.moveItem(atPath: path + "-new", toPath: finished)
        return (kept, lost)
    }

    /// Calls `body` with each row, and with nil for each damaged row and each unreadable page.
    ///
    /// After an unreadable page it skips one slot, then two, four and so on until it can read again. A page therefore costs at most twice
    /// its slots, and an unreadable file costs sixteen attempts. A file without a readable header or schema gives no rows.
    ///
    /// - Returns: the error that `body` threw.
    private func readAll(_ body: (PresenceWire.Row?) throws -> Void) -> (any Error)? {
        var failure: (any Error)?
        // SQLite would create a file that is missing, and delete its log.
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        do {
            try SQLiteInspection.examine(path) { source in
                let version = (try Int.fetchOne(source, sql: "PRAGMA user_version")) == 1 ? 1 : RowTable.schemaVersion
                let sql = RowTable.select(version: version) + " WHERE slot >= ? ORDER BY slot, user, kind, key"
                let select = try source.cachedStatement(sql: sql)
                var (first, step) = (0, 1)
                while first <= Int(Slot.max), failure == nil {
                    guard let last = Self.read(select, from: first, into: body, &failure) else { break }
                    step = last > first ? 1 : step * 2
                    first = last + step
                }
            }
        } catch { return failure }  // The file has no readable header or schema.
        return failure
    }

    /// Returns the last slot that could be read; nil after the end of the table.
    private static func read(
        _ select: Statement, from first: Int, into body: (PresenceWire.Row?) throws -> Void, _ failure: inout (any Error)?
    ) -> Int? {
        var slot = first
        do {
            let found = try GRDB.Row.fetchCursor(select, arguments: [first])
            while let next = try found.next(), failure == nil {
                let row = RowTable.read(next)
                if let row { slot = max(slot, Int(row.user.slot)) }
                do { try body(row) } catch { failure = error }
            }
            return nil
        } catch {
            do { try body(nil) } catch { failure = error }
            return slot
        }
    }
}
