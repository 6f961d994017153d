import ArgumentParser
import Foundation
import Logging
import PresenceNode
import UnixSignals

/// `rollcall serve`: runs a node.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a node. With no flags: one node on loopback, SQLite in ./rollcall-data, development keys.",
        discussion: "Settings come from flags, then ROLLCALL_… environment variables, then the YAML file.")

    @Option(help: "A YAML file with settings.") var config: String?
    @Option(help: "The node's name in its cluster (default: the host name).") var nodeId: String?
    @Option(help: "Where clients connect (default 127.0.0.1:7600).") var listen: String?
    @Option(help: "Where other nodes connect (default 127.0.0.1:7601).") var clusterListen: String?
    @Option(help: "The address that other nodes are told (default: --cluster-listen).") var advertise: String?
    @Option(help: "Where operators connect (default 127.0.0.1:7602).") var opsListen: String?
    @Option(help: "Cluster addresses to join through: HOST:PORT,…") var join: String?
    @Option(help: "Where durable data lives (default ./rollcall-data).") var dataDir: String?
    @Option(help: "The cluster's name (default rollcall).") var cluster: String?
    @Flag(help: "Take the built-in development key; loopback only.") var dev = false
    @Option(help: "PEM file with the clients' TLS certificate chain.") var tlsCertificate: String?
    @Option(help: "PEM file with its key.") var tlsKey: String?
    @Option(help: "PEM file with this node's certificate for links between nodes.") var clusterTlsCertificate: String?
    @Option(help: "PEM file with its key.") var clusterTlsKey: String?
    @Option(help: "PEM file with the authority that signs the nodes' certificates.") var clusterTlsCa: String?
    @Flag(help: "Open the cluster port to other machines without a secret and without TLS.") var insecureCluster = false
    @Option(help: "Event loops, 1 to 64 (default: one a core).") var loops: Int?
    @Option(help: "trace, debug, info, notice, warning or error (default info).") var logLevel: String?
    @Option(help: "text or json (default text).") var logFormat: String?

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
        try bootstrapLogging(level: configuration.logLevel, format: configuration.logFormat)
        let logger = Logger(label: "rollcall")
        if configuration.isClusterOpen {
            logger.warning(
                "the cluster port is open to everybody who reaches it: there is neither a secret nor TLS between the nodes",
                metadata: ["cluster": "\(configuration.clusterListen)"])
        }
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let node = try await RollcallNode.start(configuration, logger: logger)
        logger.notice(
            "serving",
            metadata: [
                "node": "\(configuration.nodeID)", "clients": "\(configuration.listen.host):\(node.ports.client)",
                "cluster": "\(configuration.clusterListen.host):\(node.ports.cluster)",
                "ops": "\(configuration.opsListen.host):\(node.ports.ops)",
            ])
        if configuration.isDevelopment { try await welcome(node) }
        var received = signals.makeAsyncIterator()
        while let signal = await received.next() {
            if signal == .sighup {
                node.reloadCertificates()
                continue
            }
            logger.notice("stopping", metadata: ["signal": "\(signal)"])
            break
        }
        try await node.stop()
        // Signals are handled until here, so that a second one does not end a node that still transfers its users.
        withExtendedLifetime(received) {}
    }

    /// Two commands for a first try, which work when pasted.
    private func welcome(_ node: RollcallNode) async throws {
        let token = try await TokenMint().token(user: "alice")
        let scheme = node.configuration.tlsCertificate == nil ? "http" : "https"
        let url = "\(scheme)://\(node.configuration.listen.host):\(node.ports.client)"
        let insecure = scheme == "https" ? " -k" : ""
        Terminal.line(
            """

            Development mode: the key is built in, so listen on loopback only. A token for alice, valid for a day:

              \(token)

            Log in and watch what happens (the open stream is the session):
              curl -N\(insecure) -H 'Authorization: Bearer \(token)' '\(url)/v1/events?platform=web'

            In another terminal, set a status:
              curl\(insecure) -H 'Authorization: Bearer \(token)' -d '{"customStatus":"in a meeting"}' \(url)/v1/setSelfStatus

            """)
    }
}
