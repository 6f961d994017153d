import PresenceCore
import PresenceWire

/// A simulated disk: a node's death loses the rows that were not synced.
///
/// Like the store, it takes all urgent writes into one group, and a few bulk writes into every other group. It retries failed writes, and
/// never replaces a newer row by an older one.
package struct SimulatedDisk {
    package struct Key: Hashable {
        let user: UserID
        let kind: Row.Kind
        let key: String

        init(_ user: UserID, _ kind: Row.Kind = .status, _ key: String = "") { (self.user, self.kind, self.key) = (user, kind, key) }
    }

    /// The rows that survive a crash.
    package private(set) var rows: [Key: Row] = [:]
    /// The keys of ``rows``, and some of removed rows. Those from before the last start are in order.
    private var keys: [Key] = []
    private struct Write {
        var rows: [Row]
        let ticket: UInt64
        let isUrgent: Bool
        /// The slots whose earlier rows are deleted.
        var deletedSlots: Set<Slot> = []
        /// The earlier rows that are deleted, in exactly these versions.
        var deletedRows: [Row] = []

        var isEmpty: Bool { rows.isEmpty && deletedSlots.isEmpty && deletedRows.isEmpty }
    }

    private var urgent: [Write] = []
    private var bulk: [Write] = []
    private var group: [Write] = []
    private var wasBulk = false
    /// The writes that failed because the disk was full. They are repeated with the next group that succeeds.
    private var failed: [Write] = []
    /// The bulk rows of a group. They are few, so that urgent writes overtake them now and then.
    private static let rowsInBulkOfGroup = 8
    var isFull = false
    var isSlow = false

    /// Whether the current group deletes rows whose slots have moved.
    var isDeletingSlots: Bool { group.contains { !$0.deletedSlots.isEmpty } }

    mutating func write(_ rows: [Row], ticket: UInt64, isUrgent: Bool) {
        let write = Write(rows: rows, ticket: ticket, isUrgent: isUrgent)
        if isUrgent { urgent.append(write) } else { bulk.append(write) }
    }

    /// Deletes the rows of these slots, after the earlier writes.
    mutating func deleteSlots(_ slots: Set<Slot>) {
        for index in bulk.indices { bulk[index].rows.removeAll { $0.kind.isOfUser && slots.contains($0.user.slot) } }
        urgent.append(Write(rows: [], ticket: 0, isUrgent: true, deletedSlots: slots))
    }

    /// Deletes these rows, unless newer ones have replaced them, after the earlier writes.
    mutating func deleteRows(_ rows: [Row]) { bulk.append(Write(rows: [], ticket: 0, isUrgent: false, deletedRows: rows)) }

    /// Writes a row that the node waits for at its start, when nothing else waits. Returns whether the disk has stored it.
    package mutating func writesAtOnce(_ row: Row) -> Bool {
        if !isFull { keep([Write(rows: [row], ticket: 0, isUrgent: true)]) }
        return !isFull
    }

    /// Takes the waiting writes into one group. Returns whether there is anything to commit.
    mutating func begin() -> Bool {
        guard group.isEmpty, !urgent.isEmpty || !bulk.isEmpty || (!failed.isEmpty && !isFull) else { return false }
        group = urgent
        urgent = []
        if group.isEmpty || !wasBulk { takeBulk() } else { wasBulk = false }
        if group.isEmpty { group = [Write(rows: [], ticket: 0, isUrgent: true)] }
        return true
    }

    /// Takes some bulk rows. The last part of a write has its ticket, because the other parts are on disk then.
    private mutating func takeBulk() {
        var room = Self.rowsInBulkOfGroup
        wasBulk = !bulk.isEmpty
        while let first = bulk.first, room > 0 {
            if first.rows.count > room {
                group.append(Write(rows: Array(first.rows.prefix(room)), ticket: 0, isUrgent: false))
                bulk[0].rows.removeFirst(room)
                return
            }
            room -= first.rows.count
            group.append(bulk.removeFirst())
        }
    }

    /// Ends the group: it is on disk, or has failed. Returns its tickets.
    mutating func commit() -> (tickets: [UInt64], isDurable: Bool) {
        let tickets = group.map(\.ticket).filter { $0 != 0 }
        if isFull {
            failed += group.filter { !$0.isEmpty }
        } else {
            keep(failed)
            keep(group)
            failed = []
        }
        group = []
        return (tickets, !isFull)
    }

    /// Handles the node's death: the current group is on disk or is not.
    mutating func crash(keepsGroup: Bool) {
        if keepsGroup, !isFull { keep(failed + group) }
        (urgent, bulk, group, failed) = ([], [], [], [])
        wasBulk = false
    }

    /// Whether a crash now would leave a row of this version, or a newer one.
    func holds(_ key: Key, _ version: Version) -> Bool { (rows[key]?.version ?? .zero) >= version }

    private mutating func keep(_ written: [Write]) {
        for write in written {
            // order does not matter: each row is checked by itself.
            if !write.deletedSlots.isEmpty {
                rows = rows.filter { !$0.key.kind.isOfUser || !write.deletedSlots.contains($0.key.user.slot) }
            }
            for row in write.deletedRows {
                let key = Key(row.user, row.kind, row.key)
                if rows[key]?.version == row.version { rows[key] = nil }
            }
            for row in write.rows {
                let key = Key(row.user, row.kind, row.key)
                if let old = rows.updateValue(row, forKey: key) {
                    if old.version > row.version || (old.version == row.version && !write.isUrgent) { rows[key] = old }
                } else {
                    keys.append(key)
                }
            }
        }
    }

    /// All rows, in the order in which the store reads them: by key.
    package mutating func sortedRows() -> [Row] {
        keys.sort { left, right in
            if left.user != right.user { return left.user < right.user }
            if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
            return left.key.utf8.lexicographicallyPrecedes(right.key.utf8)
        }
        var (read, last): ([Row], Key?) = ([], nil)
        keys.removeAll { key in
            // A row that was deleted and came back has two keys.
            guard key != last, let row = rows[key] else { return true }
            read.append(row)
            last = key
            return false
        }
        return read
    }
}
