import ArgumentParser
import Foundation
import LoadSimulator
import Logging
import PresenceNode
import PresenceWire
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
        // For a person at this terminal: it is signed with the public development key, and ends after a day.
        let token = try await TokenMint().token(user: "operator", isAdmin: true)
        let header = nodes.map(description).joined() + "console http://127.0.0.1:\(nodes[0].ports.ops)/console\ntoken   \(token)\n\n"
        let simulation = try await simulate(nodes)
        let watcher = Task {
            for await _ in signals {
                simulation.stop()
                break
            }
        }
        let cast = try await DemoCast(ports: nodes.map(\.ports.client))
        let play = Task { await cast.play() }
        let painter = Task { await paint(simulation, cast, nodes: nodes, header: header) }
        defer {
            play.cancel()
            watcher.cancel()
        }
        let outcome: Result<SimulationReport, any Error>
        do { outcome = .success(try await simulation.run()) } catch { outcome = .failure(error) }
        painter.cancel()
        await painter.value
        let report = try outcome.get()
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

    private func description(_ node: RollcallNode) -> String {
        "\(node.configuration.nodeID)  clients http://127.0.0.1:\(node.ports.client)  metrics http://127.0.0.1:\(node.ports.ops)/metrics\n"
    }

    private func simulate(_ nodes: [RollcallNode]) async throws -> Simulation {
        // The nodes count the calls of the cast and of guests as well, so that their counters are not compared with the ledger.
        let options = try options(targets: nodes.map { .init(host: "127.0.0.1", port: $0.ports.client) })
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

    /// Draws a frame each second on a terminal. Elsewhere it prints the news and a line of numbers every two seconds.
    private func paint(_ simulation: Simulation, _ cast: DemoCast, nodes: [RollcallNode], header: String) async {
        let isDrawn = Terminal.isDrawable
        defer { if isDrawn { DemoScreen.restore() } }
        var screen = DemoScreen(header: header)
        var state = DemoView.State()
        state.command = "\(CommandLine.arguments[0]) watch --user \(DemoCast.guest) ann --target http://127.0.0.1:\(nodes[0].ports.client)"
        if !isDrawn { Terminal.offer(header + "try in another terminal: \(state.command)\n") }
        var (last, newsCount, turns) = (SimulationProgress(), 0, 0)
        while true {
            let isDue = turns % (isDrawn ? 4 : 8) == 0
            if isDue || isDrawn && screen.isResized {
                let heard = await cast.snapshot()
                (state.people, state.news) = (heard.people, heard.news)
                if isDue {
                    state.members = await members(nodes)
                    last = update(&state, simulation.progress, after: last)
                }
                var isRead = true
                if isDrawn {
                    isRead = screen.draw(state)
                } else {
                    let new = heard.news.suffix(heard.newsCount - newsCount).map { PrintableText.escaped($0) + "\n" }.joined()
                    newsCount = heard.newsCount
                    isRead = Terminal.offer(new + DemoView.line(state) + "\n")
                }
                // The nodes stop in order, and remove their folder.
                if !isRead { simulation.stop() }
            }
            turns += 1
            do { try await Task.sleep(for: .milliseconds(250)) } catch { return }
        }
    }

    /// Takes the numbers of the time since the last update.
    private func update(_ state: inout DemoView.State, _ progress: SimulationProgress, after last: SimulationProgress) -> SimulationProgress
    {
        let elapsed = max(progress.seconds - last.seconds, 0.001)
        state.phase = progress.phase
        state.usersOnline = progress.usersLive
        state.samples.append(
            DemoView.Sample(
                changes: Double(progress.changes - last.changes) / elapsed, pushes: Double(progress.pushes - last.pushes) / elapsed,
                p50Milliseconds: progress.lastSecond?.p50Milliseconds, p99Milliseconds: progress.lastSecond?.p99Milliseconds))
        if state.samples.count > 200 { state.samples.removeFirst() }
        return progress
    }

    private func members(_ nodes: [RollcallNode]) async -> String {
        guard let text = try? await nodes[0].metricsText(),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("rollcall_members{state=\"alive\"}") })
        else { return "?" }
        return "\(line.split(separator: " ").last ?? "?") alive"
    }
}
