import ArgumentParser
import Foundation
import LoadSimulator
import PresenceNode
import UnixSignals

extension Scenario: ExpressibleByArgument {}

/// `rollcall simulate`: presses a cluster and, with `--verify`, checks every push.
struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Put a cluster under load with many simulated users; with --verify, check every push.",
        discussion:
            """
            Exits with 1 when --verify finds a lost, stale, duplicate or unexpected push, or a counter that differs from the ledger. In \
            scenario social it also finds friends, requests, blocked users and profiles that are not as the answers of the calls say.
            """)

    @Option(help: "Client ports of the nodes: URL,…") var target = "http://127.0.0.1:7600"
    @Option(help: "Ops ports of the nodes, whose counters are compared with the ledger: URL,…") var ops: String?
    @Option(help: "Scenario: \(Scenario.allCases.map(\.rawValue).joined(separator: ", ")).") var scenario = Scenario.mesh
    @Option(help: "Number of users.") var users = 1_000
    @Option(help: "Number of other users that each user follows.") var watch = 20
    @Option(help: "Changes per second, at fixed times. In social 60 % are statuses, 30 % relationships, 10 % profiles.") var rate = 500.0
    @Option(help: "Seconds of load.") var duration = 10.0
    @Option(help: "Client connections (default: one for each 50 users).") var connections = 0
    @Option(help: "Most event streams on one connection.") var streamsPerConnection = 500
    @Option(help: "Logins per second at the start.") var loginRate = 2_000.0
    @Option(help: "Number of source addresses: connect from 127.0.0.2 to 127.0.0.N, so that local ports do not run out.")
    var sourceAddresses = 1
    @Option(help: "Seed of all random choices.") var seed: UInt64 = UInt64.random(in: 1...1_000_000)
    @Flag(help: "Record every expected push in a ledger, and fail on any difference.") var verify = false
    @Option(help: "Most seconds to wait after the load until no more pushes arrive.") var settle = 10.0
    @Option(help: "File for the report as JSON.") var json: String?
    @Option(help: "File for the report as HTML.") var html: String?
    @Option(help: "File with the app's HS256 secret (default: the development key).") var secretFile: String?

    func run() async throws {
        var options = SimulationOptions(targets: try Self.targets(target, "--target"))
        options.opsTargets = try ops.map { try Self.targets($0, "--ops") } ?? []
        options.scenario = scenario
        options.users = users
        options.watch = min(watch, options.watchMax)
        options.rate = rate
        options.duration = duration
        options.connections = connections
        options.streamsPerConnection = streamsPerConnection
        options.loginRate = loginRate
        options.sourceAddresses = sourceAddresses
        options.seed = seed
        options.verify = verify
        options.settle = settle
        if let json { try NamedFile.open(json, "--json") }
        if let html { try NamedFile.open(html, "--html") }
        let startedAt = Date()
        let report = try await Self.run(options, secretFile: secretFile)
        if let json { try NamedFile.write(report.json(), to: json, "--json") }
        if let html {
            let setup = SimulationSetup(options, release: Release.version, startedAt: startedAt)
            try NamedFile.write(Data(report.html(setup).utf8), to: html, "--html")
        }
        Terminal.write("\r")
        Terminal.lines(report.summary)
        if !report.isVerified { throw ArgumentParser.ExitCode(1) }
    }

    private static func run(_ options: SimulationOptions, secretFile: String?) async throws -> SimulationReport {
        let secret = try secretFile.map(NamedFile.secret)
        let mint = try await TokenMint(secret: secret)
        let simulation: Simulation
        do { simulation = try await Simulation(options) { "Bearer \(try await mint.token(user: $0))" } } catch let error
            as SimulationOptions.Invalid
        {
            throw CommandFailure(description: error.description, code: PresenceNode.ExitCode.usage)
        }
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sigusr1)
        let watcher = Task { for await signal in signals { if signal == .sigusr1 { simulation.endPhase() } else { simulation.stop() } } }
        let painter = Task { await paint(simulation, total: options.duration) }
        defer {
            watcher.cancel()
            painter.cancel()
        }
        do { return try await simulation.run() } catch let error as SimulationOptions.Unreachable {
            throw CommandFailure(description: error.description, code: PresenceNode.ExitCode.unavailable)
        } catch let error as SimulationOptions.Invalid {
            throw CommandFailure(description: error.description, code: PresenceNode.ExitCode.usage)
        }
    }

    /// Shows the progress in one line on a terminal, or prints a line every five seconds elsewhere.
    private static func paint(_ simulation: Simulation, total: Double) async {
        let isInteractive = Terminal.isInteractive
        while !Task.isCancelled {
            do { try await Task.sleep(for: .milliseconds(isInteractive ? 200 : 5_000)) } catch { return }
            let progress = simulation.progress
            let text = String(
                format: "%6.1f s  %@  %d users live, %d changes, %d pushes, p50 %.2f p99 %.2f ms", progress.seconds, progress.phase,
                progress.usersLive, progress.changes, progress.pushes, progress.p50Milliseconds, progress.p99Milliseconds)
            if isInteractive { Terminal.write("\r\u{1B}[K" + text) } else { Terminal.error(text) }
        }
    }

    static func targets(_ text: String, _ flag: String) throws -> [SimulationOptions.Target] {
        try text.split(separator: ",").map { part in
            guard let url = URL(string: String(part)), let host = url.host, let port = url.port, url.scheme == "http" else {
                throw ValidationError("\(flag): \"\(part)\" is not http://HOST:PORT")
            }
            return SimulationOptions.Target(host: host, port: port)
        }
    }
}
