import CSQLite
import Foundation
import GRDB
import PresenceWire

/// Damage that a scrub has found in the database of a running node.
///
/// The node answers from its memory, so no answer is wrong. But a restart would read the damaged rows.
public struct StoreDamage: Sendable {
    /// The damage, for the log.
    public let problem: String
    /// The slots whose rows the node writes again; nil if no damaged row was found.
    public let slots: ClosedRange<Slot>?
    /// The keys of damaged rows, which are deleted first.
    let keys: [Key]

    /// A key as the database has it, which may be damaged as well.
    struct Key: Hashable, Sendable {
        let slot: Int64
        let user: Data
        let kind: Int64
        let key: String
    }
}

/// Reads all rows and pages of an open database again and again, a few at a time, and compares them with their checksums.
///
/// A pass over a million rows takes about a quarter of an hour. Used only by the store, within its queue.
struct StoreScrub {
    /// The time from one step to the next.
    static let interval = 0.25
    private static let rowsAtOnce = 256

    /// Counts since the start.
    struct Counters: Equatable {
        var damagedRows: UInt64 = 0
        var damagedPages: UInt64 = 0
    }

    /// The place at which the next step begins, and the last good row before it.
    private struct Position {
        var after = StoreDamage.Key(slot: -1, user: Data(), kind: 0, key: "")
        var last: PresenceWire.Row?

        var slot: Int64 { max(after.slot, 0) }
    }

    private var pages: PageSums
    private var position = Position()
    /// The slots that are left out after rows that cannot be read. It doubles until rows can be read again.
    private var skippedSlots: Int64 = 1
    private var rowPasses: UInt64 = 0
    /// Damage that was reported, so that it is reported once. Damage that is repaired leaves with the end of a pass.
    private var known: Set<StoreDamage.Key> = []
    private var seen: Set<StoreDamage.Key> = []
    private(set) var counters = Counters()

    init(path: String, pageBytes: Int) throws { pages = try PageSums(path: path, pageBytes: pageBytes) }

    /// Passes over all rows and all pages that have ended.
    var passes: UInt64 { min(pages.passes, rowPasses) }

    /// Takes the pages of a log, which a checkpoint is about to write, as unknown.
    mutating func forgetPages(ofFrames framesCount: Int) throws { try pages.forgetPages(ofFrames: framesCount) }

    /// Looks at the next pages and rows. Returns the damage that is new.
    mutating func step(_ database: Database) throws -> [StoreDamage] {
        // Otherwise SQLite would read the rows from its memory.
        sqlite3_db_release_memory(database.sqliteConnection)
        var damage: [StoreDamage] = []
        for page in try pages.look() {
            counters.damagedPages += 1
            damage.append(StoreDamage(problem: "page \(page) has bytes that were never written", slots: nil, keys: []))
        }
        do {
            if let found = try readRows(database) { damage.append(found) }
        } catch { return damage }  // The disk cannot be read now. The next step tries again.
        return damage
    }

    // MARK: Rows

    private static let select =
        RowTable.select(version: RowTable.schemaVersion)
        + " WHERE (slot, user, kind, key) > (?, ?, ?, ?) ORDER BY slot, user, kind, key LIMIT \(rowsAtOnce)"

    private mutating func readRows(_ database: Database) throws -> StoreDamage? {
        var (count, isUnreadable) = (0, false)
        /// Damaged rows up to the last good one, and those after it, which the next step reads again.
        var (damaged, rest): ([StoreDamage.Key?], [StoreDamage.Key?]) = ([], [])
        let first = position.slot
        do {
            let after = position.after
            let found = try GRDB.Row.fetchCursor(
                try database.cachedStatement(sql: Self.select), arguments: [after.slot, after.user, after.kind, after.key])
            while let next = try found.next() {
                count += 1
                let key = Self.key(of: next)
                if let key, let row = RowTable.read(next), position.last?.key(isBefore: row) ?? true {
                    position = Position(after: key, last: row)
                    damaged += rest
                    rest = []
                } else {
                    rest.append(key)
                }
            }
        } catch let error as DatabaseError where !SQLiteInspection.codesOfUse.contains(error.resultCode) {
            isUnreadable = true
        }
        let isOver = !isUnreadable && count < Self.rowsAtOnce
        if isUnreadable || (!isOver && rest.count == count) {
            return skip(after: first, damaged + rest, isUnreadable: isUnreadable)
        }
        skippedSlots = 1
        if isOver { damaged += rest }
        let last = isOver && !rest.isEmpty ? Int64(Slot.max) : position.slot
        let report = self.report(damaged, slots: first...max(first, last))
        if isOver { endPass() }
        return report
    }

    /// Goes on after slots that cannot be read.
    private mutating func skip(after first: Int64, _ damaged: [StoreDamage.Key?], isUnreadable: Bool) -> StoreDamage? {
        let next = position.slot + skippedSlots
        skippedSlots *= 2
        let place = StoreDamage.Key(slot: next, user: Data(), kind: -1, key: "")
        position.after = place
        let report = self.report(damaged + (isUnreadable ? [place] : []), slots: first...max(first, min(next, Int64(Slot.max))))
        if next > Int64(Slot.max) { endPass() }
        return report
    }

    private mutating func endPass() {
        rowPasses += 1
        (position, skippedSlots) = (Position(), 1)
        (known, seen) = (seen, [])
    }

    /// The damage of rows that was not reported before.
    private mutating func report(_ damaged: [StoreDamage.Key?], slots: ClosedRange<Int64>) -> StoreDamage? {
        let keys = damaged.map { $0 ?? StoreDamage.Key(slot: slots.lowerBound, user: Data(), kind: -2, key: "") }
        let new = keys.filter { !known.contains($0) && !seen.contains($0) }
        seen.formUnion(keys)
        guard !new.isEmpty else { return nil }
        counters.damagedRows += UInt64(new.count)
        // The rows of all nodes are not among those of users, so they stay until the next start.
        let kinds = PresenceWire.Row.Kind.ofUsers.map { Int64($0.rawValue) }
        return StoreDamage(
            problem: "\(new.count) rows or pages of rows in slots \(slots.lowerBound) to \(slots.upperBound) are damaged",
            slots: Slot(clamping: slots.lowerBound)...Slot(clamping: slots.upperBound), keys: new.filter { kinds.contains($0.kind) })
    }

    private static func key(of row: GRDB.Row) -> StoreDamage.Key? {
        let field = { (index: Int) -> DatabaseValue in row[index] }
        guard let slot = Int64.fromDatabaseValue(field(0)), let user = Data.fromDatabaseValue(field(1)),
            let kind = Int64.fromDatabaseValue(field(2)), let key = String.fromDatabaseValue(field(3))
        else { return nil }
        return StoreDamage.Key(slot: slot, user: user, kind: kind, key: key)
    }
}

/// The length of a write-ahead log after the last commit, which SQLite reports.
final class LogLength {
    fileprivate(set) var framesCount = 0

    /// Follows the log of a connection, and ends SQLite's own checkpoints, which would write pages unnoticed.
    func follow(_ database: Database) {
        sqlite3_wal_hook(
            database.sqliteConnection,
            { context, _, _, framesCount in
                if let context { Unmanaged<LogLength>.fromOpaque(context).takeUnretainedValue().framesCount = Int(framesCount) }
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}
