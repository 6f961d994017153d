import PresenceWire
import Testing

@testable import PresenceCore

/// Nodes that keep one slot in runs of random faults. A failing run prints its seed.
@Suite struct TermModelTests {
    private static let events = 900

    @Test("No acknowledged row is lost, no dropped row returns, and each run ends with one owner", arguments: 0..<8)
    func safety(part: UInt64) {
        var (rows, terms) = (0, 0)
        for seed in part * 250 + 1...part * 250 + 250 {
            var simulation = TermSimulation(seed: seed)
            let violations = simulation.run(events: Self.events)
            rows += simulation.checker.acknowledged.count
            terms += simulation.checker.starts.count
            #expect(violations == [], "TermSimulation(seed: \(seed))")
        }
        // The faults leave time for terms and for rows.
        #expect(rows > 800)
        #expect(terms > 300)
    }

    @Test("A run repeats") func repeats() {
        var (one, other) = (TermSimulation(seed: 5), TermSimulation(seed: 5))
        _ = one.run(events: Self.events)
        _ = other.run(events: Self.events)
        #expect(one.checker.acknowledged == other.checker.acknowledged)
        #expect(one.nodes.map(\.slot.record) == other.nodes.map(\.slot.record))
    }

    /// The search begins where a rare bug was found last. After a change of the simulation it is found elsewhere.
    private static let firstSeeds: [TermFault: UInt64] = [
        .acceptsOldRows: 2_838, .acceptsRowsBeforeContent: 305, .mergesContent: 461, .joinsAllContent: 1_989, .hidesAccepted: 1_137,
        .skipsBase: 483, .acknowledgesAlone: 122, .countsRefusals: 320,
    ]

    @Test("The checker finds each planted bug", arguments: TermFault.allCases) func finds(fault: TermFault) {
        let first = Self.firstSeeds[fault] ?? 1
        let seed = (first..<first + 20_000).first { seed in
            var simulation = TermSimulation(seed: seed, fault: fault)
            return !simulation.run(events: Self.events).isEmpty
        }
        #expect(seed != nil, "\(fault)")
    }
}
