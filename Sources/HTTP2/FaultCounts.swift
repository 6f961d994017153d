import NIOCore

/// The faults of an HTTP/2 peer, counted in intervals of ten seconds.
struct FaultCounts {
    private static let interval = TimeAmount.seconds(10)

    /// The streams that the peer has reset, or that were reset by its fault.
    private var resetsCount = 0
    /// The requests with too large a header.
    private var largeHeadersCount = 0
    /// The beginning of the interval.
    private var since: NIODeadline

    init(at now: NIODeadline) { since = now }

    /// Counts a request that is refused as a reset.
    mutating func countReset() { resetsCount += 1 }

    mutating func countLargeHeader() { largeHeadersCount += 1 }

    /// Counts resets, after a new interval has begun if the last one is over. Returns the fault for which the connection ends.
    mutating func count(resets: Int, at now: NIODeadline, _ limits: HTTPLimits) -> HTTP2Fault? {
        if now - since > Self.interval { self = FaultCounts(at: now) }
        resetsCount += resets
        if resetsCount > limits.resetsMax { return .resetFlood }
        return largeHeadersCount > limits.largeHeadersMax ? .headerFlood : nil
    }
}
