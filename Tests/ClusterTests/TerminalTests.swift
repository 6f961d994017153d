import Foundation
import Glibc
import NodeFixture
import Testing

/// The output of the commands for people at a terminal, and their ends.
@Suite(.serialized, .timeLimit(.minutes(3))) struct TerminalTests {
    /// Clears a screen, sets its title, forges a line, and turns the direction of text; in JSON and as it is printed.
    private static let hostile = (
        json: #"\u001b[2J\u001b]0;owned\u0007\r\nops\tONLINE\u007f\u009b5m\u2028\u202e\u2066\u200f"#,
        printed: #"\u{1B}[2J\u{1B}]0;owned\u{07}\r\nops\tONLINE\u{7F}\u{9B}5m\u{2028}\u{202E}\u{2066}\u{200F}"#
    )

    private static func isHarmless(_ output: String) -> Bool {
        output.unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0x09, 0x0A: true
            case 0..<0x20, 0x7F...0x9F, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: false
            default: true
            }
        }
    }

    private func target(_ node: ServedNode) -> [String] { ["--target", "http://127.0.0.1:\(node.ports.client)"] }

    /// A command that runs, and the file with its output.
    ///
    /// - Parameter prepare: changes the process before it starts.
    private func start(
        _ arguments: [String], _ fixture: ServedCluster, _ prepare: (Process) throws -> Void = { _ in }
    ) throws -> (process: Process, output: () -> String) {
        let path = "\(fixture.directory)/output"
        try Data().write(to: URL(filePath: path))
        let process = Process()
        process.executableURL = URL(filePath: RollcallBinary.path)
        process.arguments = arguments
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        (process.standardOutput, process.standardError) = (file, file)
        try prepare(process)
        try process.run()
        return (process, { String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self) })
    }

    @Test("A custom status and an ID with control characters do nothing to the terminal of an operator who prints them")
    func controlCharacters() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let status = { (more: String) in #"{"customStatus":"\#(Self.hostile.json)\#(more)"}"# }
        #expect(try await fixture.call("setSelfStatus", status("first"), as: "mallory").status == 200)
        let asked = try await RollcallBinary.run(["status", "mallory", "nobody\u{202E}"] + target(fixture.nodes[1]))
        #expect(Self.isHarmless(asked.output) && asked.output.split(separator: "\n").count == 2, "\(asked.output)")
        #expect(
            asked.output.contains("\t“\(Self.hostile.printed)first”\n") && asked.output.contains("nobody\\u{202E}\t"), "\(asked.output)")

        let watch = try start(["watch", "--user", "alice", "mallory"] + target(fixture.nodes[1]), fixture)
        try await fixture.until("the first status is printed") { watch.output().contains("first”") }
        #expect(try await fixture.call("setSelfStatus", status("second"), as: "mallory").status == 200)
        try await fixture.until("the second status is printed") { watch.output().contains("second”") }
        kill(watch.process.processIdentifier, SIGTERM)
        try await fixture.until("the command ends") { !watch.process.isRunning }
        #expect(Self.isHarmless(watch.output()), "\(watch.output())")
        #expect(watch.output().contains("\t“\(Self.hostile.printed)second”\n"))

        let ops = ["--ops", "http://127.0.0.1:\(fixture.nodes[2].ports.ops)"]
        let explained = try await RollcallBinary.run(["cluster", "explain", "--viewer", "a\u{202E}", "--target", "b\u{2066}"] + ops)
        #expect(explained.status == 0 && Self.isHarmless(explained.output), "\(explained.output)")
        try await fixture.stop()
    }

    @Test("Claims with control characters do nothing to the terminal of an operator who checks the token", arguments: [true, false])
    func claims(asksNode: Bool) async throws {
        let fixture = try await ServedCluster.start()
        let all = ["sub", "app", "role", "exp", "aud", "iss", Self.hostile.json].map { "\"\($0)\":\"\(Self.hostile.json)\"" }
        let end = Int(Date().timeIntervalSince1970) + 600
        let turned = #"{"sub":"m\u202e\u2066","exp":\#(end)}"#
        let cases: [(claims: String, status: Int32, words: String)] = [
            ("{\(all.joined(separator: ","))}", 1, Self.hostile.printed), (turned, 0, #"the user m\u{202E}\u{2066}"#),
        ]
        for (claims, status, words) in cases {
            let token = signedToken(claims: Data(claims.utf8))
            let ended = try await RollcallBinary.run(["check-token", token] + (asksNode ? target(fixture.nodes[0]) : []))
            #expect(ended.status == status && Self.isHarmless(ended.output), "\(ended.output)")
            #expect(ended.output.contains(words), "\(ended.output)")
        }
        try await fixture.stop()
    }

    @Test("The reason for a refused row has no control characters of the row") func report() async throws {
        let fixture = try await ServedCluster.start()
        let file = "\(fixture.directory)/friends.csv"
        try Data("userID,friendID,addTime\nann,ben,\u{1B}[2J\u{202E}\n".utf8).write(to: URL(filePath: file))
        let ended = try await RollcallBinary.run(["import", file] + target(fixture.nodes[0]))
        #expect(ended.status == 1, "\(ended.output)")
        let report = try String(contentsOfFile: "\(file).refused.csv", encoding: .utf8)
        #expect(report.contains(#"addTime: ""\u{1B}[2J\u{202E}"" is not"#), "\(report)")
        try Data("userID,\"friend\u{1B}ID\"\n".utf8).write(to: URL(filePath: file))
        let refused = try await RollcallBinary.run(["import", file] + target(fixture.nodes[0]))
        #expect(refused.status == ExitCode.usage && refused.output.contains(#""friend\u{1B}ID" is no column"#), "\(refused.output)")
        try await fixture.stop()
    }

    // MARK: The end of commands

    /// Runs a command with outputs that nobody reads, until it ends. Returns what the other outputs have.
    private func runUnread(
        _ command: [String], unread: Set<Int32>, _ fixture: ServedCluster
    ) async throws -> (process: Process, output: String) {
        let (process, output) = try start(command, fixture) { try $0.leaveUnread(unread) }
        try await fixture.until("\(command) ends") { !process.isRunning }
        return (process, output())
    }

    @Test("A command whose outputs nobody reads ends quietly, and does its work") func closedPipe() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let path = { (name: String) in "\(fixture.directory)/\(name)" }
        try Data("userID,friendID\nann,ben\n".utf8).write(to: URL(filePath: path("friends.csv")))
        let (client, ops) = (target(fixture.nodes[1]), ["--ops", "http://127.0.0.1:\(fixture.nodes[2].ports.ops)"])
        let load = ["simulate", "--users", "10", "--watch", "5", "--rate", "20", "--duration", "1", "--settle", "1"] + client
        let commands: [[String]] = [
            ["token", "--user", "ann"], ["status", "ann"] + client, ["watch", "--user", "ann", "ben"] + client,
            ["import", path("friends.csv")] + client, load, load + ["--json", "/dev/stdout"], ["export", path("facts")] + ops,
            ["backup", path("copy")] + ops, ["cluster", "members"] + ops, ["cluster", "ring"] + ops, ["--help"],
            ["check-token", try signedToken(user: "ann")] + client,
            ["cluster", "explain", "--viewer", "ann", "--target", "ben"] + ops,
        ]
        for command in commands {
            let (process, output) = try await runUnread(command, unread: [STDOUT_FILENO], fixture)
            #expect(process.terminationReason == .exit && [0, 141].contains(process.terminationStatus), "\(command)")
            #expect(output == "", "\(command)")
            // The other output is read, and this command writes to it until it is ended.
            if command[0] == "watch" { continue }
            let other = try await runUnread(command, unread: [STDERR_FILENO], fixture)
            #expect(other.process.terminationReason == .exit && other.process.terminationStatus == 0 && other.output != "", "\(command)")
            let both = try await runUnread(command, unread: [STDOUT_FILENO, STDERR_FILENO], fixture).process
            #expect(both.terminationReason == .exit && [0, 141].contains(both.terminationStatus), "\(command)")
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.directory)
        #expect(files.contains("facts") && files.contains("copy") && !files.contains { $0.hasSuffix(".part") }, "\(files)")
        try await fixture.stop()
    }

    @Test("A node whose outputs nobody reads, or are closed, serves and stops in order, and none of its sockets and files gets its log")
    func unreadNode() async throws {
        let fixture = try await ServedCluster.start()
        let outputs: [(unread: Set<Int32>, closing: String)] = [
            ([STDOUT_FILENO], ""), ([STDERR_FILENO], ""), ([STDOUT_FILENO, STDERR_FILENO], ""), ([], ">&-"), ([], "2>&-"),
            ([], "<&- >&- 2>&-"),
        ]
        let addresses = ["--listen", "--cluster-listen", "--ops-listen"].flatMap { [$0, "127.0.0.1:0"] }
        let join = ["--join", "127.0.0.1:\(fixture.nodes[0].ports.cluster)", "--dev", "--loops", "1", "--log-level", "trace"]
        var nodes: [Process] = []
        defer { for node in nodes where node.isRunning { kill(node.processIdentifier, SIGKILL) } }
        for (number, (unread, closing)) in outputs.enumerated() {
            let process = Process()
            process.executableURL = URL(filePath: "/bin/bash")
            // A node does not outlive the tests, even if they are killed.
            let script = #"exec timeout 120 "$@" "# + closing
            let own = ["serve", "--node-id", "unread\(number)", "--data-dir", "\(fixture.directory)/unread\(number)"]
            process.arguments = ["-c", script, "bash", RollcallBinary.path] + own + addresses + join
            process.environment = ProcessInfo.processInfo.environment.merging(["ROLLCALL_DRAIN_TIMEOUT": "1"]) { $1 }
            process.standardInput = FileHandle.nullDevice
            (process.standardOutput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
            try process.leaveUnread(unread)
            try process.run()
            nodes.append(process)
        }
        let all = "rollcall_members{state=\"alive\"} \(outputs.count + 1)\n"
        try await fixture.until("all nodes are members") { try await fixture.nodes[0].metricsText().contains(all) }
        // Each node owns some of these users.
        for number in 0..<60 {
            try await fixture.until("the owner of user\(number) takes the change") {
                let answer = try await fixture.call("setSelfStatus", #"{"customStatus":"in"}"#, as: "user\(number)")
                // Six nodes that start at once on a busy machine need a while until each hears a majority.
                let isUnheard = answer.json["code"]?.number == 50001
                #expect(answer.status == 200 || isUnheard, "\(answer.json)")
                return !isUnheard
            }
        }
        for (node, (_, closing)) in zip(nodes, outputs) {
            let children = "/proc/\(node.processIdentifier)/task/\(node.processIdentifier)/children"
            let child = try #require(try String(contentsOfFile: children, encoding: .utf8).split(separator: " ").first)
            for descriptor in STDIN_FILENO...STDERR_FILENO {
                let end = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(child)/fd/\(descriptor)")
                #expect(end == "/dev/null" || end.hasPrefix("pipe:"), "\(closing): \(descriptor) is \(end)")
            }
            // The child of a test blocks signals, and `timeout` does not unblock them, as a node does.
            kill(try #require(pid_t(child)), SIGTERM)
            try await fixture.until("the node ends") { !node.isRunning }
            #expect(node.terminationReason == .exit && node.terminationStatus == 0, "\(closing): \(node.terminationStatus)")
        }
        try await fixture.stop()
    }

    @Test("An export or a backup is not written into a pipe or a folder, and follows a link") func replacedFile() async throws {
        let fixture = try await ServedCluster.start()
        let ops = ["--ops", "http://127.0.0.1:\(fixture.nodes[0].ports.ops)"]
        let (pipe, link) = ("\(fixture.directory)/pipe", "\(fixture.directory)/link")
        #expect(mkfifo(pipe, 0o600) == 0)
        try Data().write(to: URL(filePath: "\(fixture.directory)/target"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "target")
        for command in ["export", "backup"] {
            for (path, reason) in [(pipe, "is not a file"), (fixture.directory, "is a directory")] {
                let refused = try await RollcallBinary.run([command, path] + ops)
                #expect(refused.status == ExitCode.usage && refused.output == "rollcall: FILE: \(path): \(reason)\n", "\(refused.output)")
            }
            let written = try await RollcallBinary.run([command, link] + ops)
            #expect(written.status == 0, "\(written.output)")
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "target")
        }
        let copy = try Data(contentsOf: URL(filePath: "\(fixture.directory)/target"))
        #expect(copy.starts(with: Data("SQLite format 3".utf8)))
        #expect(!FileManager.default.fileExists(atPath: "\(pipe).part") && !FileManager.default.fileExists(atPath: "\(link).part"))
        try await fixture.stop()
    }

    @Test("A command that waits for events ends when its reader leaves, without another event") func readerLeaves() async throws {
        let fixture = try await ServedCluster.start()
        let arguments = [RollcallBinary.path, "watch", "--user", "zed"] + target(fixture.nodes[0])
        // The reader takes nothing. The first events of the session wait in the pipe by the time it leaves.
        let script = #"timeout 30 "$@" | sleep 3; echo "${PIPESTATUS[0]}""#
        let ended = try await run("bash", ["-c", script, "bash"] + arguments)
        #expect(ended.output == "141\n", "\(ended.output)")
        try await fixture.stop()
    }

    @Test("A command that reaches no node exits with 69 and one plain line") func unreachable() async throws {
        let (client, ops) = (["--target", "http://127.0.0.1:1"], ["--ops", "http://127.0.0.1:1"])
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString)"
        let commands = [
            ["status", "ann"] + client, ["watch", "--user", "ann"] + client, ["watch", "--user", "ann", "ben"] + client,
            ["export", file] + ops, ["backup", file] + ops, ["cluster", "members"] + ops, ["cluster", "ring"] + ops,
            ["cluster", "drain"] + ops, ["cluster", "forget", "n"] + ops,
            ["cluster", "explain", "--viewer", "ann", "--target", "ben"] + ops,
        ]
        for command in commands {
            let ended = try await RollcallBinary.run(command)
            #expect(
                ended.status == ExitCode.unavailable && ended.output == "rollcall: http://127.0.0.1:1: Connection refused\n",
                "\(ended.output)")
            #expect(!FileManager.default.fileExists(atPath: file) && !FileManager.default.fileExists(atPath: "\(file).part"))
        }
    }

    @Test("A file that cannot be read or written is named in a plain line before the run") func files() async throws {
        let fixture = try await ServedCluster.start()
        let secret = try await RollcallBinary.run(["token", "--user", "ann", "--secret-file", "/nowhere/secret"])
        #expect(secret.status == ExitCode.usage && secret.output == "rollcall: --secret-file: /nowhere/secret: No such file or directory\n")
        for flag in ["--json", "--html"] {
            let load = try await RollcallBinary.run(["simulate", flag, "/nowhere/report"] + target(fixture.nodes[0]))
            #expect(load.status == ExitCode.usage && load.output == "rollcall: \(flag): /nowhere/report: No such file or directory\n")
        }
        for name in ["refused.csv", "progress"] {
            let file = "\(fixture.directory)/\(name)-friends.csv"
            try Data("userID,friendID\nann,ben\n".utf8).write(to: URL(filePath: file))
            try FileManager.default.createDirectory(atPath: "\(file).\(name)/folder", withIntermediateDirectories: true)
            let ended = try await RollcallBinary.run(["import", file] + target(fixture.nodes[0]))
            #expect(ended.status == ExitCode.usage, "\(ended.output)")
            #expect(ended.output.hasPrefix("rollcall: \(file).\(name): ") && !ended.output.contains("NSCocoa"), "\(ended.output)")
        }
        let answer = try await fixture.call("getFriendList", #"{"asUser":"ann"}"#, as: "operator", isAdmin: true)
        #expect(answer.status == 200 && answer.json["friendList"]?.elements.isEmpty == true)
        try await fixture.stop()
    }
}

extension Process {
    /// Makes outputs of the process pipes that have no reader any more.
    ///
    /// - Parameter outputs: their descriptors.
    fileprivate func leaveUnread(_ outputs: Set<Int32>) throws {
        let pipe = Pipe()
        try pipe.fileHandleForReading.close()
        if outputs.contains(STDOUT_FILENO) { standardOutput = pipe }
        if outputs.contains(STDERR_FILENO) { standardError = pipe }
    }
}
