import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import PresenceNode
import Synchronization

/// `rollcall serve` in a process of its own, on free ports of loopback, with its data in a folder of the test.
final class ServedNode: @unchecked Sendable {
    /// The development key's tokens are not taken: this is the app's key.
    static let secret = String(repeating: "k", count: 32)

    let folder: TemporaryFolder
    private let process = Process()
    private let output = Output()
    /// Announces each piece of a log, and each end of a process.
    private static let changes = ChangeSignal()

    /// The log of a process: what it has written to both outputs.
    private final class Output: Sendable {
        private let state = Mutex((bytes: Data(), isComplete: false))

        var text: String { state.withLock { String(decoding: $0.bytes, as: UTF8.self) } }
        /// Whether the process has closed its outputs, by its end.
        var isComplete: Bool { state.withLock { $0.isComplete } }

        /// Reads on a thread of its own until the process ends.
        func read(_ pipe: Pipe) {
            Thread.detachNewThread { [self] in
                var isComplete = false
                while !isComplete {
                    let piece = pipe.fileHandleForReading.availableData
                    isComplete = piece.isEmpty
                    state.withLock { state in
                        state.bytes += piece
                        state.isComplete = isComplete
                    }
                    ServedNode.changes.notify()
                }
            }
        }
    }

    var dataDirectory: String { "\(folder.path)/data" }

    /// - Parameters:
    ///   - arguments: behind those that every node here has; the last of two that are the same counts.
    ///   - umask: octal digits, as the shell takes them; nil for that of the tests.
    ///   - descriptors: how many it may have; nil for as many as the tests.
    init(
        _ arguments: [String] = [], _ variables: [String: String] = [:], in folder: TemporaryFolder = TemporaryFolder(),
        umask: String? = nil, descriptors: Int? = nil
    ) throws {
        self.folder = folder
        // Beside the tests' own binary.
        let binary = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "rollcall").path
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        let limits = (umask.map { "umask \($0); " } ?? "") + (descriptors.map { "ulimit -n \($0); " } ?? "")
        let command = limits + "exec \"$0\" \"$@\""
        let own = ["--node-id", "n", "--loops", "2", "--data-dir", "\(folder.path)/data"]
        let ports = ["--listen", "--cluster-listen", "--ops-listen"].filter { !arguments.contains($0) }.flatMap { [$0, "127.0.0.1:0"] }
        process.arguments = ["-c", command, binary, "serve"] + own + ports + arguments
        let keys = ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": Self.secret]
        process.environment = ProcessInfo.processInfo.environment.merging(keys) { $1 }.merging(variables) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        output.read(pipe)
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// A node that serves.
    static func serving(
        _ arguments: [String] = [], _ variables: [String: String] = [:], in folder: TemporaryFolder = TemporaryFolder(),
        umask: String? = nil, descriptors: Int? = nil
    ) async throws -> ServedNode {
        let node = try ServedNode(arguments, variables, in: folder, umask: umask, descriptors: descriptors)
        try await node.until("it serves") {
            guard node.isRunning else { throw Fixture.HTTPFailure(description: "it has ended: \(node.log)") }
            return node.log.contains("serving")
        }
        return node
    }

    var log: String { output.text }
    var isRunning: Bool { !output.isComplete }

    /// The port of `clients`, `cluster` or `ops`, from the log.
    func port(_ name: String) throws -> Int {
        guard let found = log.firstMatch(of: try Regex("\(name)=[0-9.]+:([0-9]+)")), let digits = found.output[1].substring,
            let port = Int(digits)
        else { throw Fixture.HTTPFailure(description: "no port of \(name) in \(log)") }
        return port
    }

    /// The number of open descriptors of the process.
    var descriptorsCount: Int {
        get throws { try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.processIdentifier)/fd").count }
    }

    /// Limits the descriptors of the process.
    func limitDescriptors(to count: Int) async throws {
        let done = try await run("prlimit", ["--pid", "\(process.processIdentifier)", "--nofile=\(count):20000"])
        guard done.status == 0 else { throw Fixture.HTTPFailure(description: done.output) }
    }

    /// Processor time that it has used, in seconds.
    var processorSeconds: Double {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)
            let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
            guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
            return (user + system) / 100
        }
    }

    func signal(_ number: Int32) { kill(process.processIdentifier, number) }

    /// Waits for its end and returns its exit code. The log is complete then.
    func ended() async throws -> Int32 {
        try await until("it ends") { output.isComplete }
        // A process closes its outputs just before Foundation notices its end.
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Waits for a condition on the logs and ends of processes. Fails after thirty seconds, with the log.
    func until(_ claim: String, _ condition: () throws -> Bool) async throws {
        try await Self.changes.until("\(claim)\n\(log)", condition)
    }

    /// Asks until the answer is right. Fails after thirty seconds, with the log.
    func until(_ claim: String, asking isRight: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !(try await isRight()) {
            if ContinuousClock.now > deadline { throw Fixture.HTTPFailure(description: "never: \(claim)\n\(log)") }
        }
    }

    /// The answer of the ops port.
    func ops(_ path: String) async throws -> HTTPExchange.Response {
        try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: try port("ops"), path: path, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// The status of an operation of `ann`.
    func call(_ operation: String, _ body: String) async throws -> Int {
        let token = try await TokenMint(secret: Self.secret).token(user: "ann")
        return try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: try port("clients"), path: "/v1/\(operation)", headers: [("authorization", "Bearer \(token)")],
            body: body, on: MultiThreadedEventLoopGroup.singleton.next()
        ).status
    }
}
