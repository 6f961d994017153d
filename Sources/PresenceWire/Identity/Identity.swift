/// A user of one app. No call reaches another app, so the app is part of the name.
///
/// Both parts are compared byte by byte. Two texts that Unicode calls equivalent are two users, because they hash to two slots.
public struct UserID: Sendable {
    /// `app`, one NUL, `id`. Neither part may contain a control character, so the split is unambiguous. Short names stay inline.
    public let joined: String

    /// - Parameters: `app` and `id`, each 1–64 bytes of UTF-8 without control characters; see ``Limits/isValidName(_:)``.
    public init(app: String, id: String) {
        joined = app + "\0" + id
    }

    init(joined: String) { self.joined = joined }

    /// Makes another user of `neighbour`'s app.
    public init(_ id: String, besides neighbour: UserID) {
        joined = neighbour.withBytes { bytes in
            var start = 0
            while start < bytes.count, bytes[start] != 0 { start += 1 }
            return String(unsafeUninitializedCapacity: start + 1 + id.utf8.count) { joined in
                _ = joined.update(fromContentsOf: bytes[...start])
                return start + 1 + UnsafeMutableBufferPointer(rebasing: joined[(start + 1)...]).update(fromContentsOf: id.utf8)
            }
        }
    }

    /// The app's ID.
    public var app: Substring { joined[..<separator] }

    /// The user's ID inside the app.
    public var id: Substring { joined[joined.utf8.index(after: separator)...] }

    private var separator: String.Index { joined.utf8.firstIndex(of: 0) ?? joined.endIndex }

    /// Calls `body` with the bytes of the user's ID inside the app.
    @inlinable
    public func withIDBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withBytes { bytes in
            var start = 0
            while start < bytes.count, bytes[start] != 0 { start += 1 }
            return body(UnsafeBufferPointer(rebasing: bytes[(start + 1)...]))
        }
    }

    /// Calls `body` with the bytes of `app`, NUL, `id`, and the offset of the first byte of `id`.
    @inlinable
    public func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if let result = joined.utf8.withContiguousStorageIfAvailable(body) { return result }
        return Array(joined.utf8).withUnsafeBufferPointer(body)
    }
}

extension UserID: Hashable, Comparable, CustomStringConvertible {
    public static func == (left: UserID, right: UserID) -> Bool {
        // The same 16 bytes are the same text, whether they hold characters or an address.
        if unsafeBitCast(left.joined, to: UInt128.self) == unsafeBitCast(right.joined, to: UInt128.self) { return true }
        return left.withBytes { left in
            right.withBytes { right in
                guard left.count == right.count else { return false }
                // Compares eight bytes at a time, because each request compares names several times.
                let (left, right) = (UnsafeRawBufferPointer(left), UnsafeRawBufferPointer(right))
                var offset = 0
                while offset + 8 <= left.count {
                    let (one, other) = (
                        left.loadUnaligned(fromByteOffset: offset, as: UInt64.self),
                        right.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                    )
                    if one != other { return false }
                    offset += 8
                }
                while offset < left.count {
                    if left[offset] != right[offset] { return false }
                    offset += 1
                }
                return true
            }
        }
    }

    public func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    public static func < (left: UserID, right: UserID) -> Bool {
        left.withBytes { left in right.withBytes { right in left.lexicographicallyPrecedes(right) } }
    }

    public var description: String { "\(app)/\(id)" }
}

/// A node's name, which the operator chooses: 1–64 bytes, unique in its cluster.
public struct NodeID: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// Makes the name from the text of `--node-id`.
    public init(_ name: String) { rawValue = name }

    public static func < (left: NodeID, right: NodeID) -> Bool {
        left.rawValue.utf8.lexicographicallyPrecedes(right.rawValue.utf8)
    }

    public var description: String { rawValue }
}

/// One of the 65,536 parts of the key space: the top 16 bits of a user's stable hash (<doc:SlotRing>).
public typealias Slot = UInt16

extension UserID {
    /// The slot of this user. It never changes, and is the same on every node.
    public var slot: Slot { Slot(truncatingIfNeeded: withBytes { StableHash.hash64($0) } >> 48) }
}

/// One session: one open event stream. The ID is unique in a cluster forever, because it contains the node's generation and a counter.
public struct SessionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The gateway node's generation (its start time in milliseconds since 1970), shifted left by 20, plus a counter.
    public let stamp: UInt64
    /// ``Version/node`` of the gateway's node.
    public let node: UInt32

    public init(stamp: UInt64, node: UInt32) {
        self.stamp = stamp
        self.node = node
    }

    public static func < (left: SessionID, right: SessionID) -> Bool {
        (left.stamp, left.node) < (right.stamp, right.node)
    }

    /// 24 hexadecimal digits.
    public var description: String {
        var bytes: [UInt8] = []
        Hex.append(stamp, digits: 16, to: &bytes)
        Hex.append(UInt64(node), digits: 8, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads ``description``, also with capitals; nil for any other text.
    public init?(_ text: some StringProtocol) {
        self.init(digits: Array(text.lowercased().utf8)[...])
    }

    /// Reads the UTF-8 of ``description``; nil for any other bytes.
    public init?(digits: ArraySlice<UInt8>) {
        // A version has the same text.
        guard let parts = Version(digits: digits) else { return nil }
        self.init(stamp: parts.stamp, node: parts.node)
    }
}
