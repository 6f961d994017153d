import Foundation
import PresenceNode
import Testing

/// The errors of `rollcall serve`.
@Suite struct ServeTests {
    private static let secret = String(repeating: "k", count: 32)
    private static let variables = ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": secret, "ROLLCALL_CLUSTER_SECRET": secret]

    @Test(
        "The error names a host that does not resolve, with its setting and the reason",
        arguments: ["cluster-listen", "ops-listen", "listen"])
    func unresolvedHost(setting: String) async throws {
        let folder = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var arguments = ["serve", "--node-id", "n", "--loops", "1", "--data-dir", folder]
        for name in ["cluster-listen", "ops-listen", "listen"] {
            arguments += ["--\(name)", name == setting ? "nosuch.invalid:7600" : "127.0.0.1:0"]
        }
        let ended = try await Self.run(arguments, Self.variables)
        #expect(ended.status == ExitCode.unavailable)
        #expect(ended.output.contains("rollcall: \(setting): cannot listen on nosuch.invalid:7600: "), "\(ended.output)")
    }

    @Test("A demo that cannot start leaves nothing behind", arguments: [["--users", "1"], ["--rate", "0"], ["--duration", "0"]]) func demo(
        flags: [String]
    )
        async throws
    {
        let folder = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let ended = try await Self.run(["demo"] + flags, ["TMPDIR": folder])
        #expect(ended.status == ExitCode.usage && ended.output.contains("\(flags[0]): "), "\(ended.output)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
    }

    /// Runs the command until it ends, on a thread of its own: the pool that tests run on has a thread a core.
    static func run(_ arguments: [String], _ variables: [String: String] = [:]) async throws -> (status: Int32, output: String) {
        try await withCheckedThrowingContinuation { done in
            Thread.detachNewThread {
                let process = Process()
                // Beside the tests' own binary.
                process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
                    .appending(path: "rollcall")
                process.arguments = arguments
                process.environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
                let pipe = Pipe()
                process.standardOutput = pipe
                process.standardError = pipe
                do { try process.run() } catch { return done.resume(throwing: error) }
                let output = pipe.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                done.resume(returning: (process.terminationStatus, String(decoding: output, as: UTF8.self)))
            }
        }
    }
}
