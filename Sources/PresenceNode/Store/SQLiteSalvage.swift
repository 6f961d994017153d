import Foundation
import GRDB
import PresenceWire

/// Replaces a damaged file by one that holds what can still be read of it. Whatever kills the node meanwhile, the next start goes on from
/// there: the new file is complete before it gets a name that says so, and only then does the old one lose its own.
struct SQLiteSalvage {
    let path: String
    private var finished: String { path + "-salvaged" }

    /// Makes the new file, puts the damaged one and its log aside and the new one in its place.
    func salvage(_ damage: SQLiteInspection.Damage, nodeID: String, cluster: String, time: Milliseconds) throws -> StoreSalvage {
        let (kept, lost) = try copy(because: damage.problem, nodeID: nodeID, cluster: cluster)
        let aside = path + ".damaged-\(time)"
        try putAside(as: aside)
        try FileManager.default.moveItem(atPath: finished, toPath: path)
        return StoreSalvage(problem: damage.problem, damagedFile: aside, rowsKept: kept, rowsDamaged: lost)
    }

    /// Ends what a crash interrupted.
    func resume(time: Milliseconds) throws {
        guard FileManager.default.fileExists(atPath: finished) else { return }
        try putAside(as: path + ".damaged-\(time)")
        try FileManager.default.moveItem(atPath: finished, toPath: path)
    }

    /// The log first has no name without its database, so both go before a new database comes.
    private func putAside(as aside: String) throws {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.moveItem(atPath: path + suffix, toPath: aside + suffix)
        }
    }

    /// All that can be read, in a transaction of its own.
    private func copy(because problem: String, nodeID: String, cluster: String) throws -> (kept: Int, lost: Int) {
        var (kept, lost) = (0, 0)
        let queue = try SQLiteStore.draft(path + "-new", nodeID: nodeID, cluster: cluster)
        try queue.write { target in
            try target.execute(sql: "INSERT INTO meta VALUES ('incomplete', ?)", arguments: [problem])
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

    /// Calls `body` with each row, and with nil for one that is damaged and for a page that cannot be read: then it goes on one slot
    /// further, then two, four and so on until it can read again, so that a page costs at most twice the slots that are on it, and a
    /// file of which nothing can be read sixteen tries. Not at all for one whose head or schema is gone.
    ///
    /// - Returns: what `body` threw.
    private func readAll(_ body: (PresenceWire.Row?) throws -> Void) -> (any Error)? {
        var failure: (any Error)?
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
        } catch { return failure }  // Nothing can be read.
        return failure
    }

    /// - Returns: the last slot that could be read; nil once all has been.
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
