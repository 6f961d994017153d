/// Fixed-width lower-case hexadecimal, without allocation.
public enum Hex {
    /// Appends the lowest `digits` (1–16) hexadecimal digits of `value`, the highest first.
    @inlinable
    public static func append(_ value: UInt64, digits: Int, to bytes: inout [UInt8]) {
        var shift = digits * 4
        while shift > 0 {
            shift -= 4
            let digit = UInt8(truncatingIfNeeded: value >> UInt64(shift)) & 15
            bytes.append(digit < 10 ? 48 + digit : 87 + digit)
        }
    }
}
