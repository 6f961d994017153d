import PresenceCore
import PresenceWire

/// A disk that knows what it was told to sync: what was not is lost when the node dies.
///
/// Like the store, it takes all that waits into one group, keeps what could not be written, and never lets an older row replace a newer.
struct SimulatedDisk {
    struct Key: Hashable {
        let user: UserID
        let kind: Row.Kind
        let key: String
    }

    /// What survives.
    private(set) var rows: [Key: Row] = [:]
    private var waiting: [(rows: [Row], ticket: UInt64)] = []
    private var group: [(rows: [Row], ticket: UInt64)] = []
    /// Rows that were refused because the disk was full: written with the next group that succeeds.
    private var failed: [Row] = []
    var isFull = false
    var isSlow = false

    var isCommitting: Bool { !group.isEmpty }

    /// Nothing waits.
    var isIdle: Bool { group.isEmpty && waiting.isEmpty && failed.isEmpty }

    mutating func write(_ rows: [Row], ticket: UInt64) { waiting.append((rows, ticket)) }

    /// Takes what waits into one group. Returns whether there is anything to commit.
    mutating func begin() -> Bool {
        guard group.isEmpty, !waiting.isEmpty || (!failed.isEmpty && !isFull) else { return false }
        group = waiting.isEmpty ? [([], 0)] : waiting
        waiting = []
        return true
    }

    /// The group is on disk, or was refused. Returns its tickets.
    mutating func commit() -> (tickets: [UInt64], isDurable: Bool) {
        let tickets = group.map(\.ticket).filter { $0 != 0 }
        if isFull {
            failed += group.flatMap(\.rows)
        } else {
            keep(failed)
            keep(group.flatMap(\.rows))
            failed = []
        }
        group = []
        return (tickets, !isFull)
    }

    /// The node has died: the group under way is on disk or is not.
    mutating func crash(keepsGroup: Bool) {
        if keepsGroup, !isFull { keep(failed + group.flatMap(\.rows)) }
        waiting = []
        group = []
        failed = []
    }

    /// Whether a crash now would leave a row of this version, or a newer one.
    func holds(_ key: Key, _ version: Version) -> Bool { (rows[key]?.version ?? .zero) >= version }

    mutating func erase() { rows = [:] }

    private mutating func keep(_ written: [Row]) {
        for row in written {
            let key = Key(user: row.user, kind: row.kind, key: row.key)
            if let old = rows[key], old.version > row.version { continue }
            rows[key] = row
        }
    }

    /// All rows, as the store reads them: in key order.
    var sortedRows: [Row] {
        // order does not matter: sorted.
        rows.values.sorted { left, right in
            if left.user != right.user { return left.user < right.user }
            if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
            return left.key.utf8.lexicographicallyPrecedes(right.key.utf8)
        }
    }
}
