import NIOCore

/// The answers of an HTTP/1.1 connection that are in the channel's queue, as far as they were counted.
struct UnsentAnswers {
    /// Bytes after which the queue is counted again. Counting takes a microsecond.
    private static let uncountedBytesMax = 4 << 10

    /// The bytes that the answers held at the last count.
    private(set) var bytesCount = 0
    /// The time since which the queue was not empty at any count.
    private(set) var since = NIODeadline.distantPast
    /// Bytes that were added since the last count.
    private var uncountedBytes = 0
    /// The largest buffer in the queue. Its memory is freed when all of it is sent.
    private var largestBytes = 0

    var isCountDue: Bool { bytesCount > 0 || uncountedBytes > Self.uncountedBytesMax }

    /// Records that the channel got a buffer.
    mutating func add(_ bytesCount: Int) {
        uncountedBytes += bytesCount
        largestBytes = max(largestBytes, bytesCount)
    }

    /// Records a count of the queue. Returns the change of ``bytesCount``.
    mutating func count(queuedBytes: Int) -> Int {
        if bytesCount == 0 { since = .now() }
        if queuedBytes == 0 { largestBytes = 0 }
        uncountedBytes = 0
        let heldBytes = max(queuedBytes, largestBytes)
        defer { bytesCount = heldBytes }
        return heldBytes - bytesCount
    }
}
