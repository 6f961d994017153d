import Foundation
import Histogram

/// The result of a simulation.
public struct SimulationReport: Codable, Sendable {
    /// The percentiles of a latency, in milliseconds.
    public struct Latency: Codable, Sendable {
        public var count: UInt64 = 0
        public var p50 = 0.0
        public var p90 = 0.0
        public var p99 = 0.0
        public var p999 = 0.0
        public var max = 0.0
        /// Pairs of percentile and milliseconds, for the plot.
        public var curve: [[Double]] = []

        init(_ histogram: Histogram<UInt64>) {
            count = histogram.totalCount
            guard count > 0 else { return }
            let at = { Double(histogram.valueAtPercentile($0)) / 1_000 }
            (p50, p90, p99, p999, max) = (at(50), at(90), at(99), at(99.9), at(100))
            curve = [1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.99, 100].map { [$0, at($0)] }
        }
    }

    /// One second of the run.
    public struct Second: Codable, Sendable {
        public var second: Int
        public var changes: Int
        public var pushes: Int
        public var usersLive: Int
        /// Percentiles of the pushes that were measured in this second, from the scheduled time of the change. Nil without such a push.
        public var p50Milliseconds: Double?
        public var p99Milliseconds: Double?
    }

    /// The comparison of the nodes' counters with the ledger.
    public struct Counters: Codable, Sendable {
        public var compared = 0
        /// The differences, as sentences.
        public var differences: [String] = []
    }

    public var scenario: String
    public var users: Int
    public var seed: UInt64
    public var connections: Int
    public var loginSeconds = 0.0
    public var loadSeconds = 0.0
    public var changes = 0
    /// The pushes since the begin of the load. Those of the logins are in ``timeline`` only.
    public var pushes = 0
    /// From the scheduled time of a change to the push: free of coordinated omission.
    public var changeToPush: Latency
    /// From the scheduled time of a change to its answer.
    public var changeToAnswer: Latency
    /// From the request of an event stream that was not refused to `onConnected`.
    public var login: Latency
    /// Event streams that a node refused, such as with code 50002. Each user returned after the `retryAfter` of the refusal.
    public var loginsRefused = 0
    public var errorsByCode: [String: Int] = [:]
    public var reconnects = 0
    /// Event streams that moved to another node after a reconnect hint.
    public var moves = 0
    public var isVerifying: Bool
    public var lost = 0
    public var stale = 0
    public var phantom = 0
    public var duplicate = 0
    public var junk = 0
    /// Changes that the nodes merged into a later push.
    public var coalesced = 0
    public var olderOnOtherStream = 0
    /// From the end of the load, or from the return of a node if that was later, until every view was right.
    public var secondsToConverge: Double?
    public var counters = Counters()
    /// The relationships and profiles in scenario `social`.
    public var relationships: RelationshipReport?
    public var examples: [String] = []
    public var timeline: [Second] = []
    /// ``changeToPush`` of each phase, when the ends of phases were marked.
    public var phases: [Latency] = []

    /// Whether coalescing explains every difference. True for a run that does not verify.
    public var isVerified: Bool {
        !isVerifying
            || (lost + stale + phantom + duplicate + junk == 0 && counters.differences.isEmpty && secondsToConverge != nil
                && relationships?.isVerified != false)
    }

    /// The number of the nodes' counters that were compared with the ledger.
    public var countersCompared: Int { counters.compared }

    /// The report as JSON.
    public func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return try encoder.encode(self)
    }

    /// The report for a terminal.
    public var summary: String {
        let line = { (name: String, value: String) in name.padding(toLength: 26, withPad: " ", startingAt: 0) + value + "\n" }
        let milliseconds = { (latency: Latency) in
            String(
                format: "p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f ms", latency.p50, latency.p90, latency.p99, latency.p999,
                latency.max)
        }
        var text = line("scenario", "\(scenario), \(users) users on \(connections) connections, seed \(seed)")
        text += line("logins", String(format: "%d in %.1f s, %d refused and retried", users, loginSeconds, loginsRefused))
        text += line("login", milliseconds(login))
        text += line(
            "changes", String(format: "%d in %.1f s (%.0f per second)", changes, loadSeconds, Double(changes) / max(loadSeconds, 0.001)))
        text += line("pushes", String(format: "%d (%.0f per second)", pushes, Double(pushes) / max(loadSeconds, 0.001)))
        text += line("change to push", milliseconds(changeToPush))
        text += line("change to answer", milliseconds(changeToAnswer))
        if !errorsByCode.isEmpty {
            text += line("errors", errorsByCode.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", "))
        }
        text += line("reconnects", "\(reconnects), and \(moves) after onReconnectHint")
        for (name, value) in relationships?.lines(isVerifying: isVerifying) ?? [] { text += line(name, value) }
        guard isVerifying else { return text }
        text += line("lost", "\(lost)") + line("stale", "\(stale)") + line("phantom", "\(phantom)") + line("duplicate", "\(duplicate)")
        text += line("coalesced", "\(coalesced)")
        text += line("views converged after", secondsToConverge.map { String(format: "%.2f s", $0) } ?? "never")
        text += line("counters compared", "\(countersCompared)")
        for difference in counters.differences { text += line("  differs", difference) }
        for example in examples { text += line("  example", example) }
        return text + line("verdict", isVerified ? "verified" : "NOT VERIFIED")
    }
}
