import ArgumentParser
import Foundation
import PresenceNode
import PresenceWire

/// `rollcall token`: prints a token.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "token", abstract: "Print a token (and nothing else).")

    @Option(help: "The user ID.") var user: String
    @Option(help: "The app ID.") var app = "default"
    @Flag(help: "A token for an app's back end (role admin).") var admin = false
    @Option(help: "Seconds until it ends.") var expiry = 86_400
    @Option(help: "A file with the app's HS256 secret (default: the development key).") var secretFile: String?

    func validate() throws {
        guard Limits.isValidName(user) else { throw ValidationError("--user: must be 1 to 64 bytes without control characters") }
        guard Limits.isValidName(app) else { throw ValidationError("--app: must be 1 to 64 bytes without control characters") }
        guard expiry > 0 else { throw ValidationError("--expiry: must be at least 1 second") }
    }

    func run() async throws {
        let secret = try secretFile.map { try String(contentsOfFile: $0, encoding: .utf8).trimmingCharacters(in: .newlines) }
        Terminal.line(try await TokenMint(secret: secret).token(user: user, app: app, isAdmin: admin, seconds: expiry))
    }
}
