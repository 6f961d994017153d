import ArgumentParser
import Foundation
import HTTP2
import NIOCore
import NIOPosix
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

    /// The host, the port and the TLS settings of ``target``.
    func endpoint() throws -> (host: String, port: Int, tls: NIOSSLContext?) {
        try Self.endpoint(of: target, trust)
    }

    /// The host, the port and the TLS settings of a URL.
    static func endpoint(of target: String, _ trust: TrustOptions) throws -> (host: String, port: Int, tls: NIOSSLContext?) {
        guard let url = URL(string: target), let host = url.host, ["http", "https"].contains(url.scheme) else {
            throw ValidationError("--target: \"\(target)\" is not an http:// or https:// URL")
        }
        guard url.scheme == "https" else { return (host, url.port ?? 7600, nil) }
        var configuration = try trust.configuration()
        configuration.applicationProtocols = ["h2"]
        return (host, url.port ?? 443, try NIOSSLContext(configuration: configuration))
    }
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
