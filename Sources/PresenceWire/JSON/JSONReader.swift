/// A JSON value (RFC 8259).
///
/// Whole numbers have a case of their own, because every number of the API is whole.
public enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// A number with a fraction or an exponent, or beyond 64 bits.
    case number(Double)
    case string(String)
    case array([JSONValue])
    /// An object: its members in their order. No name occurs twice.
    case object([Member])

    /// One member of an object.
    public struct Member: Equatable, Sendable {
        public let name: String
        public let value: JSONValue

        public init(name: String, value: JSONValue) {
            self.name = name
            self.value = value
        }

        /// Compares lengths first, which rules out most other names at a tenth of the cost.
        func isCalled(_ name: String) -> Bool { self.name.utf8.count == name.utf8.count && self.name == name }
    }

    /// The same number as an integer if it is a whole one of 64 bits (`60.0`, `6e1`); any other value unchanged.
    public var withWholeNumber: JSONValue {
        if case .number(let number) = self, let whole = Int64(exactly: number) { .integer(whole) } else { self }
    }

    /// The value of the member `name` of an object.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.firstIndex { $0.isCalled(name) }.map { members[$0].value }
    }
}

/// The reason why a text is not accepted as JSON, with the offset of the first wrong byte.
public enum JSONError: Error, Equatable, Sendable {
    case unexpected(offset: Int)
    case truncated
    case tooDeep(limit: Int)
    case duplicate(name: String)
    case notUTF8(offset: Int)
    case tooManyMembers(limit: Int)
}

/// Reads one JSON text strictly: UTF-8, no name twice in an object, bounded depth, nothing after the value.
///
/// Foundation's decoder takes 5–10 times as long for the small bodies of the API and accepts repeated names. The core reads the JSON of
/// durable rows and may not import it.
public struct JSONReader {
    /// Deepest nesting: far more than any request of the API needs.
    public static let depthMax = 32
    /// Most members of an object: far more than any object of the API has. The check for repeated names is quadratic.
    public static let membersMax = 128
    /// The number of members for which memory is reserved at once: as many as a record has.
    private static let membersExpected = 12

    private let bytes: UnsafeBufferPointer<UInt8>
    private var offset = 0

    /// Reads the only value in `text`.
    public static func read(_ text: [UInt8]) throws(JSONError) -> JSONValue {
        let result: Result<JSONValue, JSONError> = text.withUnsafeBufferPointer { bytes in
            Result { () throws(JSONError) in try read(bytes) }
        }
        return try result.get()
    }

    /// Reads the only value in `text`.
    public static func read(_ text: UnsafeBufferPointer<UInt8>) throws(JSONError) -> JSONValue {
        var reader = JSONReader(bytes: text)
        let value = try reader.value(depth: 0)
        reader.skipSpace()
        if reader.offset < text.count { throw .unexpected(offset: reader.offset) }
        return value
    }

    /// Calls `body` with the name and the value of each member of the object `text`, in their order.
    ///
    /// It makes no object, which is three times as fast for the most frequent texts. It is as strict as ``read(_:)``, except that `body`
    /// must handle names that occur twice.
    public static func readMembers(of text: [UInt8], _ body: (UnsafeRawBufferPointer, JSONValue) -> Void) throws(JSONError) {
        let result: Result<Void, JSONError> = text.withUnsafeBufferPointer { bytes in
            Result { () throws(JSONError) in
                var reader = JSONReader(bytes: bytes)
                reader.skipSpace()
                guard try reader.peek() == 0x7B else { throw .unexpected(offset: reader.offset) }
                try reader.readMembers(depth: 0, body)
                reader.skipSpace()
                if reader.offset < bytes.count { throw .unexpected(offset: reader.offset) }
            }
        }
        try result.get()
    }

    private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        if depth > Self.depthMax { throw .tooDeep(limit: Self.depthMax) }
        skipSpace()
        switch try peek() {
        case 0x7B: return try object(depth: depth)
        case 0x5B: return try array(depth: depth)
        case 0x22: return .string(try string())
        case 0x74: return try literal("true", .bool(true))
        case 0x66: return try literal("false", .bool(false))
        case 0x6E: return try literal("null", .null)
        default: return try number()
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        var members: [JSONValue.Member] = []
        try readMembers(depth: depth) { (bytes, value) throws(JSONError) in
            let name = String(decoding: bytes, as: UTF8.self)
            if members.contains(where: { $0.isCalled(name) }) { throw .duplicate(name: name) }
            if members.count == Self.membersMax { throw .tooManyMembers(limit: Self.membersMax) }
            if members.isEmpty { members.reserveCapacity(Self.membersExpected) }
            members.append(JSONValue.Member(name: name, value: value))
        }
        return .object(members)
    }

    private mutating func readMembers(
        depth: Int, _ body: (UnsafeRawBufferPointer, JSONValue) throws(JSONError) -> Void
    ) throws(JSONError) {
        offset += 1
        skipSpace()
        if try peek() == 0x7D {
            offset += 1
            return
        }
        while true {
            skipSpace()
            guard try peek() == 0x22 else { throw .unexpected(offset: offset) }
            let start = offset + 1
            let isPlain = skipPlainString()
            let end = offset - 1
            var name = isPlain ? "" : try string()
            skipSpace()
            guard try next() == 0x3A else { throw .unexpected(offset: offset - 1) }
            let value = try value(depth: depth + 1)
            if isPlain {
                try body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes)[start..<end]), value)
            } else {
                let result: Result<Void, JSONError> = name.withUTF8 { bytes in
                    Result { () throws(JSONError) in try body(UnsafeRawBufferPointer(bytes), value) }
                }
                try result.get()
            }
            skipSpace()
            switch try next() {
            case 0x2C: continue
            case 0x7D: return
            default: throw .unexpected(offset: offset - 1)
            }
        }
    }

    /// Skips a string of printable ASCII without escapes; leaves any other string unread.
    private mutating func skipPlainString() -> Bool {
        var end = offset + 1
        while end < bytes.count, bytes[end] != 0x22 {
            guard (0x20..<0x7F).contains(bytes[end]), bytes[end] != 0x5C else { return false }
            end += 1
        }
        guard end < bytes.count else { return false }
        offset = end + 1
        return true
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        offset += 1
        var elements: [JSONValue] = []
        skipSpace()
        if try peek() == 0x5D {
            offset += 1
            return .array(elements)
        }
        while true {
            elements.append(try value(depth: depth + 1))
            skipSpace()
            switch try next() {
            case 0x2C: continue
            case 0x5D: return .array(elements)
            default: throw .unexpected(offset: offset - 1)
            }
        }
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for index in 0..<text.utf8CodeUnitCount {
            guard try next() == text.utf8Start[index] else { throw .unexpected(offset: offset - 1) }
        }
        return value
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = offset
        let isNegative = try peek() == 0x2D
        if isNegative { offset += 1 }
        let firstDigit = try peek()
        try digits()
        if firstDigit == 0x30, offset - start > (isNegative ? 2 : 1) { throw .unexpected(offset: start) }
        var isWhole = true
        if offset < bytes.count, bytes[offset] == 0x2E {
            isWhole = false
            offset += 1
            try digits()
        }
        if offset < bytes.count, bytes[offset] | 0x20 == 0x65 {
            isWhole = false
            offset += 1
            if offset < bytes.count, bytes[offset] == 0x2B || bytes[offset] == 0x2D { offset += 1 }
            try digits()
        }
        // Every number of 18 digits fits.
        if isWhole, offset - start <= 18 {
            var value: Int64 = 0
            for digit in bytes[(isNegative ? start + 1 : start)..<offset] { value = value * 10 + Int64(digit - 0x30) }
            return .integer(isNegative ? -value : value)
        }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        if isWhole, let value = Int64(text) { return .integer(value) }
        guard let value = Double(text) else { throw .unexpected(offset: start) }
        return .number(value)
    }

    private mutating func digits() throws(JSONError) {
        guard (0x30...0x39).contains(try peek()) else { throw .unexpected(offset: offset) }
        while offset < bytes.count, (0x30...0x39).contains(bytes[offset]) { offset += 1 }
    }

    private mutating func string() throws(JSONError) -> String {
        offset += 1
        let start = offset
        var all: UInt8 = 0
        while try peek() != 0x22, bytes[offset] != 0x5C, bytes[offset] >= 0x20 {
            all |= bytes[offset]
            offset += 1
        }
        if bytes[offset] == 0x22 {
            defer { offset += 1 }
            let text = UnsafeBufferPointer(rebasing: bytes[start..<offset])
            return all < 0x80 ? String(ascii: UnsafeRawBufferPointer(text)) : try utf8(text, at: start)
        }
        var text = Array(bytes[start..<offset])
        while true {
            let byte = try next()
            switch byte {
            case 0x22:
                let offset = self.offset
                let result: Result<String, JSONError> = text.withUnsafeBufferPointer { text in
                    Result { () throws(JSONError) in try utf8(text, at: offset) }
                }
                return try result.get()
            case 0x5C: try escape(into: &text)
            case 0..<0x20: throw .unexpected(offset: offset - 1)
            default: text.append(byte)
            }
        }
    }

    private func utf8(_ text: UnsafeBufferPointer<UInt8>, at offset: Int) throws(JSONError) -> String {
        guard let string = String(validating: text, as: UTF8.self) else { throw .notUTF8(offset: offset) }
        return string
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONError) {
        switch try next() {
        case 0x22: text.append(0x22)
        case 0x5C: text.append(0x5C)
        case 0x2F: text.append(0x2F)
        case 0x62: text.append(0x08)
        case 0x66: text.append(0x0C)
        case 0x6E: text.append(0x0A)
        case 0x72: text.append(0x0D)
        case 0x74: text.append(0x09)
        case 0x75:
            var code = try hexadecimal()
            if (0xD800...0xDBFF).contains(code) {
                guard try next() == 0x5C, try next() == 0x75 else { throw .unexpected(offset: offset - 1) }
                let low = try hexadecimal()
                guard (0xDC00...0xDFFF).contains(low) else { throw .unexpected(offset: offset - 1) }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw .unexpected(offset: offset - 1) }
            text.append(contentsOf: UTF8.encode(scalar).unsafelyUnwrapped)
        default: throw .unexpected(offset: offset - 1)
        }
    }

    private mutating func hexadecimal() throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            let byte = try next()
            switch byte {
            case 0x30...0x39: value = value << 4 | UInt32(byte - 0x30)
            case 0x41...0x46, 0x61...0x66: value = value << 4 | UInt32((byte | 0x20) - 0x57)
            default: throw .unexpected(offset: offset - 1)
            }
        }
        return value
    }

    private mutating func skipSpace() {
        while offset < bytes.count {
            switch bytes[offset] {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            default: return
            }
        }
    }

    private func peek() throws(JSONError) -> UInt8 {
        guard offset < bytes.count else { throw .truncated }
        return bytes[offset]
    }

    private mutating func next() throws(JSONError) -> UInt8 {
        let byte = try peek()
        offset += 1
        return byte
    }
}
