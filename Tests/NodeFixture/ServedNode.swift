import Foundation
import Glibc
import HTTP2
import NIOPosix
import Synchronization

/// `rollcall serve` in a process of its own, on free ports of loopback, with its data in a folder of the test.
package final class ServedNode: @unchecked Sendable {
    /// The ports of a node that serves.
    package struct Ports: Sendable {
        package let client: Int
        package let cluster: Int
        package let ops: Int
    }

    /// The key of app `default` on nodes without `--dev`. They refuse tokens of the development key.
    package static let secret = String(repeating: "k", count: 32)

    package let nodeID: String
    package let folder: TemporaryFolder
    private let secret: String
    private let process = Process()
    private let output = Output()
    /// The shell that started the node waits for the end of this pipe, or for a line.
    private let lifeline: FileHandle
    private let isReleased = Mutex(false)
    /// Announces each piece of a log, and each end of a process.
    private static let changes = ChangeSignal()

    /// The log of a process: what it has written to both outputs.
    private final class Output: Sendable {
        private let state = Mutex((bytes: Data(), isComplete: false))

        var text: String { state.withLock { String(decoding: $0.bytes, as: UTF8.self) } }
        /// Whether the process has closed its outputs, by its end.
        var isComplete: Bool { state.withLock { $0.isComplete } }

        /// Reads on a thread of its own until the process ends.
        func read(_ pipe: FileHandle) {
            Thread.detachNewThread { [self] in
                var isComplete = false
                while !isComplete {
                    let piece = pipe.availableData
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

    /// The shell becomes the node. A second shell kills the node when the pipe on descriptor 3 ends without a line.
    ///
    /// The tests hold the other end of that pipe, so no node outlives them, even if they are killed. A line says that the node has ended:
    /// its process ID may be that of another process by then.
    private static let script = """
        exec 3<&0; \
        (read -r line <&3 || kill -KILL $$) >/dev/null 2>&1 & \
        exec "$0" "$@" 3<&- </dev/null
        """

    package var dataDirectory: String { "\(folder.path)/\(nodeID)" }

    /// - Parameters:
    ///   - arguments: behind those that every node here has; the last of two that are the same counts.
    ///   - variables: `ROLLCALL_…` variables. The node gets no others of this prefix.
    ///   - umask: octal digits, as the shell takes them; nil for that of the tests.
    ///   - descriptors: how many it may have; nil for as many as the tests.
    package init(
        _ arguments: [String] = [], _ variables: [String: String] = [:], named nodeID: String = "n",
        in folder: TemporaryFolder = TemporaryFolder(), umask: String? = nil, descriptors: Int? = nil
    ) throws {
        (self.nodeID, self.folder) = (nodeID, folder)
        let isDevelopment = arguments.contains("--dev")
        secret = isDevelopment ? developmentSecret : Self.secret
        let (logs, life) = (try PrivatePipe(), try PrivatePipe())
        lifeline = life.writing
        let limits = (umask.map { "umask \($0); " } ?? "") + (descriptors.map { "ulimit -n \($0); " } ?? "")
        let own =
            ["--node-id", nodeID, "--data-dir", "\(folder.path)/\(nodeID)"] + (arguments.contains("--loops") ? [] : ["--loops", "2"])
        let ports = ["--listen", "--cluster-listen", "--ops-listen"].filter { !arguments.contains($0) }.flatMap { [$0, "127.0.0.1:0"] }
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", limits + Self.script, RollcallBinary.path, "serve"] + own + ports + arguments
        let keys = isDevelopment ? [:] : ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": Self.secret]
        process.environment = RollcallBinary.environment.merging(keys) { $1 }.merging(variables) { $1 }
        process.standardInput = life.reading
        process.standardOutput = logs.writing
        process.standardError = logs.writing
        try process.run()
        try logs.writing.close()
        try life.reading.close()
        output.read(logs.reading)
    }

    deinit {
        if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) }
        release()
    }

    /// A node that serves.
    package static func serving(
        _ arguments: [String] = [], _ variables: [String: String] = [:], named nodeID: String = "n",
        in folder: TemporaryFolder = TemporaryFolder(), umask: String? = nil, descriptors: Int? = nil
    ) async throws -> ServedNode {
        let node = try ServedNode(arguments, variables, named: nodeID, in: folder, umask: umask, descriptors: descriptors)
        try await node.serves()
        return node
    }

    /// Waits until the node serves. Throws if it ends instead.
    package func serves() async throws {
        try await until("it serves") {
            guard isRunning else { throw TestFailure("\(nodeID) has ended: \(log)") }
            return isServing
        }
    }

    package var log: String { output.text }
    package var isRunning: Bool { !output.isComplete }
    /// Whether the log has the line with the ports.
    package var isServing: Bool { log.contains(/\bserving\b[^\n]*\n/) }

    /// The ports, from the log; zeros before the node serves.
    package var ports: Ports {
        let text = log
        let number = { (name: String) in
            // In a log of JSON the name and the address are quoted.
            (text.firstRange(of: "\(name)=") ?? text.firstRange(of: "\"\(name)\":\""))
                .flatMap { text[$0.upperBound...].firstMatch(of: /^[0-9.]+:([0-9]+)/) }.flatMap { Int($0.1) } ?? 0
        }
        return Ports(client: number("clients"), cluster: number("cluster"), ops: number("ops"))
    }

    /// The number of open descriptors of the process.
    package var descriptorsCount: Int {
        get throws { try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.processIdentifier)/fd").count }
    }

    /// Limits the descriptors of the process.
    package func limitDescriptors(to count: Int) async throws {
        let done = try await run("prlimit", ["--pid", "\(process.processIdentifier)", "--nofile=\(count):20000"])
        guard done.status == 0 else { throw TestFailure(done.output) }
    }

    /// Memory of the process that is in RAM, in bytes.
    package var residentBytes: Int {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
            guard let match = text.firstMatch(of: /VmRSS:\s*([0-9]+) kB/), let kibibytes = Int(match.1) else { return 0 }
            return kibibytes << 10
        }
    }

    /// The value of a metric, with its labels as the page has them. 0 if the page does not have it.
    package func metric(_ name: String) async throws -> Int {
        let line = try await metricsText().split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line.flatMap { Double($0.dropFirst(name.count + 1)) }.map { Int($0) } ?? 0
    }

    /// Processor time that it has used, in seconds.
    package var processorSeconds: Double {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)
            let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
            guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
            return (user + system) / 100
        }
    }

    // MARK: Its end

    package func signal(_ number: Int32) { if process.isRunning { Glibc.kill(process.processIdentifier, number) } }

    /// Stops the process until SIGCONT. Returns when it stands still.
    ///
    /// A process that was sent SIGSTOP runs on until one of its threads takes the signal: on a busy machine, long enough for an answer.
    package func standStill() throws {
        signal(SIGSTOP)
        var report = siginfo_t()
        while waitid(P_PID, id_t(process.processIdentifier), &report, WSTOPPED) != 0 {
            guard errno == EINTR else { throw TestFailure("\(nodeID) does not stand still: error \(errno)") }
        }
    }

    /// Asks the node to end, and waits for it. Throws if the node has ended before, or with another code than 0.
    package func stop() async throws {
        guard !isReleased.withLock({ $0 }) else { return }
        signal(SIGTERM)
        let code = try await ended()
        guard code == 0 else { throw TestFailure("\(nodeID) has ended with \(code): \(log)") }
    }

    /// Kills the node, and waits for its end.
    package func kill() async throws {
        signal(SIGKILL)
        _ = try await ended()
    }

    /// Waits for its end and returns its exit code. The log is complete then.
    package func ended() async throws -> Int32 {
        try await until("it ends") { output.isComplete }
        // Foundation notices the end when the node's shell is gone as well, because that shell has inherited a socket of Foundation's.
        release()
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Ends the shell that watches the node.
    private func release() {
        guard takeLifeline() else { return }
        // No signal, if the shell has ended as well.
        _ = Array("ended\n".utf8).withUnsafeBytes { send(lifeline.fileDescriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        do { try lifeline.close() } catch { return }  // It is closed.
    }

    /// Closes the tests' end of the pipe without a line, as the kernel does when the tests are killed.
    package func cutLifeline() throws { if takeLifeline() { try lifeline.close() } }

    private func takeLifeline() -> Bool {
        isReleased.withLock { isReleased in
            defer { isReleased = true }
            return !isReleased
        }
    }

    // MARK: Waiting and asking

    /// Waits for a condition on the logs and ends of processes. Fails after thirty seconds, with the log.
    package func until(_ claim: String, _ condition: () throws -> Bool) async throws {
        try await Self.changes.until("\(claim)\n\(log)", condition)
    }

    /// Asks until the answer is right. Fails after thirty seconds, with the log.
    package func until(_ claim: String, asking isRight: () async throws -> Bool) async throws {
        try await ServedCluster(nodes: [self], folder: folder).until(claim, isRight)
    }

    /// The answer of the ops port.
    package func ops(_ path: String) async throws -> HTTPExchange.Response {
        try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: ports.ops, path: path, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    package func metricsText() async throws -> String { try await ops("/metrics").text }

    /// A token that the node accepts.
    package func token(user: String, app: String = "default", isAdmin: Bool = false) throws -> String {
        try signedToken(user: user, app: app, isAdmin: isAdmin, secret: secret)
    }

    /// The status of an operation of `ann`.
    package func call(_ operation: String, _ body: String) async throws -> Int {
        try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: ports.client, path: "/v1/\(operation)",
            headers: [("authorization", "Bearer \(try token(user: "ann"))")], body: body, on: MultiThreadedEventLoopGroup.singleton.next()
        ).status
    }
}

/// A pair of sockets that no other child of the tests inherits: such a child would keep them open. A `Pipe` may be inherited.
private struct PrivatePipe {
    let reading: FileHandle
    let writing: FileHandle

    init() throws {
        var ends: [Int32] = [0, 0]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw TestFailure("socketpair: \(errno)") }
        reading = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        writing = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    }
}
