/// Fixed-width lower-case hexadecimal, without allocation.
public enum Hex {
    /// Appends the lowest `digits` (1–16) hexadecimal digits of `value`, the highest first.
    public static func append(_ value: UInt64, digits: Int, to bytes: inout [UInt8]) {
        FieldText.append(16, to: &bytes) { $0.hex(value, digits: digits) }
    }
}
