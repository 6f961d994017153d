/// The wait before the next attempt: full jitter, so that clients that lost the same node do not come back together.
public struct Backoff: Sendable, Equatable {
    /// The ceiling of the first wait. Default 500 ms.
    public var initial: Duration
    /// The ceiling of every wait. Default 30 s.
    public var max: Duration

    /// - Parameters: see the properties.
    public init(initial: Duration = .milliseconds(500), max: Duration = .seconds(30)) {
        self.initial = initial
        self.max = max
    }

    /// The longest wait before attempt number `attempt` (0 for the first).
    func ceiling(attempt: Int) -> Duration {
        var ceiling = initial
        var doublings = attempt
        while doublings > 0, ceiling > .zero, ceiling < max {
            ceiling *= 2
            doublings -= 1
        }
        return Swift.min(ceiling, max)
    }

    /// A uniformly random wait of 0 ... ``ceiling(attempt:)``.
    func delay(attempt: Int, using random: inout some RandomNumberGenerator) -> Duration {
        .nanoseconds(Int64.random(in: 0...Swift.max(ceiling(attempt: attempt).wholeNanoseconds, 0), using: &random))
    }
}

extension Duration {
    /// The duration in whole nanoseconds. A span beyond 292 years becomes the longest one.
    var wholeNanoseconds: Int64 {
        let (seconds, overflow) = components.seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (total, beyond) = seconds.addingReportingOverflow(components.attoseconds / 1_000_000_000)
        return overflow || beyond ? .max : total
    }

    /// The duration in whole seconds, rounded up, so that a validity never ends early.
    var wholeSeconds: Int64 { components.attoseconds > 0 && components.seconds < .max ? components.seconds + 1 : components.seconds }
}
