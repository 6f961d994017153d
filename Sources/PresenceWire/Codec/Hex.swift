/// Fixed-width lower-case hexadecimal, without allocation.
public enum Hex {
    /// Appends the lowest `digits` (1–16) hexadecimal digits of `value`, the highest first.
    public static func append(_ value: UInt64, digits: Int, to bytes: inout [UInt8]) {
        FieldText.append(16, to: &bytes) { $0.hex(value, digits: digits) }
    }

    /// Reads 1–16 digits; nil for any other bytes.
    public static func value(of digits: Slice<UnsafeBufferPointer<UInt8>>) -> UInt64? {
        guard (1...16).contains(digits.count) else { return nil }
        var value: UInt64 = 0
        for byte in digits {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return value
    }
}
