import ArgumentParser
import Foundation
import PresenceNode
import PresenceWire

/// The command `rollcall`.
@main
struct Rollcall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollcall", abstract: "A presence cluster: who is online, on which devices, and with what status.",
        discussion: "Start with `rollcall demo` or `rollcall serve`. Exit codes: 64 bad setting, 69 unavailable, 74 bad data directory.",
        version: version,
        subcommands: [
            ServeCommand.self, DemoCommand.self, SimulateCommand.self, TokenCommand.self, CheckTokenCommand.self, WatchCommand.self,
            StatusCommand.self, ExportCommand.self, ImportCommand.self, BackupCommand.self, RestoreCommand.self, ClusterCommand.self,
        ])

    /// The text that `--version` prints.
    private static var version: String {
        let commit = Release.commit
        return "rollcall \(Release.version) (\(commit.isEmpty ? "unknown commit" : "commit \(commit)"))"
    }

    static func main() async {
        Terminal.fillClosedDescriptors()
        Terminal.ignoreBrokenPipes()
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand { try await command.run() } else { try command.run() }
        } catch {
            guard let failure = failure(error) else { exit(withError: error) }
            Terminal.error("rollcall: \(PrintableText.escaped(failure.description))")
            if let advice = failure.advice { Terminal.error(advice) }
            endProcess(failure.code)
        }
    }

    /// The text and the exit code of an error; nil for an error of the command line, which ArgumentParser explains.
    static func failure(_ error: any Error) -> CommandFailure? {
        switch error {
        case let error as CommandFailure: return error
        case let error as ConfigurationError:
            return CommandFailure(description: "bad setting: \(error)", code: PresenceNode.ExitCode.usage)
        case is StoreError: return CommandFailure(description: "\(error)", code: PresenceNode.ExitCode.inputOutput)
        case is ListenError, is JoinError, is SupersededError:
            return CommandFailure(description: "\(error)", code: PresenceNode.ExitCode.unavailable)
        case let error as CocoaError:
            return CommandFailure(description: FileErrorText.text(error), code: PresenceNode.ExitCode.inputOutput)
        default: return nil
        }
    }
}
