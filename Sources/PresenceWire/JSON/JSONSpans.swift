/// The places of values in a JSON text, found without reading the values.
///
/// It looks for the ends of values only, a word of eight bytes at a time, which costs a tenth of ``JSONReader``. For texts that this
/// project's ``JSONWriter`` has written, such as rows: a text with white space between its tokens has no spans.
public struct JSONSpans {
    /// A member of an object.
    public struct Member: Equatable, Sendable {
        /// The place of the name, without its quotes.
        public let name: Range<Int>
        public let value: Range<Int>
        /// The place of the first of several elements of an array; nil for any other value.
        public let first: Range<Int>?
    }

    private let text: UnsafeRawBufferPointer

    /// The members of an object, in their order; nil if the text is not one object without white space.
    public static func members(of text: [UInt8]) -> [Member]? {
        text.withUnsafeBytes { JSONSpans(text: $0).members() }
    }

    private func members() -> [Member]? {
        guard text.count >= 2, text[0] == UInt8(ascii: "{") else { return nil }
        if text[1] == UInt8(ascii: "}") { return text.count == 2 ? [] : nil }
        var members: [Member] = []
        members.reserveCapacity(16)
        var offset = 1
        while offset < text.count {
            guard let nameEnd = endOfString(at: offset), nameEnd + 1 < text.count, text[nameEnd] == UInt8(ascii: ":"),
                let (valueEnd, firstEnd) = endOfValue(at: nameEnd + 1), valueEnd < text.count
            else { return nil }
            let first = firstEnd.map { nameEnd + 2..<$0 }
            members.append(Member(name: offset + 1..<nameEnd - 1, value: nameEnd + 1..<valueEnd, first: first))
            switch text[valueEnd] {
            case UInt8(ascii: ","): offset = valueEnd + 1
            case UInt8(ascii: "}"): return valueEnd + 1 == text.count ? members : nil
            default: return nil
            }
        }
        return nil
    }

    /// The offset after a value, and that after the first of several elements of an array; nil if the text ends before.
    private func endOfValue(at start: Int) -> (end: Int, first: Int?)? {
        guard start < text.count else { return nil }
        switch text[start] {
        case UInt8(ascii: "\""): return endOfString(at: start).map { ($0, nil) }
        case UInt8(ascii: "{"), UInt8(ascii: "["): return endOfContainer(at: start)
        default: return text[start...].firstIndex { !Self.isOfNumberOrWord($0) }.flatMap { $0 > start ? ($0, nil) : nil }
        }
    }

    private static func isOfNumberOrWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private func endOfContainer(at start: Int) -> (end: Int, first: Int?)? {
        var (offset, depth) = (start, 0)
        var first: Int?
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "\""):
                guard let end = endOfString(at: offset) else { return nil }
                offset = end
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ",") where depth == 1 && first == nil && text[start] == UInt8(ascii: "["): first = offset
            default: break
            }
            offset += 1
            if depth == 0 { return (offset, first) }
        }
        return nil
    }

    /// The offset after the quote that ends a string.
    private func endOfString(at start: Int) -> Int? {
        guard start < text.count, text[start] == UInt8(ascii: "\"") else { return nil }
        var offset = start + 1
        while offset < text.count {
            while offset + 8 <= text.count {
                let word = text.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                if Self.hasByte(UInt8(ascii: "\""), word) || Self.hasByte(UInt8(ascii: "\\"), word) { break }
                offset += 8
            }
            // Escaped bytes often stand close together.
            let end = min(offset + 8, text.count)
            while offset < end {
                switch text[offset] {
                case UInt8(ascii: "\""): return offset + 1
                // The next byte belongs to the escape.
                case UInt8(ascii: "\\"): offset += 2
                default: offset += 1
                }
            }
        }
        return nil
    }

    /// Whether one of the eight bytes of a word is `byte`.
    private static func hasByte(_ byte: UInt8, _ word: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let difference = word ^ (ones &* UInt64(byte))
        return (difference &- ones) & ~difference & (ones << 7) != 0
    }
}
