/// Arithmetic that gives the same bits on every platform.
enum FixedPoint {
    /// The number 1 as a result of ``negativeLog2(_:)``, with 41 bits behind the point. The largest result, 64, takes 47 bits.
    static let one: UInt64 = 1 << 41

    /// The values of 1 − log2(1 + index / 4096), by repeated squaring. The last is 0.
    static let table: [UInt64] = (0..<4096).map { squaredNegativeLog2(UInt64(4096 + $0) << 51) } + [0]

    /// −log2(hash / 2⁶⁴), at most 64.
    ///
    /// It interpolates between two entries of the table, so it never rises, and its error is below 2⁻²⁶.
    @inline(__always)
    static func negativeLog2(_ hash: UInt64) -> UInt64 { table.withUnsafeBufferPointer { negativeLog2(hash, by: $0) } }

    /// - Parameter table: ``table``, which a caller reads once for many hashes.
    @inline(__always)
    static func negativeLog2(_ hash: UInt64, by table: UnsafeBufferPointer<UInt64>) -> UInt64 {
        let hash = hash | 1
        let zeros = UInt64(truncatingIfNeeded: hash.leadingZeroBitCount)
        let mantissa = hash &<< zeros  // 1.63 fixed point in [1, 2): 12 bits for the index, 32 to go on between two entries.
        let index = Int(truncatingIfNeeded: mantissa &>> 51 & 0xFFF)
        let fraction = mantissa &>> 19 & 0xFFFF_FFFF
        let left = table[index]
        let right = table[index + 1]
        return zeros &* one &+ left &- (((left &- right) &* fraction) &>> 32)
    }

    /// −log2(hash / 2⁶⁴) for a hash of at least 2⁶³ (Knuth, TAOCP 1, §1.2.2, exercise 25).
    private static func squaredNegativeLog2(_ hash: UInt64) -> UInt64 {
        var mantissa = hash
        var logarithm: UInt64 = 0
        for _ in 0..<one.trailingZeroBitCount {
            let (high, low) = mantissa.multipliedFullWidth(by: mantissa)
            logarithm <<= 1
            if high >> 63 == 1 {
                logarithm |= 1
                mantissa = high
            } else {
                mantissa = high << 1 | low >> 63
            }
        }
        return one - logarithm
    }

    /// The square root, rounded down, computed bit by bit.
    static func squareRoot(_ value: UInt64) -> UInt64 {
        var root: UInt64 = 0
        for bit in (0..<32).reversed() {
            let larger = root | 1 << UInt64(bit)
            if larger * larger <= value { root = larger }
        }
        return root
    }
}
