import ArgumentParser
import Foundation
import FriendImport
import HTTP2
import PresenceNode

/// `rollcall import FILE`: brings friend lists from another service.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Bring friend lists from a CSV file into a cluster.",
        discussion: """
            The first row names the columns: userID, friendID, and any of remark, groups (names with semicolons between them), addWording, \
            addSource, addTime (milliseconds), Custom_NAME, and Custom_NAME:integer for a number. Each row puts friendID into the list of \
            userID, and not the other way round. Keep the rows of a user together: up to 100 of them are one call.

            The file is in UTF-8 with commas (RFC 4180); lines end with LF, CRLF or CR. Blanks around IDs are left out. A bad row costs no \
            other one. Refused rows are in FILE.refused.csv, with the columns row, code and reason at the end. Mend them there, and import \
            that file: these columns are ignored.

            A run that was stopped goes on where it was: the place is in FILE.progress.
            """)

    @Argument(help: "A CSV file in UTF-8.") var file: String
    @Option(help: "URL of a node's client port.") var target = "http://127.0.0.1:7600"
    @Option(help: "App ID; for a token that is signed with the development key.") var app = "default"
    @Option(help: "Token with role admin (default: one signed with the development key).") var token: String?
    @Option(help: "Calls under way at once.") var calls = 16
    @Flag(help: "Start at the beginning of the file, and ignore the place of an earlier run.") var restart = false
    @Flag(help: "Accept any TLS certificate of the node.") var insecure = false

    func validate() throws {
        guard (1...256).contains(calls) else { throw ValidationError("--calls: \(calls) is not in 1...256") }
        guard let url = URL(string: target), url.host != nil, ["http", "https"].contains(url.scheme) else {
            throw ValidationError("--target: \"\(target)\" is not an http:// or https:// URL")
        }
    }

    func run() async throws {
        var bearer = token
        if bearer == nil { bearer = try await TokenMint().token(user: "rollcall-import", app: app, isAdmin: true) }
        var options = FriendImport.Options(file: file, target: target, token: bearer ?? "")
        (options.callsCount, options.restarts, options.isInsecure) = (calls, restart, insecure)
        options.reason = ConnectionErrorText.text
        options.onSilence = { Terminal.warning("rollcall: \($0); trying again for half a minute") }
        let start = ContinuousClock.now
        let counts: ImportCounts
        do {
            counts = try await FriendImport(options).run { progress in
                if Terminal.isInteractive { Terminal.write("\r" + Self.bar(progress, after: start.duration(to: .now))) }
            }
        } catch let error as ImportError {
            if Terminal.isInteractive { Terminal.line("") }
            guard error.isOfCluster else { throw CommandFailure(description: "\(error)", code: PresenceNode.ExitCode.usage) }
            throw CommandFailure(
                description: "\(error)", code: PresenceNode.ExitCode.unavailable,
                advice: "The same command goes on where this one has stopped.")
        }
        if Terminal.isInteractive { Terminal.line("") }
        let report = counts.refused > 0 ? " (\(FriendImport.reportPath(beside: file)))" : ""
        Terminal.line(
            "\(counts.rows) rows: \(counts.imported) imported, \(counts.present) present already, \(counts.refused) refused\(report)")
        if counts.refused > 0 { throw ArgumentParser.ExitCode(1) }
    }

    private static func bar(_ progress: FriendImport.Progress, after duration: Duration) -> String {
        let filled = Int(progress.share * 30)
        let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: 30 - filled)
        let seconds = max(Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18, 0.001)
        let rate = Int(Double(progress.counts.rows - progress.earlierRows) / seconds)
        let percent = String(format: "%3.0f", progress.share * 100)
        return "[\(bar)] \(percent) %  \(progress.counts.rows) rows, \(progress.counts.refused) refused, \(rate)/s   "
    }
}
