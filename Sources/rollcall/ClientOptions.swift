import ArgumentParser
import Foundation
import NIOSSL
import PresenceNode

/// The options with which commands for people at a terminal find a node and log in.
struct ClientOptions: ParsableArguments {
    @Option(help: "URL of a node's client port.") var target = "http://127.0.0.1:7600"
    @Option(help: "App ID.") var app = "default"
    @Option(help: "Token (default: one signed with the development key).") var token: String?
    @OptionGroup var trust: TrustOptions

    /// A token for `user`: the given one, or one that is made with the development key.
    func bearer(user: String) async throws -> String {
        if let token { return "Bearer \(token)" }
        return "Bearer \(try await TokenMint().token(user: user, app: app))"
    }

    /// The port at ``target``.
    func port() throws -> ClientPort { try ClientPort(target, trust) }
}

/// The options that say which TLS certificates a command accepts.
struct TrustOptions: ParsableArguments {
    @Option(help: "PEM file of the authorities that sign the certificates of nodes (default: those of the system).") var ca: String?
    @Flag(help: "Accept any TLS certificate of the node.") var insecure = false

    /// The TLS settings of a client.
    func configuration() throws(CommandFailure) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        if let ca {
            let text = try NamedFile.text(ca, "--ca")
            guard let authorities = try? NIOSSLCertificate.fromPEMBytes(Array(text.utf8)), !authorities.isEmpty else {
                throw CommandFailure(description: "--ca: \(ca): has no certificate in PEM", code: PresenceNode.ExitCode.usage)
            }
            configuration.trustRoots = .certificates(authorities)
        }
        if insecure { configuration.certificateVerification = .none }
        return configuration
    }
}
