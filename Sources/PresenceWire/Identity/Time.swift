/// Milliseconds since 1970 (UTC): the times of the HTTP API.
public typealias Milliseconds = Int64

/// A point on a node's monotonic clock. Only differences between points of one node have a meaning.
public struct Instant: Hashable, Comparable, Sendable {
    /// Nanoseconds since an arbitrary start.
    public var nanoseconds: Int64

    public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The instant moved by `duration`. It saturates at the far future instead of overflowing.
    public static func + (instant: Instant, duration: Duration) -> Instant {
        let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
        return overflow ? .farFuture : Instant(nanoseconds: sum)
    }

    public static func += (instant: inout Instant, duration: Duration) { instant = instant + duration }

    /// The time from `right` to `left`.
    public static func - (left: Instant, right: Instant) -> Duration {
        Duration(attoseconds: Int128(left.nanoseconds - right.nanoseconds) * 1_000_000_000)
    }

    /// Later than every deadline.
    public static let farFuture = Instant(nanoseconds: .max)
}

extension Duration {
    /// The duration in nanoseconds; saturates at ±292 years.
    public var wholeNanoseconds: Int64 {
        // Up to 9 s no division of 128 bits is needed, which is ten times faster.
        if let attoseconds = Int64(exactly: attoseconds) { return attoseconds / 1_000_000_000 }
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds > 0 ? .max : .min }
        return product + attoseconds / 1_000_000_000
    }

    /// The duration in seconds.
    public var inSeconds: Double { Double(wholeNanoseconds) / 1e9 }

    /// The duration in whole milliseconds, rounded towards zero.
    public var wholeMilliseconds: Int64 { wholeNanoseconds / 1_000_000 }
}

/// The readings of both clocks: deadlines use ``instant``, stamps use ``wall``.
///
/// Every decision takes them as an argument. No decision reads a clock.
public struct Now: Sendable {
    /// The monotonic clock.
    public var instant: Instant
    /// The wall clock, which may jump.
    public var wall: Milliseconds

    public init(instant: Instant, wall: Milliseconds) {
        self.instant = instant
        self.wall = wall
    }
}
