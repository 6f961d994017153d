import ArgumentParser
import Foundation
import Logging
import PresenceNode
import UnixSignals

/// `rollcall serve`: runs a node.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a node. Without flags: one node on loopback, SQLite in ./rollcall-data, development key.",
        discussion: """
            Flags override ROLLCALL_… environment variables, which override the YAML file. SIGHUP reads the certificates and the keys of the \
            apps again.
            """)

    @Option(help: "YAML file with settings.") var config: String?
    @Option(help: "The node's name in its cluster (default: the host name).") var nodeId: String?
    @Option(help: "Address for clients (default 127.0.0.1:7600).") var listen: String?
    @Option(help: "Address for other nodes (default 127.0.0.1:7601).") var clusterListen: String?
    @Option(help: "Address under which other nodes reach this node (default: --cluster-listen).") var advertise: String?
    @Option(help: "Address for operators and Prometheus (default 127.0.0.1:7602).") var opsListen: String?
    @Option(help: "Cluster addresses of nodes to join: HOST:PORT,…") var join: String?
    @Option(help: "Data directory (default ./rollcall-data).") var dataDir: String?
    @Option(help: "The cluster's name (default rollcall).") var cluster: String?
    @Flag(help: "Accept tokens of the built-in development key; only on loopback addresses.") var dev = false
    @Option(help: "PEM file with the TLS certificate chain for clients.") var tlsCertificate: String?
    @Option(help: "PEM file with the key of --tls-certificate.") var tlsKey: String?
    @Option(help: "PEM file with the TLS certificate for links between nodes.") var clusterTlsCertificate: String?
    @Option(help: "PEM file with the key of --cluster-tls-certificate.") var clusterTlsKey: String?
    @Option(help: "PEM file with the certificate authority of the nodes.") var clusterTlsCa: String?
    @Flag(help: "Allow a cluster port on other addresses than loopback without a secret and without TLS.") var insecureCluster = false
    @Option(help: "Event loops, 1 to 64 (default: one per core).") var loops: Int?
    @Option(help: "Log level: trace, debug, info, notice, warning or error (default info).") var logLevel: String?
    @Option(help: "Log format: text or json (default text).") var logFormat: String?

    private var flags: [String: String] {
        let given: [(String, String?)] = [
            ("nodeId", nodeId), ("listen", listen), ("clusterListen", clusterListen), ("advertise", advertise), ("opsListen", opsListen),
            ("join", join), ("dataDir", dataDir), ("cluster", cluster), ("dev", dev ? "true" : nil), ("tlsCertificate", tlsCertificate),
            ("tlsKey", tlsKey),
            ("clusterTlsCertificate", clusterTlsCertificate), ("clusterTlsKey", clusterTlsKey), ("clusterTlsCa", clusterTlsCa),
            ("insecureCluster", insecureCluster ? "true" : nil), ("loops", loops.map(String.init)), ("logLevel", logLevel),
            ("logFormat", logFormat),
        ]
        return Dictionary(uniqueKeysWithValues: given.compactMap { name, value in value.map { (name, $0) } })
    }

    func run() async throws {
        let configuration = try await NodeConfiguration.read(
            flags: flags, environment: ProcessInfo.processInfo.environment, file: config)
        try bootstrapLogging(level: configuration.log.level, format: configuration.log.format)
        let logger = Logger(label: "rollcall")
        do { try await serve(configuration, logger) } catch  where configuration.log.format == "json" {
            // A reader of the log expects JSON in each line, also in the last one.
            let failure = Rollcall.failure(error) ?? CommandFailure(description: "\(error)", code: 1)
            logger.critical("\(failure.description)", metadata: ["exitCode": "\(failure.code)"])
            endProcess(failure.code)
        }
    }

    private func serve(_ configuration: NodeConfiguration, _ logger: Logger) async throws {
        if configuration.isClusterOpen {
            logger.warning(
                "the cluster port accepts every node that reaches it, because neither a cluster secret nor TLS is configured",
                metadata: ["cluster": "\(configuration.clusterListen)"])
        }
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let node = try await RollcallNode.start(configuration, logger: logger)
        logger.notice(
            "serving",
            metadata: [
                "node": "\(configuration.nodeID)", "clients": "\(HostPort(host: configuration.listen.host, port: node.ports.client))",
                "cluster": "\(HostPort(host: configuration.clusterListen.host, port: node.ports.cluster))",
                "ops": "\(HostPort(host: configuration.opsListen.host, port: node.ports.ops))",
            ])
        if configuration.isDevelopment { try await welcome(node) }
        let (ends, end) = AsyncStream.makeStream(of: End.self)
        // Signals are handled until the process ends, so that a second one does not end a node that still transfers its users.
        let listening = Task { for await signal in signals { end.yield(.signal(signal)) } }
        let watching = Task { for await _ in node.supersessions { end.yield(.superseded) } }
        defer {
            listening.cancel()
            watching.cancel()
        }
        loop: for await cause in ends {
            switch cause {
            case .signal(.sighup):
                node.reloadCertificates()
                // The log has the result. A signal to stop does not wait for it.
                Task { try await node.reloadKeys() }
            case .signal(let signal):
                logger.notice("stopping", metadata: ["signal": "\(signal)"])
                break loop
            case .superseded: break loop
            }
        }
        try await stop(node, logger)
    }

    /// Why the node ends, or reads its certificates and keys again.
    private enum End: Sendable {
        case signal(UnixSignal)
        case superseded
    }

    /// Stops the node. Throws a ``SupersededError`` if another process has replaced it, whatever has asked for the stop.
    private func stop(_ node: RollcallNode, _ logger: Logger) async throws {
        do { try await node.stop() } catch {
            guard node.supersededReason != nil else { throw error }
            logger.error("the superseded node did not stop in order", metadata: ["error": "\(error)"])
        }
        if let reason = node.supersededReason { throw SupersededError(reason: reason) }
    }

    /// Two commands for a first try, which work when pasted.
    private func welcome(_ node: RollcallNode) async throws {
        let token = try await TokenMint().token(user: "alice")
        let scheme = node.configuration.tlsCertificate == nil ? "http" : "https"
        let url = "\(scheme)://\(HostPort(host: node.configuration.listen.host, port: node.ports.client))"
        let insecure = scheme == "https" ? " -k" : ""
        Terminal.offer(
            """

            Development mode: tokens are signed with the built-in key, and the node listens on loopback only. A token for alice, valid for a day:

              \(token)

            Log in as alice and watch the events (the open stream is the session):
              curl -N\(insecure) -H 'Authorization: Bearer \(token)' '\(url)/v1/events?platform=web'

            In a second terminal, set a status:
              curl\(insecure) -H 'Authorization: Bearer \(token)' -d '{"customStatus":"in a meeting"}' \
            '\(url)/v1/setSelfStatus'


            """)
    }
}
