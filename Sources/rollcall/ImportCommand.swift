import ArgumentParser
import Foundation
import FriendImport
import HTTP2
import PresenceNode

/// `rollcall import FILE`: brings friend lists from another service.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Bring friend lists from a CSV file, or the facts of an export, into a cluster.",
        discussion: """
            The first row names the columns: userID, friendID, and any of remark, groups (names with semicolons between them), addWording, \
            addSource, addTime (milliseconds), Custom_NAME, and Custom_NAME:integer for a number. Each row puts friendID into the list of \
            userID, and not the other way round. Keep the rows of a user together: up to 100 of them are one call.

            The file is in UTF-8 with commas (RFC 4180); lines end with LF, CRLF or CR. Blanks around IDs are left out. A bad row costs no \
            other one. Refused rows are in FILE.refused.csv, with the columns row, code and reason at the end. Mend them there, and import \
            that file: these columns are ignored.

            A file of `rollcall export` has an object on each line: friends, groups, requests, blocks, profiles and subscriptions. Its \
            import reaches the node by --ops. Refused lines are in FILE.refused.ndjson, with the members row, code and reason.

            A run that was stopped goes on where it was: the place is in FILE.progress.
            """)

    @Argument(help: "A CSV file in UTF-8, or a file of `rollcall export`.") var file: String
    @Option(help: "URL of a node's client port, for a CSV file.") var target = "http://127.0.0.1:7600"
    @Option(help: "URL of a node's ops port, for a file of `rollcall export`.") var ops = "http://127.0.0.1:7602"
    @Option(help: "App ID; for a token that is signed with the development key.") var app = "default"
    @Option(help: "Token with role admin (default: one signed with the development key).") var token: String?
    @Option(help: "Calls under way at once.") var calls = 16
    @Flag(help: "Start at the beginning of the file, and ignore the place of an earlier run.") var restart = false
    @Flag(help: "Say what would become of each line of a file of `rollcall export`, and change nothing.") var dryRun = false
    @OptionGroup var trust: TrustOptions

    func validate() throws {
        guard (1...256).contains(calls) else { throw ValidationError("--calls: \(calls) is not in 1...256") }
        for (flag, address) in [("--target", target), ("--ops", ops)] {
            guard let url = URL(string: address), url.host != nil, ["http", "https"].contains(url.scheme) else {
                throw ValidationError("\(flag): \"\(address)\" is not an http:// or https:// URL")
            }
        }
    }

    func run() async throws {
        var bearer = token
        if bearer == nil { bearer = try await TokenMint().token(user: "rollcall-import", app: app, isAdmin: true) }
        let start = ContinuousClock.now
        let show = { (progress: FriendImport.Progress) in
            if Terminal.isInteractive { Terminal.write("\r" + Self.bar(progress, after: start.duration(to: .now))) }
        }
        var reportPath = FriendImport.reportPath(beside: file)
        let counts: ImportCounts
        do {
            if try FactFileImport.isFactFile(file) {
                reportPath = FactFileImport.reportPath(beside: file)
                counts = try await FactFileImport(try options(ops, bearer ?? ""), isDryRun: dryRun).run(onProgress: show)
            } else if dryRun {
                throw CommandFailure(
                    description: "--dry-run: \(file): is not a file of `rollcall export`; a CSV file has no dry run",
                    code: PresenceNode.ExitCode.usage)
            } else {
                counts = try await FriendImport(try options(target, bearer ?? "")).run(onProgress: show)
            }
        } catch let error as ImportError {
            if Terminal.isInteractive { Terminal.line("") }
            guard error.isOfCluster else { throw CommandFailure(description: "\(error)", code: PresenceNode.ExitCode.usage) }
            throw CommandFailure(
                description: "\(error)", code: PresenceNode.ExitCode.unavailable,
                advice: dryRun ? nil : "The same command goes on where this one has stopped.")
        } catch let error as CocoaError {
            if Terminal.isInteractive { Terminal.line("") }
            throw CommandFailure(description: FileErrorText.text(error, path: file), code: PresenceNode.ExitCode.inputOutput)
        }
        if Terminal.isInteractive { Terminal.line("") }
        let report = counts.refused > 0 ? " (\(reportPath))" : ""
        let rows = (dryRun ? "dry run: " : "") + "\(counts.rows) rows"
        Terminal.line("\(rows): \(counts.imported) imported, \(counts.present) present already, \(counts.refused) refused\(report)")
        if counts.refused > 0 { throw ArgumentParser.ExitCode(1) }
    }

    private func options(_ address: String, _ token: String) throws(CommandFailure) -> FriendImport.Options {
        var options = FriendImport.Options(file: file, target: address, token: token)
        (options.callsCount, options.restarts, options.tls) = (calls, restart, try trust.configuration())
        options.reason = CommandFailure.reason
        options.isLasting = { error in TLSFault(error).map { [TLSFault.noTLS, .untrusted, .otherName].contains($0) } ?? false }
        options.onSilence = { Terminal.warning("rollcall: \($0); trying again for half a minute") }
        return options
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
