import ArgumentParser
import Foundation
import PresenceNode
import PresenceWire

/// `rollcall token`: prints a token.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "token", abstract: "Print a token for a user, and nothing else.")

    @Option(help: "User ID, 1 to 64 bytes.") var user: String
    @Option(help: "App ID, 1 to 64 bytes.") var app = "default"
    @Flag(help: "Give the token the role admin, for an app's back end and for operators.") var admin = false
    @Option(help: "Seconds until the token expires.") var expiry = 86_400
    @Option(name: .customLong("kid"), help: "ID of the key, for the token's header.") var keyID: String?
    @Option(help: "The claim aud.") var audience: String?
    @Option(help: "The claim iss.") var issuer: String?
    @Option(help: "File with the app's HS256 secret (default: the development key).") var secretFile: String?

    func validate() throws {
        guard Limits.isValidName(user) else { throw ValidationError("--user: \"\(user)\" is not 1 to 64 bytes without control characters") }
        guard Limits.isValidName(app) else { throw ValidationError("--app: \"\(app)\" is not 1 to 64 bytes without control characters") }
        guard expiry > 0 else { throw ValidationError("--expiry: \(expiry) is not at least 1 second") }
    }

    func run() async throws {
        let secret = try secretFile.map(NamedFile.secret)
        Terminal.line(
            try await TokenMint(secret: secret).token(
                user: user, app: app, isAdmin: admin, seconds: expiry, keyID: keyID, audience: audience, issuer: issuer))
    }
}
