import Foundation
import Histogram

/// The relationships and profiles of a simulation in scenario `social`.
public struct RelationshipReport: Codable, Sendable {
    /// The comparison of the users' lists with the ledger.
    public struct Verification: Codable, Sendable {
        /// Pairs of users who add, delete and block each other.
        public var pairs = 0
        /// Pairs with a call whose result is unknown. Their facts before and after it are both right.
        public var uncertainPairs = 0
        /// Operations that were not sent, because no user was free and below its limit of calls.
        public var skipped = 0
        /// Events whose `fromSeq` is not the sequence that the session holds.
        public var gaps = 0
        /// Events by name.
        public var events: [String: Int] = [:]
        /// The lists, profiles and answers that are not as the ledger expects, as sentences.
        public var differences: [String] = []
        /// Whether the lists were compared.
        public var isComplete = false
    }

    /// The calls of each operation by result: a result code, `unknown`, or `refused` with the code of the error.
    public var calls: [String: [String: Int]] = [:]
    /// From the scheduled time of an `addFriend` to its answer.
    public var addFriend: SimulationReport.Latency
    public var verification = Verification()

    init() { addFriend = SimulationReport.Latency(Histogram<UInt64>(highestTrackableValue: 1_000)) }

    /// Whether every list is as the ledger expects.
    public var isVerified: Bool { verification.isComplete && verification.differences.isEmpty }

    /// The names and values of the lines of the summary.
    func lines(isVerifying: Bool) -> [(name: String, value: String)] {
        let words = { (counts: [String: Int]) in
            counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
        }
        var lines = calls.sorted { $0.key < $1.key }.map { (name: $0.key, value: words($0.value)) }
        let milliseconds = String(format: "p50 %.2f  p99 %.2f  max %.2f ms", addFriend.p50, addFriend.p99, addFriend.max)
        lines.append(("addFriend to answer", milliseconds))
        lines.append(("calls not sent", "\(verification.skipped), because no user was free"))
        lines.append(("events", words(verification.events)))
        lines.append(("gaps of sequences", "\(verification.gaps)"))
        guard isVerifying else { return lines }
        lines.append(("pairs compared", "\(verification.isComplete ? verification.pairs : 0), \(verification.uncertainPairs) uncertain"))
        lines.append(("relationships that differ", "\(verification.differences.count)"))
        lines += verification.differences.prefix(20).map { ("  differs", $0) }
        return lines
    }
}
