import ArgumentParser
import Foundation
import LoadSimulator
import Logging
import PresenceNode
import UnixSignals

/// `rollcall demo`: three nodes on loopback, a simulated population, and a live view.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Run three nodes on loopback with simulated users, and show live figures until Ctrl-C.")

    @Option(help: "Number of users.") var users = 1_000
    @Option(help: "Number of other users that each user follows.") var watch = 20
    @Option(help: "Status changes per second.") var rate = 200.0
    @Option(help: "Seconds of load, after which the demo ends (default: until Ctrl-C).") var duration: Double?

    func run() async throws {
        try bootstrapLogging(level: "error", format: "text")
        // Invalid options are reported before nodes and a folder exist.
        _ = try options(targets: [.init(host: "127.0.0.1", port: 0)])
        let directory = NSTemporaryDirectory() + "rollcall-demo-\(ProcessInfo.processInfo.processIdentifier)"
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        var nodes: [RollcallNode] = []
        let outcome: Result<SimulationReport, any Error>
        do {
            try await start(&nodes, in: directory)
            outcome = .success(try await run(nodes, until: signals))
        } catch { outcome = .failure(error) }
        for node in nodes { try await node.stop() }
        if FileManager.default.fileExists(atPath: directory) { try FileManager.default.removeItem(atPath: directory) }
        if !(try outcome.get().isVerified) { throw ArgumentParser.ExitCode(1) }
    }

    /// Runs and shows the load, until its end or a signal.
    private func run(_ nodes: [RollcallNode], until signals: UnixSignalsSequence) async throws -> SimulationReport {
        for node in nodes { describe(node) }
        // For a person at this terminal: it is signed with the public development key, and ends after a day.
        let token = try await TokenMint().token(user: "operator", isAdmin: true)
        Terminal.offer("console http://127.0.0.1:\(nodes[0].ports.ops)/console\ntoken   \(token)\n\n")
        let simulation = try await simulate(nodes)
        let watcher = Task {
            for await _ in signals {
                simulation.stop()
                break
            }
        }
        let painter = Task { await paint(simulation, nodes: nodes) }
        let report = try await simulation.run()
        painter.cancel()
        watcher.cancel()
        Terminal.offer("\n" + report.summary)
        return report
    }

    private func start(_ nodes: inout [RollcallNode], in directory: String) async throws {
        for index in 1...3 {
            var configuration = NodeConfiguration.loopback(nodeID: "node-\(index)", directory: directory, beside: nodes)
            configuration.cluster = "demo"
            nodes.append(try await RollcallNode.start(configuration, logger: Logger(label: "rollcall")))
        }
    }

    private func describe(_ node: RollcallNode) {
        Terminal.offer(
            "\(node.configuration.nodeID)  clients http://127.0.0.1:\(node.ports.client)  metrics http://127.0.0.1:\(node.ports.ops)/metrics\n"
        )
    }

    private func simulate(_ nodes: [RollcallNode]) async throws -> Simulation {
        var options = try options(targets: nodes.map { .init(host: "127.0.0.1", port: $0.ports.client) })
        options.opsTargets = nodes.map { .init(host: "127.0.0.1", port: $0.ports.ops) }
        let mint = try await TokenMint()
        return try await Simulation(options) { "Bearer \(try await mint.token(user: $0))" }
    }

    private func options(targets: [SimulationOptions.Target]) throws -> SimulationOptions {
        var options = SimulationOptions(targets: targets)
        options.users = users
        options.watch = min(watch, users - 1)
        options.rate = rate
        options.duration = duration ?? 86_400
        options.verify = true
        do { try options.validate() } catch { throw CommandFailure(description: error.description, code: PresenceNode.ExitCode.usage) }
        return options
    }

    /// Shows a table that is drawn again at the same position on a terminal, or prints a line every two seconds elsewhere.
    private func paint(_ simulation: Simulation, nodes: [RollcallNode]) async {
        var last = (changes: 0, pushes: 0, seconds: 0.0)
        var isFirst = true
        while true {
            do { try await Task.sleep(for: .seconds(Terminal.isInteractive ? 1 : 2)) } catch { return }
            let progress = simulation.progress
            let elapsed = max(progress.seconds - last.seconds, 0.001)
            let members = await members(nodes)
            let text = [
                "members               \(members)", "phase                 \(progress.phase)",
                "users online          \(progress.usersLive)",
                String(format: "changes per second    %.0f", Double(progress.changes - last.changes) / elapsed),
                String(format: "pushes per second     %.0f", Double(progress.pushes - last.pushes) / elapsed),
                String(format: "change to push        p50 %.2f ms   p99 %.2f ms", progress.p50Milliseconds, progress.p99Milliseconds),
            ]
            let isRead: Bool
            if Terminal.isInteractive {
                isRead = Terminal.offer((isFirst ? "\n" : "\u{1B}[\(text.count)A") + text.map { "\u{1B}[K\($0)\n" }.joined())
            } else {
                isRead = Terminal.offer(text.map { $0.replacing(/\s\s+/, with: " ") }.joined(separator: ", ") + "\n")
            }
            // The nodes stop in order, and remove their folder.
            if !isRead { simulation.stop() }
            isFirst = false
            last = (progress.changes, progress.pushes, progress.seconds)
        }
    }

    private func members(_ nodes: [RollcallNode]) async -> String {
        guard let text = try? await nodes[0].metricsText(),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("rollcall_members{state=\"alive\"}") })
        else { return "?" }
        return "\(line.split(separator: " ").last ?? "?") alive"
    }
}
