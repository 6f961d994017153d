import PresenceWire
import Testing

@testable import PresenceCore

/// Small clusters from a seed: how soon deaths are known, and that all agree once the faults are over.
@Suite struct MembershipStormTests {
    @Test("All members know a refused link within 300 ms", arguments: [3, 4, 5]) func refusedLink(count: Int) throws {
        for seed in 0..<20 as Range<UInt64> {
            var simulation = MembershipSimulation(nodes: count, seed: seed)
            simulation.run(for: .seconds(2))
            simulation.kill(1, isSilent: false)
            simulation.run(for: .milliseconds(300))
            #expect(simulation.deaths[0].knownToAllAt != nil)
        }
    }

    /// One node sees all the refusals. The others learn of it.
    @Test("One node's refused link is enough for all") func oneRefusedLink() throws {
        for seed in 0..<20 as Range<UInt64> {
            var simulation = MembershipSimulation(nodes: 5, seed: seed)
            simulation.run(for: .seconds(2))
            simulation.kill(1, isSilent: true)
            let refusal = Membership.LinkLoss.refused(generation: simulation.nodes[1].peer.generation)
            simulation.act(on: 0) { $0.unlinked(NodeID("node-1"), evidence: refusal, at: $1) }
            simulation.run(for: .milliseconds(300))
            #expect(simulation.deaths[0].knownToAllAt != nil)
        }
    }

    @Test("The rest know a silent partition within 5 s", arguments: [3, 4, 5]) func silentPartition(count: Int) {
        var rest: Duration = .zero
        var alone: Duration = .zero
        for seed in 0..<20 as Range<UInt64> {
            var simulation = MembershipSimulation(nodes: count, seed: seed)
            simulation.run(for: .seconds(2))
            simulation.nodes[0].group = 1
            let others = simulation.run(atMost: .seconds(20)) { simulation in
                simulation.nodes.dropFirst().allSatisfy { $0.membership.update(about: NodeID("node-0"))?.state == .dead }
            }
            rest = max(rest, others ?? .seconds(999))
            let own = simulation.run(atMost: .seconds(30)) { $0.nodes[0].membership.liveCount == 1 }
            alone = max(alone, (others ?? .zero) + (own ?? .seconds(999)))
        }
        print("partition of one of \(count): known to the rest in at most \(rest), to itself in at most \(alone)")
        #expect(rest <= .seconds(5))
        #expect(alone <= .seconds(10))
    }

    @Test("All nodes join through one contact point") func join() {
        var simulation = MembershipSimulation(nodes: 20, seed: 5, isKnown: false)
        let duration = simulation.run(atMost: .seconds(10)) { $0.isAgreed }
        print("20 nodes join in \(duration as Any)")
        #expect(duration != nil)
    }

    /// Two halves that have declared each other dead find each other again, and no member is lost on the way.
    @Test("A split heals") func split() {
        var worst: Duration = .zero
        for seed in 0..<4 as Range<UInt64> {
            var simulation = MembershipSimulation(nodes: 10, seed: seed)
            for node in 0..<5 { simulation.nodes[node].group = 1 }
            simulation.run(for: .seconds(40))
            #expect(simulation.nodes.allSatisfy { $0.membership.liveCount == 5 })
            for node in 0..<5 { simulation.nodes[node].group = 0 }
            simulation.falseDeaths = 0
            worst = max(worst, simulation.run(atMost: .seconds(30)) { $0.isAgreed } ?? .seconds(999))
            #expect(simulation.falseDeaths == 0)
        }
        print("a split of 5 and 5 heals in at most \(worst)")
        #expect(worst <= .seconds(10))
    }

    /// Loss, partitions both ways and one way, silent and loud deaths, restarts, sleep: then heal.
    static func storm(_ seed: UInt64) -> (simulation: MembershipSimulation, agreedIn: Duration?) {
        var simulation = MembershipSimulation(nodes: 10, seed: seed)
        simulation.isTracing = true
        simulation.isDecoding = true
        simulation.lossPerMille = 300
        for _ in 0..<40 {
            let node = Int.random(in: 0..<10, using: &simulation.random)
            switch Int.random(in: 0..<8, using: &simulation.random) {
            case 0: if simulation.nodes.filter(\.isUp).count > 5 { simulation.kill(node, isSilent: true) }
            case 1: if simulation.nodes.filter(\.isUp).count > 5 { simulation.kill(node, isSilent: false) }
            case 2, 3: if !simulation.nodes[node].isUp { simulation.restart(node) }
            case 4: for other in 0..<node { simulation.nodes[other].group = 1 - simulation.nodes[other].group }
            case 5: simulation.cut.append((node, (node + 1 + Int(seed % 8)) % 10))
            case 6: simulation.sleep(node, for: .seconds(Int.random(in: 1...8, using: &simulation.random)))
            default: simulation.block(node, for: .seconds(Int.random(in: 1...8, using: &simulation.random)))
            }
            simulation.run(for: .milliseconds(Int.random(in: 0...2_000, using: &simulation.random)))
        }
        simulation.lossPerMille = 0
        simulation.cut = []
        for node in 0..<10 { simulation.nodes[node].group = 0 }
        let agreedIn = simulation.run(atMost: .seconds(120)) { $0.isAgreed }
        return (simulation, agreedIn)
    }

    @Test("All members agree after a storm, and a run repeats", arguments: 0..<5 as Range<UInt64>) func stormConverges(seed: UInt64) throws
    {
        let (simulation, agreedIn) = Self.storm(seed)
        print("storm \(seed): agreed in \(agreedIn as Any), \(simulation.deaths.count) deaths, \(simulation.falseDeaths) false")
        #expect(try #require(agreedIn) <= .seconds(60))
        #expect(simulation.falseDeaths > 0)
        #expect(Self.storm(seed).simulation.trace == simulation.trace)
    }
}
