import PresenceWire

/// The durable list of one kind of facts of one user: rows by key, with tombstones, and a sequence by which clients synchronize.
///
/// The row with the higher version wins, so two lists that have received the same rows are equal, in whatever order the rows arrived.
/// Tombstones stay for ``CoreSettings/tombstoneHorizon``, and at most ``tombstonesMax`` of them.
struct RowList {
    /// One row of the list. A row without a value is a tombstone.
    struct Entry: Hashable {
        /// At most ``PresenceWire/Limits/nameBytesMax`` bytes.
        var key: String
        var version: Version
        /// The fact as JSON, UTF-8; nil for a tombstone.
        var value: [UInt8]?
        /// The time at which the fact ends by itself; nil for never.
        var expiresAt: Milliseconds?

        /// Whether the row is a tombstone.
        var isRemoved: Bool { value == nil }

        /// Whether the row is a tombstone that has removed nothing. Clients are told nothing of it (``Row/removedNothing``).
        var isUnseen: Bool { value == nil && expiresAt == Row.removedNothing }
    }

    /// The answer to a client that holds the list of an earlier sequence.
    enum Changes: Equatable {
        /// The rows that changed since, by version, with tombstones for removed rows. Empty if the client's list is the newest.
        case rows([Entry])
        /// The client must fetch the whole list, because rows that it holds may have been removed without a trace.
        case full
    }

    /// Tombstones that are kept: beyond it the oldest expire before their time. More than a full list of any preset has rows.
    static let tombstonesMax = 4_096

    private var rows = RowBytes()
    /// The version of the newest change that clients see, removals included; ``PresenceWire/Version/zero`` for none.
    ///
    /// A tombstone that has removed nothing does not move it, however new it is.
    private(set) var version = Version.zero
    /// The number of rows that are not tombstones.
    private(set) var liveCount = 0
    /// A time, by the wall clock, before which ``expireTombstones(at:)`` has no work; `.max` for never.
    private(set) var expiresNext = Milliseconds.max
    /// A time, by the wall clock, before which no row ends by itself; `.max` for never.
    private(set) var endsNext = Milliseconds.max
    /// A hash of all rows, in whatever order they arrived.
    private(set) var hash: UInt64 = 0
    /// The time at which this node last learned rows from another node or from its disk.
    ///
    /// A client that resumes from an earlier position has not been sent what follows from these rows.
    var learnedAt: Milliseconds = 0

    /// The number of rows, tombstones included.
    var count: Int { rows.count }

    var isEmpty: Bool { rows.count == 0 }

    var tombstonesCount: Int { rows.count - liveCount }

    /// The allocated bytes of the rows and their index.
    var allocatedCount: Int { rows.allocatedCount }

    /// The newest version of a row that the list holds; ``PresenceWire/Version/zero`` for none. An expired tombstone may have been newer.
    var newestHeld: Version { (0..<rows.count).reduce(.zero) { max($0, rows.version(at: $1)) } }

    /// The earliest version of a row that the list holds; nil for none.
    var oldestHeld: Version? { (0..<rows.count).lazy.map { rows.version(at: $0) }.min() }

    // MARK: Reading

    /// The rows with wanted versions, the earliest change first. Others are not read.
    func entries(where isWanted: (Version) -> Bool) -> [Entry] {
        order { version, _ in isWanted(version) }.map { rows.entry(at: $0.index) }
    }

    /// The rows by key, tombstones included. Each is made when it is read.
    var entries: some RandomAccessCollection<Entry> { (0..<rows.count).lazy.map { [rows] in rows.entry(at: $0) } }

    /// The rows in the order of their changes, tombstones included.
    var entriesByVersion: [Entry] { order { _, _ in true }.map { rows.entry(at: $0.index) } }

    /// The row with this key, also if it is a tombstone.
    func entry(for key: String) -> Entry? {
        let (index, isFound) = rows.find(key)
        return isFound ? rows.entry(at: index) : nil
    }

    /// Whether a row with this key is in the list and is not a tombstone.
    func contains(_ key: String) -> Bool {
        let (index, isFound) = rows.find(key)
        return isFound && !rows.isRemoved(at: index)
    }

    /// The keys of the rows that are not tombstones, sorted. The rows themselves are not read.
    var liveKeys: [String] { (0..<rows.count).compactMap { rows.isRemoved(at: $0) ? nil : rows.key(at: $0) } }

    /// The keys of the tombstones, sorted.
    var removedKeys: [String] { (0..<rows.count).compactMap { rows.isRemoved(at: $0) ? rows.key(at: $0) : nil } }

    /// The keys and the versions of the rows that are not tombstones, by key.
    var live: [(key: String, version: Version)] {
        (0..<rows.count).compactMap { rows.isRemoved(at: $0) ? nil : (rows.key(at: $0), rows.version(at: $0)) }
    }

    /// The keys and the versions of the tombstones that clients see, by key.
    var removals: [(key: String, version: Version)] {
        (0..<rows.count).compactMap { rows.isRemoved(at: $0) && !rows.isUnseen(at: $0) ? (rows.key(at: $0), rows.version(at: $0)) : nil }
    }

    /// One page of the rows that are not tombstones, by key.
    ///
    /// - Parameters:
    ///   - key: the last key of the page before; nil for the first page. The row itself may be gone.
    ///   - limit: most rows of the page.
    func page(after key: String?, limit: Int) -> [Entry] {
        var index = 0
        if let key {
            let found = rows.find(key)
            index = found.isFound ? found.index + 1 : found.index
        }
        var page: [Entry] = []
        while index < rows.count, page.count < limit {
            if !rows.isRemoved(at: index) { page.append(rows.entry(at: index)) }
            index += 1
        }
        return page
    }

    /// One page of the rows that changed after `version`, the earliest change first.
    ///
    /// The page ends between two milliseconds, so that the version of its last row and its millisecond both continue with the next page. It
    /// exceeds `limit` by the changes of that millisecond.
    ///
    /// - Parameter withTombstones: whether removed rows are on the page.
    func page(changedAfter version: Version, limit: Int, withTombstones: Bool) -> [Entry] {
        let order = order { $0 > version && (withTombstones || !$1) }
        guard order.count > limit, limit > 0 else { return order.prefix(max(limit, 0)).map { rows.entry(at: $0.index) } }
        let last = order[limit - 1].version.milliseconds
        let page = order.prefix(limit) + order.dropFirst(limit).prefix { $0.version.milliseconds == last }
        return page.map { rows.entry(at: $0.index) }
    }

    /// The rows for which `isIncluded` holds, the earliest change first.
    ///
    /// - Parameter isIncluded: receives the version of a row, and whether it is a tombstone.
    private func order(where isIncluded: (Version, Bool) -> Bool) -> [(version: Version, index: Int)] {
        var order: [(version: Version, index: Int)] = []
        for index in 0..<rows.count {
            let version = rows.version(at: index)
            if isIncluded(version, rows.isRemoved(at: index)) { order.append((version, index)) }
        }
        return order.sorted { $0.version != $1.version ? $0.version < $1.version : $0.index < $1.index }
    }

    // MARK: Synchronizing

    /// The list's state as an opaque text. Clients compare it for equality.
    var sequence: String { version.text }

    /// The changes that a client with the list of `sequence` lacks.
    ///
    /// ``Changes/full`` if `sequence` is not one that this list can have issued, or if a tombstone that is newer may have expired. The
    /// answer needs only the rows and the time, so that each replica gives the same:
    /// - a tombstone expires in time only at an age of ``CoreSettings/tombstoneHorizon``. The clocks of nodes differ by at most a minute;
    /// - a tombstone expires before its time only from a list with ``tombstonesMax`` others, which are newer. Until they expire the list
    ///   has at least that many rows.
    func changes(since sequence: String, at wall: Milliseconds) -> Changes {
        guard let since = Version(text: sequence), since <= version, since > .zero else { return .full }
        guard since < version else { return .rows([]) }
        let margin = VersionClock.usualDriftMax.wholeMilliseconds
        guard since.milliseconds + CoreSettings.tombstoneHorizon > wall + margin else { return .full }
        if let mark = entry(for: Row.lateMark), mark.isRemoved, mark.version > since { return .full }
        if count >= Self.tombstonesMax, since < tombstoneOrder.first?.version ?? version { return .full }
        return .rows(order { version, _ in version > since }.filter { !rows.isUnseen(at: $0.index) }.map { rows.entry(at: $0.index) })
    }

    /// Whether a client may have passed this version, so that it would miss a row with it. The owner then marks the list.
    ///
    /// The rows of two users' decisions about this one may have the same version (see ``VersionClock/nextDecision(of:at:)``).
    func mayBePassed(_ version: Version) -> Bool { version <= self.version }

    // MARK: Changing

    /// Stores a row if it is newer than the one with its key. Returns whether it was.
    ///
    /// A tombstone of an unknown key is stored as well: an older row of that key may arrive later.
    mutating func merge(_ entry: Entry) -> Bool {
        let (index, isFound) = rows.find(entry.key)
        if isFound {
            guard entry.version > rows.version(at: index) else { return false }
            if !rows.isRemoved(at: index) { liveCount -= 1 }
            hash ^= rows.hash(at: index)
        }
        rows.write(entry, at: index, replaces: isFound)
        if !entry.isRemoved {
            liveCount += 1
            endsNext = min(endsNext, entry.expiresAt ?? .max)
        }
        hash ^= rows.hash(at: index)
        noteExpiry(with: entry)
        if !entry.isUnseen { version = max(version, entry.version) }
        return true
    }

    /// Computes ``endsNext`` again, after rows have ended.
    mutating func updateEnds() { if endsNext < .max { endsNext = firstEnd } }

    private var firstEnd: Milliseconds { entries.reduce(.max) { $1.isRemoved ? $0 : min($0, $1.expiresAt ?? .max) } }

    private mutating func noteExpiry(with entry: Entry) {
        // A tombstone that stayed because it was the newest change may expire now.
        if entry.version > version, !entry.isUnseen, expiresNext == .max, tombstonesCount > (entry.isRemoved ? 1 : 0) {
            expiresNext = Self.end(of: version)
        }
        if entry.isRemoved { expiresNext = min(expiresNext, Self.end(of: entry.version)) }
        if tombstonesCount > Self.tombstonesMax { expiresNext = .min }
    }

    /// Removes expired tombstones, and the oldest beyond the limit. Nodes with equal lists remove the same. Returns them.
    ///
    /// A tombstone that is the newest change of the list stays, because the sequence is its version.
    mutating func expireTombstones(at wall: Milliseconds) -> [Entry] {
        var tombstones = tombstoneOrder
        let excess = tombstones.count - Self.tombstonesMax
        if let newest = tombstones.lastIndex(where: { $0.version == version && !rows.isUnseen(at: $0.index) }) {
            tombstones.remove(at: newest)
        }
        let dueCount = tombstones.prefix { Self.end(of: $0.version) <= wall }.count
        let count = min(max(dueCount, excess), tombstones.count)
        expiresNext = tombstones.dropFirst(count).first.map { Self.end(of: $0.version) } ?? .max
        guard count > 0 else { return [] }
        let expired = tombstones.prefix(count).map(\.index).sorted()
        let entries = expired.map { rows.entry(at: $0) }
        for index in expired { hash ^= rows.hash(at: index) }
        rows.remove(expired)
        return entries
    }

    /// Removes the rows that changed up to a time, and the oldest beyond a number of rows. No tombstones stay. Returns the rows.
    mutating func removeOldest(upTo end: Milliseconds, keeping countMax: Int) -> [Entry] {
        let order = order { _, _ in true }
        let count = max(order.prefix { $0.version.milliseconds <= end }.count, order.count - countMax)
        guard count > 0 else { return [] }
        let removed = order.prefix(count).map(\.index).sorted()
        let entries = removed.map { rows.entry(at: $0) }
        for index in removed {
            hash ^= rows.hash(at: index)
            if !rows.isRemoved(at: index) { liveCount -= 1 }
        }
        rows.remove(removed)
        return entries
    }

    /// The tombstones, the earliest removal first.
    private var tombstoneOrder: [(version: Version, index: Int)] { order { $1 } }

    /// Until when the tombstone of this version is kept.
    private static func end(of version: Version) -> Milliseconds { version.milliseconds + CoreSettings.tombstoneHorizon }

    // MARK: Invariants

    /// The first derived value that does not match the rows, in words; nil for none. For simulations and tests.
    func brokenInvariant() -> String? {
        if let broken = rows.brokenInvariant() { return broken }
        let live = entries.count { !$0.isRemoved }
        guard liveCount == live else { return "\(live) rows are not removed, \(liveCount) are counted" }
        let hash = (0..<rows.count).reduce(UInt64(0)) { $0 ^ rows.hash(at: $1) }
        guard endsNext <= firstEnd else { return "the first row ends at \(firstEnd), before \(endsNext)" }
        guard self.hash == hash else { return "the hash of the list is \(self.hash), not \(hash)" }
        guard entries.allSatisfy({ $0.isUnseen || $0.version <= version }) else { return "the list is older than a row: \(version)" }
        // The newest change of the list stays, even if it is a tombstone.
        let ends = entries.filter { $0.isRemoved && ($0.isUnseen || $0.version < version) }.map { Self.end(of: $0.version) }.min() ?? .max
        return expiresNext <= ends ? nil : "the list expires at \(expiresNext), after \(ends)"
    }
}
