import NIOCore
import PresenceCore
import PresenceWire

/// The counts of a node, read once from each loop.
struct LoadReading: Sendable {
    var logins: UInt64 = 0
    var logouts: UInt64 = 0
    /// Sessions that ended without a logout.
    var lost: UInt64 = 0
    /// Calls that have changed a status, and the sessions that began and ended.
    var changes: UInt64 = 0
    var pushes: UInt64 = 0
    /// Operations that succeeded.
    var operations: UInt64 = 0
    /// Operations that were refused, for any reason.
    var refused: UInt64 = 0
    var usersOnline = 0
    var sessions = 0
    /// From a change to the push of it.
    var pushSeconds = LatencyHistogram()

    init() {}

    init(_ node: NodeStatistics, _ gateways: [GatewayLoop.Counters]) {
        (logins, logouts, lost, usersOnline) = (node.logins, node.owner.logouts, node.owner.sessionsDisconnected, node.usersOnline)
        changes = logins + logouts + lost
        for gateway in gateways {
            pushes += gateway.gateway.recordsPushed
            sessions += gateway.sessions
            operations += gateway.successes.reduce(0, +)
            refused += gateway.refusals.values.reduce(0) { $0 + $1.values.reduce(0, +) }
            for operation in [API.Operation.setSelfStatus, .publishEvent, .setVisibility] {
                changes += gateway.successes[operation.rawValue]
            }
            pushSeconds.add(gateway.pushSeconds)
        }
    }
}

/// The load of a node in the last five minutes, second by second, for the console. Used on one loop only.
struct RecentLoad {
    /// The time between two samples.
    static let interval = TimeAmount.seconds(1)
    /// Most samples: five minutes.
    static let samplesMax = 300

    /// The counts since the sample before.
    struct Sample: Equatable {
        var time: Milliseconds
        var counts: [UInt64]
        var usersOnline: Int
        var sessions: Int
        /// nil for a second without a push.
        var quantiles: [Double]?
    }

    /// The names of ``Sample/counts``.
    static let names: [StaticString] = ["logins", "logouts", "lost", "changes", "pushes", "operations", "refused"]
    /// The quantiles of the latency, and their names.
    static let quantiles: [(name: StaticString, value: Double)] = [("p50", 0.5), ("p99", 0.99), ("max", 1)]

    private(set) var samples: [Sample] = []
    private var last: LoadReading?

    /// Adds the sample of a reading. The first reading only begins the first interval.
    mutating func add(_ reading: LoadReading, at time: Milliseconds) {
        defer { last = reading }
        guard let last else { return }
        let counts = zip(Self.counts(reading), Self.counts(last)).map { $0 &- $1 }
        let latency = reading.pushSeconds.since(last.pushSeconds)
        if samples.count == Self.samplesMax { samples.removeFirst() }
        samples.append(
            Sample(
                time: time, counts: counts, usersOnline: reading.usersOnline, sessions: reading.sessions,
                quantiles: latency.count == 0 ? nil : Self.quantiles.map { latency.quantile($0.value) }))
    }

    private static func counts(_ reading: LoadReading) -> [UInt64] {
        [reading.logins, reading.logouts, reading.lost, reading.changes, reading.pushes, reading.operations, reading.refused]
    }

    /// Writes the answer of `recentLoad`.
    func write(of node: String, into json: inout JSONWriter) {
        json.object { json in
            json.member("node", node)
            json.member("intervalMilliseconds", Self.interval.nanoseconds / 1_000_000)
            json.key("samples")
            json.array { json in
                for sample in samples {
                    json.object { json in
                        json.member("time", sample.time)
                        for (name, count) in zip(Self.names, sample.counts) { json.member(name, Int64(clamping: count)) }
                        json.member("usersOnline", Int64(sample.usersOnline))
                        json.member("sessions", Int64(sample.sessions))
                        guard let quantiles = sample.quantiles else { return }
                        json.key("latencySeconds")
                        json.object { json in
                            for ((name, _), seconds) in zip(Self.quantiles, quantiles) { json.member(name, number: seconds) }
                        }
                    }
                }
            }
        }
    }
}

extension LatencyHistogram {
    /// The number of observations.
    var count: UInt64 { counts.reduce(0, +) }

    /// The observations that an earlier state of this histogram does not have.
    func since(_ earlier: LatencyHistogram) -> LatencyHistogram {
        var rest = self
        rest.subtract(earlier)
        return rest
    }

    /// The upper bound of the bucket with this share of the observations below it, in seconds; the last bound for what is above it.
    func quantile(_ share: Double) -> Double {
        let wanted = UInt64((Double(count) * share).rounded(.up))
        var seen: UInt64 = 0
        for (bucket, bound) in Self.bounds.enumerated() {
            seen += counts[bucket]
            if seen >= wanted { return bound }
        }
        return Self.bounds[Self.bounds.count - 1]
    }
}
