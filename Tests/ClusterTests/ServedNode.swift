import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import PresenceNode

/// `rollcall serve` in a process of its own, on free ports of loopback, with its data and its log in a folder of the test.
final class ServedNode: @unchecked Sendable {
    /// The development key's tokens are not taken: this is the app's key.
    static let secret = String(repeating: "k", count: 32)

    let folder: TemporaryFolder
    private let process = Process()
    private let logFile: String

    var dataDirectory: String { "\(folder.path)/data" }

    /// - Parameters:
    ///   - arguments: behind those that every node here has; the last of two that are the same counts.
    ///   - umask: octal digits, as the shell takes them; nil for that of the tests.
    ///   - descriptors: how many it may have; nil for as many as the tests.
    init(
        _ arguments: [String] = [], _ variables: [String: String] = [:], in folder: TemporaryFolder = TemporaryFolder(),
        log: String = "log",
        umask: String? = nil, descriptors: Int? = nil
    ) throws {
        self.folder = folder
        logFile = "\(folder.path)/\(log)"
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
        guard FileManager.default.createFile(atPath: logFile, contents: nil), let file = FileHandle(forWritingAtPath: logFile) else {
            throw Fixture.HTTPFailure(description: "no log at \(logFile)")
        }
        process.standardOutput = file
        process.standardError = file
        try process.run()
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// A node that serves.
    static func serving(
        _ arguments: [String] = [], _ variables: [String: String] = [:], in folder: TemporaryFolder = TemporaryFolder(),
        log: String = "log",
        umask: String? = nil, descriptors: Int? = nil
    ) async throws -> ServedNode {
        let node = try ServedNode(arguments, variables, in: folder, log: log, umask: umask, descriptors: descriptors)
        try await node.until("it serves") {
            guard node.process.isRunning else { throw Fixture.HTTPFailure(description: "it has ended: \(node.log)") }
            return node.log.contains("serving")
        }
        return node
    }

    var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }
    var isRunning: Bool { process.isRunning }

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

    /// Waits for its end and returns its exit code.
    func ended() async throws -> Int32 {
        try await until("it ends") { !process.isRunning }
        return process.terminationStatus
    }

    /// Waits for a condition; fails after thirty seconds, with the log.
    func until(_ claim: String, _ condition: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !(try await condition()) {
            if ContinuousClock.now > deadline { throw Fixture.HTTPFailure(description: "never: \(claim)\n\(log)") }
            await Task.yield()
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
