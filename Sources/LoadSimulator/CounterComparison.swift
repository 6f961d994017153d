/// Compares the simulator's own counts with the nodes' counters, which must agree exactly.
enum CounterComparison {
    /// The counts of the simulator.
    struct Own {
        /// Event streams that a node has opened.
        var logins: Int
        /// Answered calls by operation.
        var answered: [String: Int]
        var recordsReceived: Int
        /// A user was disconnected and opened a new event stream.
        var hasReconnected: Bool
        /// The scenario drops streams on purpose.
        var isFlapping: Bool
    }

    /// The result of a comparison.
    struct Result: Equatable {
        var comparedCount = 0
        var differences: [String] = []
        /// Changes that the nodes merged into a later push.
        var coalesced = 0
    }

    /// Compares the growth of the nodes' counters with `own`. Returns nil when a counter has fallen: its node was restarted.
    static func compare(_ before: [String: Double], _ after: [String: Double], with own: Own) -> Result? {
        guard before.allSatisfy({ !$0.key.contains("_total") || (after[$0.key] ?? 0) >= $0.value }) else { return nil }
        let growth = { (name: String) in Int((after[name] ?? 0) - (before[name] ?? 0)) }
        var result = Result()
        var expected: [(name: String, count: Int)] = [("rollcall_logins_total", own.logins)]
        for (operation, count) in own.answered.sorted(by: { $0.key < $1.key }) {
            expected.append(("rollcall_operations_total{operation=\"\(operation)\",code=\"0\"}", count))
        }
        for (name, count) in expected {
            result.comparedCount += 1
            let counted = growth(name)
            if counted != count, !own.hasReconnected {
                result.differences.append("\(name): the nodes counted \(counted), the ledger \(count)")
            }
        }
        let pushes = growth("rollcall_pushes_total")
        result.comparedCount += 1
        // Streams that were cut may have had pushes in flight.
        let isWrong = own.hasReconnected || own.isFlapping ? pushes < own.recordsReceived : pushes != own.recordsReceived
        if isWrong {
            result.differences.append("rollcall_pushes_total: the nodes counted \(pushes), the ledger \(own.recordsReceived)")
        }
        result.coalesced = growth("rollcall_pushes_coalesced_total") + growth("rollcall_pushes_paced_total")
        return result
    }
}
