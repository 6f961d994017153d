import Testing

@testable import ClusterSimulation

/// Whole clusters from seeds: no guarantee is broken, and the same seed gives the same history (<doc:SimulatorAsProof>).
@Suite struct SeedTests {
    /// A few, because this build is slow; `make test` runs 200 fixed and 50 fresh ones with the release build.
    @Test("Every guarantee holds, and the same seed gives the same history", arguments: 1...6 as ClosedRange<UInt64>) func guarantees(
        seed: UInt64
    ) {
        let options = HistoryOptions(seed: seed)
        let rings = RingCache()
        var cluster = SimulatedCluster(options, rings: rings)
        cluster.run()
        if let violation = cluster.violation { Issue.record("\(options)\n\(violation)\ncluster-simulation --seed \(seed) --log") }
        var again = SimulatedCluster(options, rings: rings)
        again.run()
        #expect(cluster.trace == again.trace, "seed \(seed) gave two histories")
    }

    @Test("Faults really happen") func faults() {
        var counts = HistoryCounts()
        let rings = RingCache()
        for seed in 1...8 as ClosedRange<UInt64> {
            var cluster = SimulatedCluster(HistoryOptions(seed: seed), rings: rings)
            cluster.run()
            counts += cluster.counts
        }
        #expect(counts[.kills] > 3 && counts[.drains] > 0 && counts[.resets] > 3 && counts[.refused] > 0, "\(counts)")
        #expect(counts[.acknowledged] > 100 && counts[.recordsAnswered] > 150, "\(counts)")
    }

    @Test("A reduced plan breaks the same guarantee") func shrinking() {
        let options = HistoryOptions(seed: 1)
        let shortest = Shrinking.smallest(Plan(options)) { plan in
            plan.steps.contains { if case .login = $0.action { true } else { false } }
        }
        #expect(shortest.steps.count == 1)
    }
}
