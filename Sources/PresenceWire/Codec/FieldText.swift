/// A text of bounded length, which is written in place at the end of an array.
///
/// Several pieces cost one check of the array's capacity instead of one for each piece, and no copy.
struct FieldText: ~Copyable {
    private let start: UnsafeMutablePointer<UInt8>
    private let bytesMax: Int
    private var count = 0

    /// Calls `body` with an empty text of at most `bytesMax` bytes, which becomes a part of `bytes`.
    @inline(__always)
    static func append(_ bytesMax: Int, to bytes: inout [UInt8], _ body: (inout FieldText) -> Void) {
        bytes.append(addingCapacity: bytesMax) { span in
            span.withUnsafeMutableBufferPointer { memory, count in
                guard let start = memory.baseAddress else { return }
                var text = FieldText(start: start, bytesMax: bytesMax)
                body(&text)
                count = text.count
            }
        }
    }

    private init(start: UnsafeMutablePointer<UInt8>, bytesMax: Int) { (self.start, self.bytesMax) = (start, bytesMax) }

    /// Appends `text` unchanged.
    @inline(__always)
    mutating func raw(_ text: StaticString) { raw(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)) }

    /// Appends `text` unchanged.
    @inline(__always)
    mutating func raw(_ text: UnsafeBufferPointer<UInt8>) {
        precondition(text.count <= bytesMax - count, "more text than was said")
        guard let source = text.baseAddress else { return }
        (start + count).update(from: source, count: text.count)
        count += text.count
    }

    /// Appends one byte.
    @inline(__always)
    mutating func byte(_ byte: UInt8) {
        precondition(count < bytesMax, "more text than was said")
        start[count] = byte
        count += 1
    }

    /// Appends an integer in decimal, at most 20 bytes.
    mutating func integer(_ value: Int64) {
        precondition(count + 20 <= bytesMax, "more text than was said")
        // Writes the digits from the last to the first, and then moves them to where the text ends.
        var (rest, digits) = (value.magnitude, start + count + 20)
        let end = digits
        while rest >= 100 {
            let pair = Self.digitPairs.utf8Start + 2 * Int(rest % 100)
            rest /= 100
            digits -= 2
            (digits[0], digits[1]) = (pair[0], pair[1])
        }
        repeat {
            digits -= 1
            digits[0] = 48 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        if value < 0 {
            digits -= 1
            digits[0] = 45
        }
        (start + count).update(from: digits, count: end - digits)
        count += end - digits
    }

    /// Appends a version in lower-case hexadecimal, 24 bytes.
    mutating func version(_ version: Version) {
        hex(version.stamp, digits: 16)
        hex(UInt64(version.node), digits: 8)
    }

    /// Appends the lowest `digits` hexadecimal digits of `value`.
    mutating func hex(_ value: UInt64, digits: Int) {
        precondition(digits <= bytesMax - count, "more text than was said")
        var left = digits
        while left > 0 {
            let written = left % 8 == 0 ? 8 : left % 8
            left -= written
            let text = Self.hexText(UInt32(truncatingIfNeeded: value >> (4 * UInt64(left))))
            if written == 8 {
                UnsafeMutableRawPointer(start + count).storeBytes(of: text.bigEndian, as: UInt64.self)
            } else {
                for index in 0..<written { start[count + index] = UInt8(truncatingIfNeeded: text >> (8 * UInt64(written - 1 - index))) }
            }
            count += written
        }
    }

    /// The eight hexadecimal digits of a number as text, the last digit in the lowest byte.
    private static func hexText(_ value: UInt32) -> UInt64 {
        var digits = UInt64(value)
        digits = (digits << 16 | digits) & 0x0000_FFFF_0000_FFFF
        digits = (digits << 8 | digits) & 0x00FF_00FF_00FF_00FF
        digits = (digits << 4 | digits) & 0x0F0F_0F0F_0F0F_0F0F
        // 1 in the byte of each digit from `a` to `f`, whose letters are 39 places after the digit that would follow `9`.
        let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return digits + 0x3030_3030_3030_3030 + letters * 39
    }

    private static let digitPairs: StaticString =
        """
        00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748\
        4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798\
        99
        """
}
