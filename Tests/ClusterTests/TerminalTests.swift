import Foundation
import Glibc
import NodeFixture
import Testing

/// What the commands for people at a terminal print, and how they end.
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

    /// A command that runs until it is ended, and the file with its output.
    private func start(_ arguments: [String], _ fixture: ServedCluster) throws -> (process: Process, output: () -> String) {
        let path = "\(fixture.directory)/output"
        try Data().write(to: URL(filePath: path))
        let process = Process()
        process.executableURL = URL(filePath: RollcallBinary.path)
        process.arguments = arguments
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        (process.standardOutput, process.standardError) = (file, file)
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
}
