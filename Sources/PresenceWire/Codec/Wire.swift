/// The reason why bytes from a peer are not a message.
///
/// The fault is always the sender's: the receiver closes the stream and goes on.
public enum DecodeError: Error, Equatable, Sendable {
    case truncated(neededBytes: Int, availableBytes: Int)
    case unknownTag(UInt8)
    case tooLong(count: Int, limit: Int)
    case notUTF8
    /// A time or a duration that no node sends.
    case outOfRange(Int64)
    case trailing(bytes: Int)
    /// A record names a visibility that the connection has not carried, or that both ends have dropped.
    case unknownRule(UInt64)
    /// A name that is not 1 to 64 bytes without control characters, or an address that is not HOST:PORT.
    case badName
}

/// Appends the cluster's binary format to a byte array: LEB128 integers, length-prefixed UTF-8, a tag byte per choice.
public struct WireWriter: Sendable {
    /// The bytes written until now.
    public var bytes: [UInt8]
    /// The visibilities that the connection has carried. Without a table every record is followed by its whole visibility.
    public var rules: SentRules?

    public init(reserving bytesCount: Int = 0) {
        bytes = []
        bytes.reserveCapacity(bytesCount)
    }

    /// Writes one byte.
    public mutating func tag(_ value: UInt8) { bytes.append(value) }

    /// Writes an unsigned LEB128 integer, 1–10 bytes.
    public mutating func unsigned(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    /// Writes a signed integer: zigzag, then LEB128.
    public mutating func signed(_ value: Int64) { unsigned(UInt64(bitPattern: (value << 1) ^ (value >> 63))) }

    /// Writes a length and the text's UTF-8 bytes.
    public mutating func text(_ value: String) {
        unsigned(UInt64(value.utf8.count))
        bytes.append(contentsOf: value.utf8)
    }

    /// Writes a count, then each element.
    public mutating func list<Element>(_ elements: [Element], _ write: (inout WireWriter, Element) -> Void) {
        unsigned(UInt64(elements.count))
        for element in elements { write(&self, element) }
    }

    /// Writes one byte for absence or presence, then the value.
    public mutating func optional<Value>(_ value: Value?, _ write: (inout WireWriter, Value) -> Void) {
        guard let value else { return tag(0) }
        tag(1)
        write(&self, value)
    }
}

/// Reads the format of ``WireWriter``.
///
/// It checks every length against the bytes that remain before it reserves memory.
public struct WireReader {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0
    /// The visibilities that the connection has carried. Without a table a record that names one cannot be read.
    public var rules: ReceivedRules?

    /// - Parameter bytes: must outlive the reader.
    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The number of bytes not yet read.
    public var remainingBytes: Int { bytes.count - offset }

    /// Throws unless all bytes have been read.
    public func expectEnd() throws(DecodeError) {
        if remainingBytes > 0 { throw .trailing(bytes: remainingBytes) }
    }

    /// Reads one byte.
    public mutating func tag() throws(DecodeError) -> UInt8 {
        guard offset < bytes.count else { throw .truncated(neededBytes: 1, availableBytes: 0) }
        defer { offset += 1 }
        return bytes[offset]
    }

    /// Reads an unsigned LEB128 integer; throws if it does not fit into 64 bits.
    public mutating func unsigned() throws(DecodeError) -> UInt64 {
        if offset < bytes.count, bytes[offset] < 0x80 { return UInt64(try tag()) }
        return try longUnsigned()
    }

    private mutating func longUnsigned() throws(DecodeError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let byte = try tag()
            if shift == 63, byte > 1 { throw .tooLong(count: 11, limit: 10) }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
            if shift > 63 { throw .tooLong(count: 11, limit: 10) }
        }
    }

    /// Reads a signed integer, see ``WireWriter/signed(_:)``.
    public mutating func signed() throws(DecodeError) -> Int64 {
        let value = try unsigned()
        return Int64(bitPattern: (value >> 1) ^ (0 &- (value & 1)))
    }

    /// Reads a time within ``Limits/times``.
    public mutating func time() throws(DecodeError) -> Milliseconds {
        let value = try signed()
        guard Limits.times.contains(value) else { throw .outOfRange(value) }
        return value
    }

    /// Reads a text of at most `bytesMax` bytes; throws if it is not UTF-8.
    public mutating func text(bytesMax: Int) throws(DecodeError) -> String {
        let count = try length(max: bytesMax)
        let part = UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
        guard let text = part.isASCII ? String(ascii: part) : String(validating: part, as: UTF8.self) else { throw .notUTF8 }
        offset += count
        return text
    }

    /// The bytes of a text of at most `bytesMax` bytes, neither copied nor checked.
    mutating func textBytes(bytesMax: Int) throws(DecodeError) -> UnsafeRawBufferPointer {
        let start = offset
        let count = try length(max: bytesMax)
        defer { offset = start }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
    }

    /// Reads a list of at most `countMax` elements. Each element takes at least one byte.
    public mutating func list<Element>(
        countMax: Int = Limits.listCountMax, _ read: (inout WireReader) throws(DecodeError) -> Element
    ) throws(DecodeError) -> [Element] {
        let count = try length(max: countMax)
        var elements: [Element] = []
        elements.reserveCapacity(count)
        for _ in 0..<count { elements.append(try read(&self)) }
        return elements
    }

    /// See ``WireWriter/optional(_:_:)``.
    public mutating func optional<Value>(
        _ read: (inout WireReader) throws(DecodeError) -> Value
    ) throws(DecodeError) -> Value? {
        switch try tag() {
        case 0: return nil
        case 1: return try read(&self)
        case let other: throw .unknownTag(other)
        }
    }

    private mutating func length(max: Int) throws(DecodeError) -> Int {
        let count = try unsigned()
        guard count <= UInt64(max) else { throw .tooLong(count: Int(clamping: count), limit: max) }
        guard count <= UInt64(remainingBytes) else {
            throw .truncated(neededBytes: Int(count), availableBytes: remainingBytes)
        }
        return Int(count)
    }
}

extension WireWriter {
    /// Writes one byte that names the content that follows.
    @inline(__always)
    mutating func tag<Tag: RawRepresentable>(_ tag: Tag) where Tag.RawValue == UInt8 { self.tag(tag.rawValue) }
}

extension WireReader {
    /// Reads one byte that names the content that follows. Throws ``DecodeError/unknownTag(_:)`` for an unknown number.
    @inline(__always)
    mutating func tag<Tag: RawRepresentable>(as type: Tag.Type) throws(DecodeError) -> Tag where Tag.RawValue == UInt8 {
        let number = try tag()
        guard let tag = Tag(rawValue: number) else { throw .unknownTag(number) }
        return tag
    }
}
