import PresenceCore
import PresenceWire

/// A disk that knows what it was told to sync: what was not is lost when the node dies.
///
/// Like the store, it takes all that is urgent into one group and a little of the rest into every other one, keeps what could not be
/// written, and never lets an older row replace a newer.
struct SimulatedDisk {
    struct Key: Hashable {
        let user: UserID
        let kind: Row.Kind
        let key: String
    }

    /// What survives.
    private(set) var rows: [Key: Row] = [:]
    /// The keys of ``rows``, and some of rows that are gone: those that came before the last start are in order.
    private var keys: [Key] = []
    private struct Write {
        var rows: [Row]
        let ticket: UInt64
        let isUrgent: Bool
        /// What was there of these before is removed.
        var discarded: Set<Slot> = []
        /// What was there of these before, in just these versions, is removed.
        var forgotten: [Row] = []

        var isEmpty: Bool { rows.isEmpty && discarded.isEmpty && forgotten.isEmpty }
    }

    private var urgent: [Write] = []
    private var bulk: [Write] = []
    private var group: [Write] = []
    private var wasBulk = false
    /// Rows that were refused because the disk was full: written with the next group that succeeds.
    private var failed: [Write] = []
    /// Few, so that what is urgent passes the rest now and then.
    private static let rowsInBulkOfGroup = 8
    var isFull = false
    var isSlow = false

    /// The group under way removes what has moved away.
    var isDiscarding: Bool { group.contains { !$0.discarded.isEmpty } }

    /// Nothing waits.
    var isIdle: Bool { group.isEmpty && urgent.isEmpty && bulk.isEmpty && failed.isEmpty }

    mutating func write(_ rows: [Row], ticket: UInt64, isUrgent: Bool) {
        let write = Write(rows: rows, ticket: ticket, isUrgent: isUrgent)
        if isUrgent { urgent.append(write) } else { bulk.append(write) }
    }

    /// Removes what there is of the users of these slots, in its turn.
    mutating func discard(_ slots: Set<Slot>) {
        for place in bulk.indices { bulk[place].rows.removeAll { $0.kind.isOfUser && slots.contains($0.user.slot) } }
        urgent.append(Write(rows: [], ticket: 0, isUrgent: true, discarded: slots))
    }

    /// Removes these rows, unless newer ones have taken their places, in its turn.
    mutating func forget(_ rows: [Row]) { bulk.append(Write(rows: [], ticket: 0, isUrgent: false, forgotten: rows)) }

    /// At the start nothing else waits, and the node waits for it. Returns whether the disk has taken it.
    mutating func writesAtOnce(_ row: Row) -> Bool {
        if !isFull { keep([Write(rows: [row], ticket: 0, isUrgent: true)]) }
        return !isFull
    }

    /// Takes what waits into one group. Returns whether there is anything to commit.
    mutating func begin() -> Bool {
        guard group.isEmpty, !urgent.isEmpty || !bulk.isEmpty || (!failed.isEmpty && !isFull) else { return false }
        group = urgent
        urgent = []
        if group.isEmpty || !wasBulk { takeBulk() } else { wasBulk = false }
        if group.isEmpty { group = [Write(rows: [], ticket: 0, isUrgent: true)] }
        return true
    }

    /// The last part of a write has its ticket: then the others are on disk.
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

    /// The group is on disk, or was refused. Returns its tickets.
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

    /// The node has died: the group under way is on disk or is not.
    mutating func crash(keepsGroup: Bool) {
        if keepsGroup, !isFull { keep(failed + group) }
        (urgent, bulk, group, failed) = ([], [], [], [])
        wasBulk = false
    }

    /// Whether a crash now would leave a row of this version, or a newer one.
    func holds(_ key: Key, _ version: Version) -> Bool { (rows[key]?.version ?? .zero) >= version }

    private mutating func keep(_ written: [Write]) {
        for write in written {
            // order does not matter: each is looked at for itself.
            if !write.discarded.isEmpty { rows = rows.filter { !$0.key.kind.isOfUser || !write.discarded.contains($0.key.user.slot) } }
            for row in write.forgotten {
                let key = Key(user: row.user, kind: row.kind, key: row.key)
                if rows[key]?.version == row.version { rows[key] = nil }
            }
            for row in write.rows {
                let key = Key(user: row.user, kind: row.kind, key: row.key)
                if let old = rows.updateValue(row, forKey: key) {
                    if old.version > row.version || (old.version == row.version && !write.isUrgent) { rows[key] = old }
                } else {
                    keys.append(key)
                }
            }
        }
    }

    /// All rows, as the store reads them: in key order.
    mutating func sortedRows() -> [Row] {
        keys.sort { left, right in
            if left.user != right.user { return left.user < right.user }
            if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
            return left.key.utf8.lexicographicallyPrecedes(right.key.utf8)
        }
        var (read, last): ([Row], Key?) = ([], nil)
        keys.removeAll { key in
            // A row that was discarded and came back has two.
            guard key != last, let row = rows[key] else { return true }
            read.append(row)
            last = key
            return false
        }
        return read
    }
}
