import Foundation
import HTTP2
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// A simulated population that presses a cluster. It can be started, watched and stopped.
public final class Simulation: Sendable {
    private let simulator: Simulator
    private let options: SimulationOptions
    private let group: MultiThreadedEventLoopGroup
    private let progressBox = NIOLockedValueBox(SimulationProgress())

    /// - Parameter tokenFor: makes a user's `Authorization` header. The initializer throws its errors, or ``SimulationOptions/Invalid``.
    public init(_ options: SimulationOptions, tokenFor: (_ user: String) async throws -> String) async throws {
        try options.validate()
        self.options = options
        let population = Population(scenario: options.scenario, users: options.users, watch: options.watch, seed: options.seed)
        var tokens: [String] = []
        for user in 0..<options.users { tokens.append(try await tokenFor(population.name(of: user))) }
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        simulator = Simulator(options: options, tokens: tokens, population: population, eventLoop: group.next(), progress: progressBox)
    }

    /// The present numbers.
    public var progress: SimulationProgress { progressBox.withLockedValue { $0 } }

    /// Ends the load early.
    public func stop() { simulator.stop() }

    /// Ends a phase of the load. The report gives each phase's latencies.
    public func endPhase() { simulator.endPhase() }

    /// Runs to the end, and returns the report.
    public func run() async throws -> SimulationReport {
        let before = await counters()
        try await simulator.run().get()
        let after = await counters()
        let simulator = self.simulator
        let report = try await simulator.eventLoop.submit {
            simulator.takeReport(counters: before.flatMap { before in after.map { (before, $0) } })
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
            } catch { return nil }  // Without a node's counters nothing is compared, and the report says so.
        }
        return options.opsTargets.isEmpty ? nil : sums
    }
}
