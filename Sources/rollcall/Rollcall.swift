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
            StatusCommand.self, ExportCommand.self, ImportCommand.self, ClusterCommand.self,
        ])

    /// The text that `--version` prints.
    private static var version: String {
        let commit = Release.commit
        return "rollcall \(Release.version) (\(commit.isEmpty ? "unknown commit" : "commit \(commit)"))"
    }

    static func main() async {
        Terminal.ignoreBrokenPipes()
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand { try await command.run() } else { try command.run() }
        } catch let error as CommandFailure {
            fail(error.description, advice: error.advice, code: error.code)
        } catch let error as ConfigurationError {
            fail("bad setting: \(error)", code: PresenceNode.ExitCode.usage)
        } catch let error as StoreError {
            fail("\(error)", code: PresenceNode.ExitCode.inputOutput)
        } catch let error as ListenError {
            fail("\(error)", code: PresenceNode.ExitCode.unavailable)
        } catch let error as JoinError {
            fail("\(error)", code: PresenceNode.ExitCode.unavailable)
        } catch let error as SupersededError {
            fail("\(error)", code: PresenceNode.ExitCode.unavailable)
        } catch let error as CocoaError {
            let path = (error.userInfo[NSFilePathErrorKey] as? String).map { "\($0): " } ?? ""
            fail(path + error.localizedDescription, code: PresenceNode.ExitCode.inputOutput)
        } catch {
            exit(withError: error)
        }
    }

    private static func fail(_ message: String, advice: String? = nil, code: Int32) -> Never {
        Terminal.error("rollcall: \(PrintableText.escaped(message))")
        if let advice { Terminal.error(advice) }
        endProcess(code)
    }
}
