import Foundation
import HTTP2
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// A simulation that can be started, watched and stopped.
public final class Simulation: Sendable {
    private let simulator: Simulator
    private let options: SimulationOptions
    private let group: MultiThreadedEventLoopGroup
    private let progressBox = NIOLockedValueBox(SimulationProgress())

    /// - Parameter tokenFor: makes a user's `Authorization` header. Throws what it throws, or ``SimulationOptions/Invalid``.
    public init(_ options: SimulationOptions, tokenFor: (_ user: String) async throws -> String) async throws {
        try options.validate()
        self.options = options
        let population = Population(scenario: options.scenario, users: options.users, watch: options.watch, seed: options.seed)
        var tokens: [String] = []
        for user in 0..<options.users { tokens.append(try await tokenFor(population.name(of: user))) }
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        simulator = Simulator(options: options, tokens: tokens, population: population, eventLoop: group.next(), progress: progressBox)
    }

    /// The numbers so far.
    public var progress: SimulationProgress { progressBox.withLockedValue { $0 } }

    /// Ends the load early.
    public func stop() { simulator.stop() }

    /// Ends a phase of the load: its latencies stand apart in the report.
    public func endPhase() { simulator.endPhase() }

    /// Runs to the end and reports.
    public func run() async throws -> SimulationReport {
        let before = await counters()
        try await simulator.run().get()
        let after = await counters()
        let loop = simulator.eventLoop
        let simulator = self.simulator
        let report = try await loop.submit { [options] () -> SimulationReport in
            if options.verify { CounterComparison.compare(before, after, with: simulator) }
            simulator.closeAll()
            return simulator.report
        }.get()
        try await group.shutdownGracefully()
        return report
    }

    /// The sum of each counter over the nodes; nil when a node does not answer.
    private func counters() async -> [String: Double]? {
        var sums: [String: Double] = [:]
        for target in options.opsTargets {
            do {
                let response = try await HTTPExchange.send(
                    .get, host: target.host, port: target.port, path: "/metrics", on: simulator.eventLoop)
                for line in response.text.split(separator: "\n") where !line.hasPrefix("#") {
                    guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else { continue }
                    sums[String(line[..<space]), default: 0] += value
                }
            } catch { return nil }  // A node that is down cannot be compared; the report says how many counters were.
        }
        return options.opsTargets.isEmpty ? nil : sums
    }
}

/// The ledger against the nodes' counters: they must agree to the last one.
enum CounterComparison {
    static func compare(_ before: [String: Double]?, _ after: [String: Double]?, with simulator: Simulator) {
        guard let before, let after else { return }
        let difference = { (name: String) in Int((after[name] ?? 0) - (before[name] ?? 0)) }
        // A node that was restarted counts from 0 again; streams that were cut may have had pushes in flight.
        guard simulator.lastReturnAt == nil, before.allSatisfy({ !$0.key.contains("_total") || (after[$0.key] ?? 0) >= $0.value }) else {
            return
        }
        let wasCut = simulator.report.reconnects > 0 || simulator.options.scenario == .flapping
        var expected: [(name: String, ledger: Int)] = [("rollcall_logins_total", simulator.streamsOpened)]
        for (operation, count) in simulator.answered.sorted(by: { $0.key < $1.key }) {
            expected.append(("rollcall_operations_total{operation=\"\(operation)\",code=\"0\"}", count))
        }
        for (name, ledger) in expected {
            simulator.report.countersCompared += 1
            let counted = difference(name)
            if counted != ledger, simulator.report.reconnects == 0 {
                simulator.report.counterDifferences.append("\(name): the nodes counted \(counted), the ledger \(ledger)")
            }
        }
        let pushes = difference("rollcall_pushes_total")
        let received = simulator.ledger.counts.recordsReceived
        simulator.report.countersCompared += 1
        if wasCut ? pushes < received : pushes != received {
            simulator.report.counterDifferences.append("rollcall_pushes_total: the nodes counted \(pushes), the ledger \(received)")
        }
        simulator.report.coalesced = difference("rollcall_pushes_coalesced_total")
    }
}
