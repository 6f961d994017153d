import PresenceWire

/// The durable list of one kind of facts of one user, with a sequence by which clients synchronize.
typealias RowList = TypedList<RowBytes>

extension RowList {
    /// The allocated bytes of the rows and their index.
    var allocatedCount: Int { rows.allocatedCount }

    /// A time, by the wall clock, before which no row ends by itself; `.max` for never.
    var endsNext: Milliseconds { rows.endsNext }

    /// Computes ``endsNext`` again, after rows have ended.
    mutating func updateEnds() { rows.updateEnds() }

    /// The newest version of a row that the list holds; ``PresenceWire/Version/zero`` for none. An expired tombstone may have been newer.
    var newestHeld: Version { (0..<rows.count).reduce(.zero) { max($0, rows.version(at: $1)) } }

    /// The earliest version of a row that the list holds; nil for none.
    var oldestHeld: Version? { (0..<rows.count).lazy.map { rows.version(at: $0) }.min() }

    // MARK: Reading

    /// The rows with wanted versions, the earliest change first. Others are not read.
    func entries(where isWanted: (Version) -> Bool) -> [Entry] {
        byVersion { version, _ in isWanted(version) }.map { rows.entry(at: $0.index) }
    }

    /// The rows by key, tombstones included. Each is made when it is read.
    var entries: some RandomAccessCollection<Entry> { (0..<rows.count).lazy.map { [rows] in rows.entry(at: $0) } }

    /// The rows by key without tombstones, of which a list may have thousands. Each is made when it is read.
    var liveEntries: some Sequence<Entry> {
        (0..<rows.count).lazy.filter { [rows] in !rows.isRemoved(at: $0) }.map { [rows] in rows.entry(at: $0) }
    }

    /// The fact of a row; nil if there is none, or if it was removed.
    func fact<Fact: RowFact>(_ key: String, of user: UserID) -> Fact? {
        entry(for: key).flatMap { $0.fact(of: user) }
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
        let order = byVersion { $0 > version && (withTombstones || !$1) }
        guard order.count > limit, limit > 0 else { return order.prefix(max(limit, 0)).map { rows.entry(at: $0.index) } }
        let last = order[limit - 1].version.milliseconds
        let page = order.prefix(limit) + order.dropFirst(limit).prefix { $0.version.milliseconds == last }
        return page.map { rows.entry(at: $0.index) }
    }

    // MARK: Synchronizing

    /// The answer to a client that holds the list of an earlier sequence.
    enum Changes: Equatable {
        /// The rows that changed since, by version, with tombstones for removed rows. Empty if the client's list is the newest.
        case rows([Entry])
        /// The client must fetch the whole list, because rows that it holds may have been removed without a trace.
        case full
    }

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
        return .rows(byVersion { version, _ in version > since }.filter { !rows.isUnseen(at: $0.index) }.map { rows.entry(at: $0.index) })
    }

    /// Whether a client may have passed this version, so that it would miss a row with it. The owner then marks the list.
    ///
    /// The rows of two users' decisions about this one may have the same version (see ``VersionClock/nextDecision(of:at:)``).
    func mayBePassed(_ version: Version) -> Bool { version <= self.version }
}

extension RowBytes.Entry {
    /// The fact of the row; nil for a tombstone. A row of a list was checked when it was stored.
    func fact<Fact: RowFact>(of user: UserID) -> Fact? {
        isRemoved ? nil : try? Fact(Row(self, of: user, Fact.kind))
    }
}
