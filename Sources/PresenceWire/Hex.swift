/// Fixed-width lower-case hexadecimal, without allocation.
public enum Hex {
    /// Appends the lowest `digits` (1–16) hexadecimal digits of `value`, the highest first.
    @inlinable
    public static func append(_ value: UInt64, digits: Int, to bytes: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) { text in
            var rest = value
            for place in stride(from: digits - 1, through: 0, by: -1) {
                let digit = UInt8(truncatingIfNeeded: rest) & 15
                text[place] = digit < 10 ? 48 + digit : 87 + digit
                rest >>= 4
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[..<digits]))
        }
    }
}
