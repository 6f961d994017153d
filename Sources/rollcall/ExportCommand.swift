import ArgumentParser
import Foundation
import NIOCore
import PresenceNode
import PresenceWire

/// `rollcall export FILE`: writes the facts of all users of an app.
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the friends, groups, requests, blocks, profiles and subscriptions of an app into a file.",
        discussion: """
            Each line is a JSON object: one fact of one user, with the user's ID, the kind, the key and the value. The lines are in the \
            order in which `rollcall import` takes them. Statuses and sessions are not among them.

            FILE is complete, or it is not there: the lines are written into FILE.part first. Nobody else can read it. An export while \
            users change something has each fact as it was at some time during the export.
            """)

    @Argument(help: "The file to write; an existing one is replaced.") var file: String
    @Option(help: "App ID; for a token that is signed with the development key.") var app = "default"
    @OptionGroup var ops: OpsOptions

    func run() async throws {
        let target = try NamedFile.replaceable(file, "FILE")
        let part = target + ".part"
        try NamedFile.open(part, "FILE")
        guard chmod(part, 0o600) == 0, let output = FileHandle(forWritingAtPath: part) else {
            throw CommandFailure(description: "FILE: \(part): cannot be written", code: PresenceNode.ExitCode.inputOutput)
        }
        var count = 0
        do {
            try output.truncate(atOffset: 0)
            try await ops.stream("export?kind=all", app: app) { piece in
                count += piece.readableBytesView.count { $0 == UInt8(ascii: "\n") }
                do { try output.write(contentsOf: Data(piece.readableBytesView)) } catch {
                    throw CommandFailure(description: "FILE: \(part): cannot be written", code: PresenceNode.ExitCode.inputOutput)
                }
            }
            try output.synchronize()
            try output.close()
        } catch {
            try FileManager.default.removeItem(atPath: part)
            throw error
        }
        guard rename(part, target) == 0 else {
            throw CommandFailure(
                description: "FILE: \(file): \(String(cString: strerror(errno)))", code: PresenceNode.ExitCode.inputOutput)
        }
        guard ops.json else { return Terminal.line("\(count) facts: \(file)") }
        var json = JSONWriter()
        json.object { json in
            json.member("facts", Int64(count))
            json.member("file", file)
        }
        Terminal.line(PrintableText.escapedJSON(json.bytes))
    }
}
