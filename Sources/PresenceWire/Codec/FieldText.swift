/// A short text on the stack.
///
/// Writing several pieces costs one append to the array instead of one for each piece.
struct FieldText: ~Copyable {
    private let start: UnsafeMutablePointer<UInt8>
    private let bytesMax: Int
    private var count = 0

    /// Calls `body` with an empty text of at most `bytesMax` bytes, and appends the text that `body` wrote to `bytes`.
    static func append(_ bytesMax: Int, to bytes: inout [UInt8], _ body: (inout FieldText) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytesMax) { memory in
            guard let start = memory.baseAddress else { return }
            var text = FieldText(start: start, bytesMax: bytesMax)
            body(&text)
            bytes.append(contentsOf: UnsafeBufferPointer(start: start, count: text.count))
        }
    }

    private init(start: UnsafeMutablePointer<UInt8>, bytesMax: Int) { (self.start, self.bytesMax) = (start, bytesMax) }

    /// Appends `text` unchanged.
    mutating func raw(_ text: StaticString) {
        let added = text.utf8CodeUnitCount
        precondition(count + added <= bytesMax, "more text than was said")
        (start + count).update(from: text.utf8Start, count: added)
        count += added
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
        precondition(count + digits <= bytesMax, "more text than was said")
        var rest = value
        for index in stride(from: digits - 1, through: 0, by: -1) {
            let digit = UInt8(truncatingIfNeeded: rest) & 15
            start[count + index] = digit < 10 ? 48 + digit : 87 + digit
            rest >>= 4
        }
        count += digits
    }

    private static let digitPairs: StaticString =
        """
        00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748\
        4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798\
        99
        """
}
