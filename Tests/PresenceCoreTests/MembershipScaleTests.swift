import Foundation
import PresenceWire
import Testing

@testable import PresenceCore

/// The membership at size: small and short, or in full, with 1,000 nodes, by
/// `ROLLCALL_SCALE=1 swift test -c release -Xswiftc -enable-testing --filter MembershipScale`.
@Suite(.serialized) struct MembershipScaleTests {
    static let isFull = ProcessInfo.processInfo.environment["ROLLCALL_SCALE"] != nil

    static func percentile(_ share: Double, _ sorted: [Double]) -> Double {
        sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }

    @Test("All members know a silent death within 5 s") func silentDeath() {
        let count = Self.isFull ? 1_000 : 60
        var seconds: [Double] = []
        var suspected: [Double] = []
        var kilobitsMax = 0.0
        let began = Date()
        var events = 0
        for seed in 0..<UInt64(Self.isFull ? 6 : 1) {
            var simulation = MembershipSimulation(nodes: count, seed: seed)
            simulation.run(for: .seconds(2))
            for index in simulation.nodes.indices { simulation.nodes[index].bytesSent = 0 }
            let start = simulation.time
            for death in 0..<(Self.isFull ? 20 : 5) {
                simulation.kill(death * 7 + 3, isSilent: true)
                simulation.run(for: .milliseconds(Int.random(in: 700...1_300, using: &simulation.random)))
            }
            simulation.run(for: .seconds(8))
            let span = Double(simulation.time - start) / 1e9
            kilobitsMax = max(kilobitsMax, Double(simulation.nodes.map(\.bytesSent).max()!) * 8 / span / 1_000)
            for death in simulation.deaths {
                suspected.append(Double((death.firstSuspectedAt ?? .max) - death.at) / 1e9)
                seconds.append(Double((death.knownToAllAt ?? .max) - death.at) / 1e9)
            }
            events += simulation.eventsCount
            #expect(simulation.falseDeaths == 0)
        }
        seconds.sort()
        suspected.sort()
        let (p50, p99) = (Self.percentile(0.5, seconds), Self.percentile(0.99, seconds))
        let spent = Date().timeIntervalSince(began)
        let early = (Self.percentile(0.5, suspected), Self.percentile(0.99, suspected))
        print("silent deaths: n \(count), \(seconds.count) deaths, suspected p50 \(early.0) p99 \(early.1) s")
        print("  known to all p50 \(p50) p99 \(p99) max \(seconds.last!) s; sent by the busiest node \(kilobitsMax) kbit/s")
        print("  \(events) events in \(spent) s")
        #expect(p99 <= 5)
        #expect(kilobitsMax <= 168)
    }

    // MARK: Slow nodes (Lifeguard §V)

    struct FalseDeaths {
        var all = 0
        var ofHealthy = 0
        var amongHealthy = 0

        static func += (left: inout FalseDeaths, right: FalseDeaths) {
            left.all += right.all
            left.ofHealthy += right.ofHealthy
            left.amongHealthy += right.amongHealthy
        }
    }

    /// The paper's interval experiment: `slow` nodes at once neither send nor take in messages for `blocked`, run normally for
    /// `interval`, and
    /// so on; their clocks go on. With `isAsleep` they do not tick either.
    static func falseDeaths(
        nodes: Int, slow: Int, blocked: Duration, interval: Duration, isAsleep: Bool, span: Duration, seed: UInt64,
        _ settings: Membership.Settings
    ) -> FalseDeaths {
        var simulation = MembershipSimulation(nodes: nodes, seed: seed, settings: settings)
        for node in 0..<slow { simulation.nodes[node].isSlow = true }
        simulation.run(for: .seconds(5))
        let end = simulation.time + span.wholeNanoseconds
        while simulation.time < end {
            for node in 0..<slow {
                if isAsleep { simulation.sleep(node, for: blocked) } else { simulation.block(node, for: blocked) }
            }
            simulation.run(for: blocked + interval)
        }
        return FalseDeaths(
            all: simulation.falseDeaths, ofHealthy: simulation.falseDeathsOfHealthy, amongHealthy: simulation.falseDeathsAmongHealthy)
    }

    static var swimOnly: Membership.Settings {
        var settings = Membership.Settings()
        settings.additions = []
        return settings
    }

    /// Sums the experiment up over its parameters.
    static func falseDeaths(isAsleep: Bool, _ settings: Membership.Settings) -> FalseDeaths {
        var total = FalseDeaths()
        for slow in isFull ? [4, 16] : [4] {
            for blocked: Duration in isFull ? [.milliseconds(2_048), .milliseconds(8_192)] : [.milliseconds(4_096)] {
                for interval: Duration in isFull ? [.milliseconds(64), .milliseconds(1_024), .milliseconds(16_384)] : [.milliseconds(64)] {
                    let result = falseDeaths(
                        nodes: isFull ? 128 : 24, slow: slow, blocked: blocked, interval: interval, isAsleep: isAsleep,
                        span: .seconds(isFull ? 60 : 8), seed: 11, settings)
                    if isFull { print("  C \(slow) D \(blocked) I \(interval): \(result)") }
                    total += result
                }
            }
        }
        return total
    }

    @Test("Lifeguard makes false deaths 50 times rarer", arguments: [false, true]) func lifeguard(isAsleep: Bool) {
        let swim = Self.falseDeaths(isAsleep: isAsleep, Self.swimOnly)
        let lifeguard = Self.falseDeaths(isAsleep: isAsleep, Membership.Settings())
        print("false deaths\(isAsleep ? ", clocks stopped too" : ""): SWIM only \(swim), Lifeguard \(lifeguard)")
        #expect(isAsleep || swim.ofHealthy > 0)
        #expect(lifeguard.ofHealthy * 50 <= swim.ofHealthy)
    }

    // MARK: Splits and costs

    @Test("A split into halves heals") func split() {
        let count = Self.isFull ? 1_000 : 30
        var simulation = MembershipSimulation(nodes: count, seed: 9)
        simulation.run(for: .seconds(2))
        for node in 0..<(count / 2) { simulation.nodes[node].group = 1 }
        let split = simulation.run(atMost: .seconds(120)) { $0.nodes.allSatisfy { $0.membership.liveCount == count / 2 } }
        simulation.run(for: .seconds(10))
        for node in 0..<(count / 2) { simulation.nodes[node].group = 0 }
        for node in simulation.nodes.indices { simulation.nodes[node].bytesSent = 0 }
        simulation.falseDeaths = 0
        let healed = simulation.run(atMost: .seconds(60)) { $0.isAgreed }
        let bytes = simulation.nodes.map(\.bytesSent).max()!
        print(
            "split of \(count): all dead to the others after \(split as Any), agreed after \(healed as Any), "
                + "\(simulation.falseDeaths) false deaths after the heal, at most \(bytes) bytes sent by a node")
        #expect(healed != nil)
        #expect(simulation.falseDeaths <= count)  // Of all pairs, one in a thousand.
    }

    @Test("A tick is cheap") func tick() {
        var simulation = MembershipSimulation(nodes: 2, seed: 1)
        var membership = simulation.nodes[0].membership
        for index in 0..<1_000 {
            let peer = Peer(id: NodeID("member-\(index)"), generation: 1, address: "10.1.\(index / 250).\(index % 250):7601")
            membership.apply(MembershipUpdate(member: peer, incarnation: 0, state: .alive), at: simulation.now)
        }
        membership.queue = UpdateQueue()
        _ = membership.takeEffects()
        var acks = 0
        let began = Date()
        let ticks = Self.isFull ? 100_000 : 2_000
        for _ in 0..<ticks {
            simulation.time += 25_000_000
            membership.tick(at: simulation.now)
            for effect in membership.takeEffects() {
                guard case .send(let message, let id) = effect, case .probe(let sequence) = message.kind else { continue }
                membership.receive(MembershipMessage(.ack(sequence)), from: id, at: simulation.now)
                acks += 1
            }
        }
        print("a tick with 1,000 members: \(Date().timeIntervalSince(began) / Double(ticks) * 1e6) µs, probes and acks included (\(acks))")
        #expect(membership.liveCount == 1_002)
    }
}
