/// Header lists of HTTP/2 that were decoded.
struct DecodedHeads {
    /// The number of header lists.
    var count = 0
    /// The size of the lists (RFC 9113 §6.5.2), and of lists that take as long as window updates.
    var bytes = 0

    /// The size of a header list that takes as long as a stream, its memory and a request that waits: some 1.2 microseconds.
    static let headBytes = 2 << 10

    /// The size of one large header list that takes as long.
    var cost: Int { bytes + count * Self.headBytes }

    /// Whether the lists of a read are decoded even when the time is used up: those of a hundred ordinary requests.
    var isLittle: Bool { count < 100 && bytes < 64 << 10 }

    static func += (decoded: inout Self, other: Self) {
        decoded.count += other.count
        decoded.bytes += other.bytes
    }
}
