import PresenceWire

/// A histogram with fixed exponential buckets, for Prometheus.
public struct LatencyHistogram: Equatable, Sendable {
    /// Upper bounds in seconds: 100 µs to 10 s, the 1-2.5-5 series.
    public static let bounds: [Double] = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// Observations by bucket, not cumulative. The last bucket is for observations above all bounds.
    public private(set) var counts = [UInt64](repeating: 0, count: bounds.count + 1)
    /// The sum of all observations, in seconds.
    public private(set) var sum = 0.0

    public init() {}

    /// Adds an observation, `count` times.
    public mutating func observe(seconds: Double, count: UInt64 = 1) {
        var bucket = 0
        while bucket < Self.bounds.count, seconds > Self.bounds[bucket] { bucket += 1 }
        counts[bucket] += count
        sum += seconds * Double(count)
    }

    /// Adds the time from `start` to `end`.
    mutating func observe(_ start: Instant, until end: Instant) {
        observe(seconds: Double(end.nanoseconds - start.nanoseconds) / 1e9)
    }

    /// Removes the observations of an earlier state of this histogram.
    mutating func subtract(_ earlier: LatencyHistogram) {
        for bucket in counts.indices { counts[bucket] -= earlier.counts[bucket] }
        sum -= earlier.sum
    }

    /// Adds another histogram's observations.
    public mutating func add(_ other: LatencyHistogram) {
        for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
        sum += other.sum
    }
}
