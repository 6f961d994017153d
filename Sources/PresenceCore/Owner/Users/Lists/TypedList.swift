import PresenceWire

/// A row of a ``TypedList``.
protocol ListEntry {
    associatedtype Key
    /// Distinguishes the rows of one list.
    var key: Key { get }
    var version: Version { get }
    /// Whether the row is a tombstone.
    var isRemoved: Bool { get }
    /// Whether the row is a tombstone that has removed nothing. Clients are told nothing of it (``Row/removedNothing``).
    var isUnseen: Bool { get }
}

/// The memory of the rows of a ``TypedList``, sorted by key.
protocol ListStorage {
    associatedtype Entry: ListEntry
    init()
    /// The number of rows, tombstones included.
    var count: Int { get }
    /// The index of the row with this key, or the index at which it would be, by binary search.
    func find(_ key: Entry.Key) -> (index: Int, isFound: Bool)
    func entry(at index: Int) -> Entry
    func version(at index: Int) -> Version
    func isRemoved(at index: Int) -> Bool
    func isUnseen(at index: Int) -> Bool
    /// A hash of a row's key.
    func keyHash(at index: Int) -> UInt64
    /// Writes a row at an index of ``find(_:)``: in the place of the row there if it has this key, otherwise before it.
    mutating func write(_ entry: Entry, at index: Int, replaces: Bool)
    /// Removes the rows at these indices, which are sorted.
    mutating func remove(_ indices: [Int])
    /// The first property of the rows that does not hold, in words; nil for none. For simulations and tests.
    func brokenInvariant() -> String?
}

/// A durable list of one user: rows by key, with tombstones.
///
/// The row with the higher version wins, so two lists that have received the same rows are equal, in whatever order the rows arrived.
/// Tombstones stay for ``CoreSettings/tombstoneHorizon``, and at most ``tombstonesMax`` of them.
struct TypedList<Rows: ListStorage> {
    typealias Entry = Rows.Entry

    /// Tombstones that are kept: beyond it the oldest expire before their time. More than a full list of any preset has rows.
    static var tombstonesMax: Int { 4_096 }

    /// The rows. Only the list and its extensions change them.
    var rows = Rows()
    /// The version of the newest change that clients see, removals included; ``PresenceWire/Version/zero`` for none.
    ///
    /// A tombstone that has removed nothing does not move it, however new it is.
    private(set) var version = Version.zero
    /// The number of rows that are not tombstones.
    private(set) var liveCount = 0
    /// A time, by the wall clock, before which ``expireTombstones(at:)`` has no work; `.max` for never.
    private(set) var expiresNext = Milliseconds.max
    /// A hash of all rows, in whatever order they arrived.
    private(set) var hash: UInt64 = 0

    /// The number of rows, tombstones included.
    var count: Int { rows.count }

    var isEmpty: Bool { rows.count == 0 }

    var tombstonesCount: Int { rows.count - liveCount }

    // MARK: Reading

    /// The row with this key, also if it is a tombstone.
    func entry(for key: Entry.Key) -> Entry? {
        let (index, isFound) = rows.find(key)
        return isFound ? rows.entry(at: index) : nil
    }

    /// Whether a row with this key is in the list and is not a tombstone.
    func contains(_ key: Entry.Key) -> Bool {
        let (index, isFound) = rows.find(key)
        return isFound && !rows.isRemoved(at: index)
    }

    /// The rows for which `isIncluded` holds, the earliest change first; those of one version by key.
    ///
    /// - Parameter isIncluded: receives the version of a row, and whether it is a tombstone.
    func byVersion(where isIncluded: (Version, Bool) -> Bool) -> [(version: Version, index: Int)] {
        var order: [(version: Version, index: Int)] = []
        for index in 0..<rows.count {
            let version = rows.version(at: index)
            if isIncluded(version, rows.isRemoved(at: index)) { order.append((version, index)) }
        }
        return order.sorted { $0.version != $1.version ? $0.version < $1.version : $0.index < $1.index }
    }

    /// The tombstones, the earliest removal first.
    var tombstoneOrder: [(version: Version, index: Int)] { byVersion { $1 } }

    // MARK: Changing

    /// Stores a row if it is newer than the one with its key. Returns whether it was.
    ///
    /// A tombstone of an unknown key is stored as well: an older row of that key may arrive later.
    mutating func merge(_ entry: Entry) -> Bool {
        let (index, isFound) = rows.find(entry.key)
        if isFound {
            guard entry.version > rows.version(at: index) else { return false }
            if !rows.isRemoved(at: index) { liveCount -= 1 }
            hash ^= hash(at: index)
        }
        rows.write(entry, at: index, replaces: isFound)
        if !entry.isRemoved { liveCount += 1 }
        hash ^= hash(at: index)
        noteExpiry(with: entry)
        if !entry.isUnseen { version = max(version, entry.version) }
        return true
    }

    private mutating func noteExpiry(with entry: Entry) {
        // A tombstone that stayed because it was the newest change may expire now.
        if entry.version > version, !entry.isUnseen, expiresNext == .max, tombstonesCount > (entry.isRemoved ? 1 : 0) {
            expiresNext = Self.end(of: version)
        }
        if entry.isRemoved { expiresNext = min(expiresNext, Self.end(of: entry.version)) }
        if tombstonesCount > Self.tombstonesMax { expiresNext = .min }
    }

    /// Removes expired tombstones, and the oldest beyond the limit. Nodes with equal lists remove the same. Returns them by key.
    ///
    /// A tombstone that is the newest change of the list stays, because its version is that of the list.
    mutating func expireTombstones(at wall: Milliseconds) -> [Entry] {
        var tombstones = tombstoneOrder
        let excess = tombstones.count - Self.tombstonesMax
        if let newest = tombstones.lastIndex(where: { $0.version == version && !rows.isUnseen(at: $0.index) }) {
            tombstones.remove(at: newest)
        }
        let dueCount = tombstones.prefix { Self.end(of: $0.version) <= wall }.count
        let count = min(max(dueCount, excess), tombstones.count)
        expiresNext = tombstones.dropFirst(count).first.map { Self.end(of: $0.version) } ?? .max
        return removeRows(at: tombstones.prefix(count).map(\.index))
    }

    /// Removes the rows that changed up to a time, and the oldest beyond a number of rows. No tombstones stay. Returns the rows by key.
    mutating func removeOldest(upTo end: Milliseconds, keeping countMax: Int) -> [Entry] {
        let order = byVersion { _, _ in true }
        let count = max(order.prefix { $0.version.milliseconds <= end }.count, order.count - countMax)
        return removeRows(at: order.prefix(count).map(\.index))
    }

    /// Removes the rows that are not newer than a version. No tombstones stay. Returns the rows by key.
    mutating func removeAll(upTo version: Version) -> [Entry] {
        removeRows(at: byVersion { held, _ in held <= version }.map(\.index))
    }

    /// Removes the rows at these indices. No tombstones stay. Returns the rows by key.
    @discardableResult mutating func removeRows(at indices: [Int]) -> [Entry] {
        guard !indices.isEmpty else { return [] }
        let removed = indices.sorted()
        let entries = removed.map { rows.entry(at: $0) }
        for index in removed {
            hash ^= hash(at: index)
            if !rows.isRemoved(at: index) { liveCount -= 1 }
        }
        rows.remove(removed)
        return entries
    }

    /// Until when the tombstone of this version is kept.
    private static func end(of version: Version) -> Milliseconds { version.milliseconds + CoreSettings.tombstoneHorizon }

    /// A hash of a row's key and version.
    private func hash(at index: Int) -> UInt64 {
        let version = rows.version(at: index)
        return StableHash.mix(StableHash.mix(rows.keyHash(at: index), version.stamp), UInt64(version.node))
    }

    // MARK: Invariants

    /// The first derived value that does not match the rows, in words; nil for none. For simulations and tests.
    func brokenInvariant() -> String? {
        if let broken = rows.brokenInvariant() { return broken }
        let indices = 0..<rows.count
        let live = indices.count { !rows.isRemoved(at: $0) }
        guard liveCount == live else { return "\(live) rows are not removed, \(liveCount) are counted" }
        let hash = indices.reduce(UInt64(0)) { $0 ^ self.hash(at: $1) }
        guard self.hash == hash else { return "the hash of the list is \(self.hash), not \(hash)" }
        let isOlder = indices.contains { !rows.isUnseen(at: $0) && rows.version(at: $0) > version }
        guard !isOlder else { return "the list is older than a row: \(version)" }
        // The newest change of the list stays, even if it is a tombstone.
        let expiring = indices.filter { rows.isRemoved(at: $0) && (rows.isUnseen(at: $0) || rows.version(at: $0) < version) }
        let ends = expiring.map { Self.end(of: rows.version(at: $0)) }.min() ?? .max
        return expiresNext <= ends ? nil : "the list expires at \(expiresNext), after \(ends)"
    }
}

extension Array {
    /// Removes the elements at these indices, which are sorted, and the room for them.
    mutating func removeAll(at indices: [Int]) {
        var (kept, next) = (0, 0)
        for index in self.indices {
            if next < indices.count, indices[next] == index {
                next += 1
            } else {
                self[kept] = self[index]
                kept += 1
            }
        }
        self = Array(self[..<kept])
    }
}
