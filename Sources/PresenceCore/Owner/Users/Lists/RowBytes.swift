import PresenceWire

/// The rows of one list in one allocation, sorted by key, with an index of 8 bytes per row.
///
/// A changed row is appended, and its old bytes become garbage. When the allocation is full, or a quarter of it is garbage, the rows are
/// copied into a new one without the garbage. Each copy leaves room for an eighth of the rows, so a change costs the copy of about eight
/// rows. No row is an object of its own.
struct RowBytes: ListStorage {
    /// One row of the list. A row without a value is a tombstone.
    struct Entry: ListEntry, Hashable {
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

    /// The place of one row in ``bytes``.
    private struct Place {
        var offset: UInt32
        var bytesCount: UInt32
    }

    /// A row: 8 bytes of stamp, 4 of node, 1 of the key's length, 1 of flags; then the key, the expiry if there is one, and the value.
    private enum Header {
        static let keyCountOffset = 12
        static let flagsOffset = 13
        static let bytesCount = 14
        static let hasValue: UInt8 = 1
        static let hasExpiry: UInt8 = 2
    }

    /// The smallest room for new rows, in bytes. A list of one row needs no second allocation for its next change.
    private static let roomMin = 64

    private var bytes: [UInt8] = []
    /// The rows by key.
    private var places: [Place] = []
    /// The bytes of ``bytes`` that belong to no row.
    private var garbageCount = 0
    /// A time, by the wall clock, before which no row ends by itself; `.max` for never.
    private(set) var endsNext = Milliseconds.max

    var count: Int { places.count }

    /// The allocated bytes, with the 32 bytes in front of each Swift array.
    var allocatedCount: Int {
        (bytes.capacity == 0 ? 0 : bytes.capacity + 32) + (places.capacity == 0 ? 0 : places.capacity * MemoryLayout<Place>.stride + 32)
    }

    // MARK: Reading

    func find(_ key: String) -> (index: Int, isFound: Bool) {
        var key = key
        return key.withUTF8 { key in
            var (low, high) = (0, places.count)
            while low < high {
                let middle = (low + high) / 2
                let order = withKey(at: middle) { Self.compare($0, key) }
                if order == 0 { return (middle, true) }
                if order < 0 { low = middle + 1 } else { high = middle }
            }
            return (low, false)
        }
    }

    func key(at index: Int) -> String { withKey(at: index) { String(decoding: $0, as: UTF8.self) } }

    func version(at index: Int) -> Version {
        withRow(at: index) {
            Version(stamp: $0.loadUnaligned(as: UInt64.self), node: $0.loadUnaligned(fromByteOffset: 8, as: UInt32.self))
        }
    }

    func isRemoved(at index: Int) -> Bool { withRow(at: index) { $0[Header.flagsOffset] & Header.hasValue == 0 } }

    func isUnseen(at index: Int) -> Bool {
        withRow(at: index) { row in
            guard row[Header.flagsOffset] == Header.hasExpiry else { return false }
            let keyEnd = Header.bytesCount + Int(row[Header.keyCountOffset])
            return row.loadUnaligned(fromByteOffset: keyEnd, as: Milliseconds.self) == Row.removedNothing
        }
    }

    func entry(at index: Int) -> Entry {
        withRow(at: index) { row in
            let flags = row[Header.flagsOffset]
            let keyEnd = Header.bytesCount + Int(row[Header.keyCountOffset])
            let hasExpiry = flags & Header.hasExpiry != 0
            let value = UnsafeRawBufferPointer(rebasing: row[(keyEnd + (hasExpiry ? 8 : 0))...])
            return Entry(
                key: String(decoding: row[Header.bytesCount..<keyEnd], as: UTF8.self), version: version(at: index),
                value: flags & Header.hasValue == 0 ? nil : Array(value),
                expiresAt: hasExpiry ? row.loadUnaligned(fromByteOffset: keyEnd, as: Milliseconds.self) : nil)
        }
    }

    func keyHash(at index: Int) -> UInt64 { withKey(at: index) { StableHash.hash64($0) } }

    private var firstEnd: Milliseconds {
        (0..<count).reduce(.max) { isRemoved(at: $1) ? $0 : min($0, entry(at: $1).expiresAt ?? .max) }
    }

    @inline(__always)
    private func withRow<Result>(at index: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let place = places[index]
        let range = Int(place.offset)..<Int(place.offset) + Int(place.bytesCount)
        return bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[range])) }
    }

    @inline(__always)
    private func withKey<Result>(at index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withRow(at: index) { row in
            let key = UnsafeRawBufferPointer(rebasing: row[Header.bytesCount..<Header.bytesCount + Int(row[Header.keyCountOffset])])
            return key.withMemoryRebound(to: UInt8.self, body)
        }
    }

    /// Negative, 0 or positive, as `left` is before, equal to or after `right` byte by byte.
    private static func compare(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        for index in 0..<min(left.count, right.count) where left[index] != right[index] { return Int(left[index]) - Int(right[index]) }
        return left.count - right.count
    }

    // MARK: Changing

    mutating func write(_ entry: Entry, at index: Int, replaces: Bool) {
        let bytesCount = Self.bytesCount(of: entry)
        if replaces { garbageCount += Int(places[index].bytesCount) }
        let isFull = bytes.count + bytesCount > bytes.capacity
        if isFull || garbageCount > max(bytes.count / 4, Self.roomMin) { compact(roomFor: bytesCount, without: replaces ? index : nil) }
        let place = Place(offset: UInt32(bytes.count), bytesCount: UInt32(bytesCount))
        append(entry)
        if !entry.isRemoved { endsNext = min(endsNext, entry.expiresAt ?? .max) }
        if replaces {
            places[index] = place
        } else {
            if places.count == places.capacity { places.reserveCapacity(places.count + max(places.count / 8, 1)) }
            places.insert(place, at: index)
        }
    }

    mutating func remove(_ indices: [Int]) {
        for index in indices { garbageCount += Int(places[index].bytesCount) }
        places.removeAll(at: indices)
        compact(roomFor: 0, without: nil)
    }

    /// Computes ``endsNext`` again, after rows have ended.
    mutating func updateEnds() { if endsNext < .max { endsNext = firstEnd } }

    private static func bytesCount(of entry: Entry) -> Int {
        Header.bytesCount + entry.key.utf8.count + (entry.expiresAt == nil ? 0 : 8) + (entry.value?.count ?? 0)
    }

    private mutating func append(_ entry: Entry) {
        precondition(entry.key.utf8.count <= Int(UInt8.max), "the key \(entry.key) is too long for a row")
        withUnsafeBytes(of: entry.version.stamp) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: entry.version.node) { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(entry.key.utf8.count))
        bytes.append((entry.value == nil ? 0 : Header.hasValue) | (entry.expiresAt == nil ? 0 : Header.hasExpiry))
        bytes.append(contentsOf: entry.key.utf8)
        if let expiresAt = entry.expiresAt { withUnsafeBytes(of: expiresAt) { bytes.append(contentsOf: $0) } }
        if let value = entry.value { bytes.append(contentsOf: value) }
    }

    /// Copies the rows by key into a new allocation with room for `bytesCount` bytes and an eighth more.
    ///
    /// - Parameter index: a row that is not copied, because it is about to be replaced.
    private mutating func compact(roomFor bytesCount: Int, without index: Int?) {
        let neededCount = bytes.count - garbageCount + bytesCount
        guard neededCount > 0 else {
            bytes = []
            garbageCount = 0
            return
        }
        var copied: [UInt8] = []
        copied.reserveCapacity(neededCount + max(neededCount / 8, Self.roomMin))
        for position in places.indices where position != index {
            let place = places[position]
            let offset = UInt32(copied.count)
            copied.append(contentsOf: bytes[Int(place.offset)..<Int(place.offset) + Int(place.bytesCount)])
            places[position].offset = offset
        }
        bytes = copied
        garbageCount = 0
    }

    // MARK: Invariants

    func brokenInvariant() -> String? {
        for index in places.indices.dropFirst() {
            let isSorted = withKey(at: index - 1) { left in withKey(at: index) { Self.compare(left, $0) < 0 } }
            guard isSorted else { return "\(key(at: index)) is not after \(key(at: index - 1))" }
        }
        guard endsNext <= firstEnd else { return "the first row ends at \(firstEnd), before \(endsNext)" }
        let ranges = places.map { Int($0.offset)..<Int($0.offset) + Int($0.bytesCount) }.sorted { $0.lowerBound < $1.lowerBound }
        guard zip(ranges, ranges.dropFirst()).allSatisfy({ $0.upperBound <= $1.lowerBound }) else { return "rows overlap: \(ranges)" }
        guard ranges.last?.upperBound ?? 0 <= bytes.count else { return "a row ends behind the \(bytes.count) bytes: \(ranges)" }
        let used = ranges.reduce(0) { $0 + $1.count }
        return used + garbageCount == bytes.count ? nil : "\(used) bytes are used and \(garbageCount) are not, of \(bytes.count)"
    }
}
