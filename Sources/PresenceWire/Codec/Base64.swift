/// Base 64 (RFC 4648 §4), with padding.
public enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The text of `bytes`.
    public static func text(of bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.enumerated().reduce(UInt32(0)) { $0 | UInt32($1.element) << UInt32(16 - 8 * $1.offset) }
            for digit in 0...group.count { text.append(digits[Int(bits >> UInt32(18 - 6 * digit) & 63)]) }
            text.append(contentsOf: repeatElement(UInt8(ascii: "="), count: 3 - group.count))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of a text; nil if the text is not the only one of its bytes.
    public static func bytes(of text: String) -> [UInt8]? {
        guard text.utf8.count % 4 == 0 else { return nil }
        var (bytes, bits, digitsCount, paddingCount): ([UInt8], UInt32, Int, Int) = ([], 0, 0, 0)
        for byte in text.utf8 {
            if byte == UInt8(ascii: "=") {
                paddingCount += 1
                continue
            }
            guard paddingCount == 0, let digit = digit(byte) else { return nil }
            bits = bits << 6 | digit
            digitsCount += 1
            if digitsCount % 4 == 0 { bytes += [UInt8(bits >> 16 & 255), UInt8(bits >> 8 & 255), UInt8(bits & 255)] }
        }
        switch (digitsCount % 4, paddingCount) {
        case (0, 0): return bytes
        case (2, 2) where bits & 15 == 0: return bytes + [UInt8(bits >> 4 & 255)]
        case (3, 1) where bits & 3 == 0: return bytes + [UInt8(bits >> 10 & 255), UInt8(bits >> 2 & 255)]
        default: return nil
        }
    }

    /// Whether a text is the only spelling of its bytes in Base64url without padding (RFC 4648 §5, RFC 7515 §2).
    ///
    /// The bits of the last digit that belong to no byte must be zero.
    public static func isCanonicalURLText(_ text: some Collection<UInt8>) -> Bool {
        var (bits, digitsCount): (UInt32, Int) = (0, 0)
        for byte in text {
            switch byte {
            case UInt8(ascii: "-"): bits = 62
            case UInt8(ascii: "_"): bits = 63
            case UInt8(ascii: "+"), UInt8(ascii: "/"): return false
            default:
                guard let digit = digit(byte) else { return false }
                bits = digit
            }
            digitsCount += 1
        }
        switch digitsCount % 4 {
        case 0: return true
        case 2: return bits & 15 == 0
        case 3: return bits & 3 == 0
        default: return false
        }
    }

    private static func digit(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
