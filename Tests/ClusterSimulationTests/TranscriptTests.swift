import Foundation
import Testing

@testable import ClusterSimulation

/// Scenarios as texts that a person can read: inputs to a simulated cluster, and the messages and states that follow.
///
/// `make pages` writes what follows the inputs: it runs this suite with `ROLLCALL_TESTS=write-pages`.
@Suite struct TranscriptTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Transcripts")
    private static let writes = ProcessInfo.processInfo.environment["ROLLCALL_TESTS"] == "write-pages"
    private static let names = [
        "login", "status-change", "subscription", "friend-request", "owner-dies", "drain", "split", "slow-reader", "kick",
        "policy-change",
    ]

    @Test("A transcript has the messages and states that follow its inputs", arguments: names) func transcript(name: String) throws {
        let file = Self.folder.appending(path: "\(name).txt")
        let played = try TranscriptPlayer.played(try String(contentsOf: file, encoding: .utf8))
        if Self.writes { try played.write(to: file, atomically: true, encoding: .utf8) }
        let found = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n")
        let right = played.components(separatedBy: "\n")
        let first = zip(found, right).first { $0 != $1 }.map { "\($0)" } ?? "its length"
        #expect(found == right, "\(name).txt is not what the cluster does; run `make pages` and read what differs. First: \(first)")
        #expect(!right.contains { $0.hasPrefix("BROKEN") }, "a guarantee is broken in \(name).txt")
    }

    @Test("The folder has no other transcripts") func files() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(files.sorted() == Self.names.map { "\($0).txt" }.sorted())
    }

    @Test("Playing a transcript twice gives the same text, and an unknown input is refused") func player() throws {
        let text = "# A cluster.\n\ncluster nodes=2\n\nusers ann=node-0\nlogin ann at=node-1\nwait 300\nshow ann\n"
        let played = try TranscriptPlayer.played(text)
        #expect(played.hasPrefix("# A cluster.\n\ncluster nodes=2\n----\n") && played.contains("ONLINE"))
        #expect(try TranscriptPlayer.played(played) == played)
        #expect(throws: TranscriptPlayer.Unreadable.self) { try TranscriptPlayer.played("cluster nodes=2\n\nfly ann\n") }
        #expect(throws: TranscriptPlayer.Unreadable.self) { try TranscriptPlayer.played("wait 100\n") }
    }
}
