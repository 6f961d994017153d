import Configuration
import Foundation
import HTTP2
import PresenceCore
import PresenceWire

/// An invalid setting. The command names the setting and exits with 64.
public struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    public let setting: String
    public let problem: String

    public init(setting: String, problem: String) {
        self.setting = setting
        self.problem = problem
    }

    public var description: String { "\(setting): \(problem)" }
}

/// An address `host:port`.
public struct HostPort: Hashable, Sendable, CustomStringConvertible {
    public var host: String
    /// The port. 0 stands for a free port, only where the node listens.
    public var port: Int

    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, `[v6]:port` or `:port`; nil for anything else.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]), (0...65_535).contains(port)
        else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        self.init(host: host.isEmpty ? "0.0.0.0" : host, port: port)
    }

    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Whether only this machine can reach the address.
    var isLoopback: Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let isIPv4 = parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
        return host == "localhost" || host == "::1" || (isIPv4 && parts[0] == "127")
    }
}

/// The settings of a node with their defaults. Flags override `ROLLCALL_…` variables, which override a YAML file.
public struct NodeConfiguration: Sendable {
    /// The node's name in its cluster. Default: the machine's host name.
    public var nodeID = ProcessInfo.processInfo.hostName
    /// The cluster's name. The node refuses nodes of another name. Default `rollcall`.
    public var cluster = "rollcall"
    /// The secret that nodes prove to one another, at least 16 bytes. Default none: then nodes compare only the cluster's name.
    public var clusterSecret: String?
    /// Address for clients. Default 127.0.0.1:7600.
    public var listen = HostPort(host: "127.0.0.1", port: 7600)
    /// Address for other nodes. Default 127.0.0.1:7601.
    public var clusterListen = HostPort(host: "127.0.0.1", port: 7601)
    /// Allows a cluster port that other machines reach without ``clusterSecret`` and without TLS. Default false: the node does not start.
    ///
    /// Only for a network that no other machine can reach.
    public var allowsInsecureCluster = false
    /// Address under which other nodes reach this node. Default: ``clusterListen``.
    public var advertise: HostPort?
    /// Address for operators and Prometheus. Default 127.0.0.1:7602.
    public var opsListen = HostPort(host: "127.0.0.1", port: 7602)
    /// Cluster addresses of nodes to join. A name may stand for several addresses.
    public var join: [HostPort] = []
    /// Data directory. Default `./rollcall-data`.
    public var dataDirectory = "./rollcall-data"
    /// Accepts tokens of the built-in development key and listens only on loopback.
    ///
    /// ``read(flags:environment:file:)`` sets it when neither keys nor addresses are configured.
    public var isDevelopment = false
    /// Keys that verify tokens, by app: those that `apps` names and those below `jwt` in the file.
    public var appKeys: [String: TokenRules] {
        get { keys.apps }
        set { keys.apps = newValue }
    }
    private var keys = Keys()

    private struct Keys {
        var apps: [String: TokenRules] = [:]
        /// The origin of the settings, so that the keys can be read again; nil for settings that no file has.
        var source: Source?
    }

    /// The flags, the variables and the file of ``read(flags:environment:file:)``.
    private struct Source {
        let flags: [String: String]
        let environment: [String: String]
        let file: String?
    }

    /// PEM files for TLS on the client port: both or none.
    public var tlsCertificate: String?
    public var tlsKey: String?
    /// PEM files for TLS between nodes: all three or none. A node trusts certificates that the authority signed.
    public var clusterTLSCertificate: String?
    public var clusterTLSKey: String?
    public var clusterTLSAuthority: String?
    /// The web origins whose pages may call this node. ``isDevelopment`` adds those of the same machine.
    public var corsOrigins: [String] = []
    /// Whether webhooks may be delivered to private, link-local and reserved addresses.
    public var allowsPrivateWebhooks = false
    /// Number of event loops, 1 ... ``loopsMax``. Default: one per core.
    public var loopsCount = NodeConfiguration.loops(ofCores: ProcessInfo.processInfo.activeProcessorCount)
    /// The form of the log.
    public struct Log: Sendable {
        /// `trace`, `debug`, `info`, `notice`, `warning` or `error`. Default `info`.
        public var level = "info"
        /// `text` or `json`. Default `text`.
        public var format = "text"
        /// The URL of a collector that takes the spans of sampled traces; nil for none.
        public var otlpEndpoint: String?
    }

    public var log = Log()
    public var core = CoreSettings()
    public var gateway = GatewaySettings()
    /// Most streams on one client connection. Default 1,000.
    public var streamsPerConnectionMax = 1_000
    /// The addresses from which clients reach the node.
    public struct ClientPort: Sendable {
        /// Most connections of one IPv4 address, or of one IPv6 /64, to the client port; 0 for no limit.
        ///
        /// Default: half of the connections that the port accepts, which follow from the process's descriptors (`ulimit -n`). A proxy in
        /// front of the node counts as one address.
        public var connectionsPerAddressMax: Int?
        /// Whether each connection begins with the header of the PROXY protocol, version 2, which names the client's address. Default
        /// false.
        public var isBehindProxy = false
    }

    public var clientPort = ClientPort()
    /// The limits of logins at this node.
    public struct Logins: Sendable {
        /// Most logins of one user within 10 s at this node; 0 for no limit.
        ///
        /// Default 100: a user may have 64 sessions, and all of them may reconnect at once.
        public var perUserMax = 100
        /// Most logins from one address within 10 s; 0 for no limit.
        ///
        /// Default 100,000, the most that one loop can handle, because a proxy, a provider or a load test is one address for many users.
        /// Use 1,000 for a node that clients reach directly: then one address with many tokens cannot use a tenth of a loop.
        public var perAddressMax = 100_000
    }

    public var logins = Logins()
    /// Longest time that a stopping node waits for its clients to move to other nodes and for requests in progress. Default 30 s.
    public var drainTimeout = Duration.seconds(30)

    public init() {}

    /// Most event loops. Each loop is a gateway, and the core supports 64 gateways.
    static let loopsMax = 64

    /// The default of ``loopsCount``.
    static func loops(ofCores coresCount: Int) -> Int { min(coresCount, loopsMax) }

    /// Settings of a node beside others in one process: development keys, free ports on loopback, one loop, data below `directory`.
    ///
    /// The node joins the first of `others`.
    public static func loopback(nodeID: String, directory: String, beside others: [RollcallNode]) -> NodeConfiguration {
        var configuration = NodeConfiguration()
        configuration.nodeID = nodeID
        configuration.isDevelopment = true
        configuration.dataDirectory = "\(directory)/\(nodeID)"
        configuration.listen.port = 0
        configuration.clusterListen.port = 0
        configuration.opsListen.port = 0
        configuration.loopsCount = 1
        configuration.drainTimeout = .seconds(1)
        configuration.join = others.prefix(1).map { HostPort(host: "127.0.0.1", port: $0.ports.cluster) }
        return configuration
    }

    /// Reads the settings.
    ///
    /// - Parameters:
    ///   - flags: values of the command line, by setting name.
    ///   - environment: the variables of the process.
    ///   - file: the YAML file; nil for none.
    public static func read(flags: [String: String], environment: [String: String], file: String?) async throws -> NodeConfiguration {
        var providers: [any ConfigProvider] = [
            InMemoryProvider(
                name: "flags",
                values: Dictionary(uniqueKeysWithValues: flags.map { (AbsoluteConfigKey([$0]), ConfigValue(.string($1), isSecret: false)) })
            ),
            EnvironmentVariablesProvider(environmentVariables: environment).prefixKeys(with: "rollcall"),
        ]
        var apps = KnownSettings.Apps()
        if let file {
            apps = try KnownSettings.check(file: file)
            if apps.hasSettings {
                do { providers.append(try await FileProvider<YAMLSnapshot>(filePath: .init(file))) } catch {
                    throw ConfigurationError(setting: "config", problem: "\(file) cannot be read: \(error)")
                }
            }
        }
        var configuration = NodeConfiguration()
        try configuration.apply(
            SettingsReader(config: ConfigReader(providers: providers)), variables: environment.keys.sorted(), appsWithKeys: apps.withKeys)
        configuration.core.policies = apps.policies
        configuration.keys.source = Source(flags: flags, environment: environment, file: file)
        try configuration.validate()
        return configuration
    }

    /// Reads the keys of the apps again, as the file has them now. Throws for settings with which the node would not start.
    func appKeysNow() async throws(ConfigurationError) -> [String: TokenRules] {
        guard let source = keys.source else { return appKeys }
        let fresh: NodeConfiguration
        do {
            fresh = try await Self.read(flags: source.flags, environment: source.environment, file: source.file)
        } catch let error as ConfigurationError {
            throw error
        } catch { throw ConfigurationError(setting: "config", problem: "cannot be read: \(error)") }
        // Without keys and addresses the settings would be those of a node for development.
        guard isDevelopment || !fresh.appKeys.isEmpty else {
            throw ConfigurationError(setting: "jwt", problem: "has no keys any more; a node without --dev needs at least one")
        }
        return fresh.appKeys
    }

    /// Applies the settings that are given.
    ///
    /// - Parameters:
    ///   - variables: names of the variables of the process.
    ///   - appsWithKeys: apps below `jwt` in the file.
    private mutating func apply(_ reader: SettingsReader, variables: [String], appsWithKeys: [String]) throws {
        let hasAddress = try ["listen", "clusterListen", "opsListen"].contains { try reader.text($0) != nil }
        nodeID = try reader.text("nodeId") ?? nodeID
        cluster = try reader.text("cluster") ?? cluster
        clusterSecret = try reader.secret("clusterSecret")
        listen = try reader.address("listen") ?? listen
        clusterListen = try reader.address("clusterListen") ?? clusterListen
        opsListen = try reader.address("opsListen") ?? opsListen
        advertise = try reader.address("advertise")
        join = try reader.list("join").map { text in
            guard let address = HostPort(text) else {
                throw ConfigurationError(setting: "join", problem: "\"\(text)\" is not HOST:PORT with a port of 1 to 65535")
            }
            return address
        }
        allowsInsecureCluster = try reader.bool("insecureCluster") ?? false
        dataDirectory = try reader.text("dataDir") ?? dataDirectory
        let apps = Set(try reader.list("apps") + appsWithKeys).sorted()
        try KnownSettings.check(variables: variables)
        try KnownSettings.check(variables: variables, apps: apps)
        for app in apps { appKeys[app] = try reader.rules(of: app) }
        isDevelopment = try reader.bool("dev") ?? (appKeys.isEmpty && !hasAddress)
        tlsCertificate = try reader.text("tlsCertificate")
        tlsKey = try reader.text("tlsKey")
        clusterTLSCertificate = try reader.text("clusterTlsCertificate")
        clusterTLSKey = try reader.text("clusterTlsKey")
        clusterTLSAuthority = try reader.text("clusterTlsCa")
        corsOrigins = try reader.list("corsOrigins")
        allowsPrivateWebhooks = try reader.bool("webhookPrivateAddresses") ?? false
        loopsCount = try reader.integer("loops") ?? loopsCount
        log.level = try reader.text("logLevel") ?? log.level
        log.format = try reader.text("logFormat") ?? log.format
        log.otlpEndpoint = try reader.text("otlpEndpoint")
        gateway.heartbeatInterval = try reader.seconds("heartbeatInterval") ?? gateway.heartbeatInterval
        core.policy.livenessTimeout = try reader.seconds("heartbeatTimeout") ?? core.policy.livenessTimeout
        core.policy.offlineGrace = try reader.seconds("offlineGrace") ?? core.policy.offlineGrace
        core.reconnectGrace = try reader.seconds("reconnectGrace") ?? core.reconnectGrace
        streamsPerConnectionMax = try reader.integer("streamsPerConnection") ?? streamsPerConnectionMax
        clientPort.connectionsPerAddressMax = try reader.integer("connectionsPerAddress")
        clientPort.isBehindProxy = try reader.bool("proxyProtocol") ?? false
        logins.perUserMax = try reader.integer("loginsPerUser") ?? logins.perUserMax
        logins.perAddressMax = try reader.integer("loginsPerAddress") ?? logins.perAddressMax
        drainTimeout = try reader.seconds("drainTimeout") ?? drainTimeout
    }

    /// The origins of ``corsOrigins`` in the form that the HTTP server uses.
    var allowedOrigins: AllowedOrigins {
        var allowed = AllowedOrigins()
        allowed.isAny = corsOrigins == ["*"]
        allowed.origins = allowed.isAny ? [] : corsOrigins
        allowed.allowsLoopback = isDevelopment
        return allowed
    }

    /// The addresses to which webhooks may be delivered.
    var webhookRules: WebhookRules { WebhookRules(allowsLoopback: isDevelopment, allowsPrivate: allowsPrivateWebhooks) }

    /// Throws for the URL of a webhook that the node would not connect to.
    private func validateWebhooks() throws(ConfigurationError) {
        for (app, policy) in core.policies.sorted(by: { $0.key < $1.key }) where policy.policy.hasWebhook {
            guard let problem = webhookRules.problem(of: policy.policy.webhook.url) else { continue }
            throw ConfigurationError(setting: "policies.\(app).webhook.url", problem: problem)
        }
    }

    /// Throws for the URL of a key set that the node would not fetch. Its operator chose it, so it may be in the node's own network.
    private func validateKeySets() throws(ConfigurationError) {
        let rules = WebhookRules(allowsLoopback: isDevelopment, allowsPrivate: true)
        for (app, keys) in appKeys.sorted(by: { $0.key < $1.key }) {
            guard let url = keys.keySetURL else { continue }
            let hasName = URLComponents(string: url).map { $0.user != nil || $0.password != nil } ?? false
            guard let problem = hasName ? "must have no user name and no password" : rules.problem(of: url) else { continue }
            throw ConfigurationError(setting: "jwt.\(app).jwksUrl", problem: problem)
        }
    }

    /// Throws for an origin that no browser sends: a browser sends scheme, host and port, without a path.
    private func validateOrigins() throws(ConfigurationError) {
        guard corsOrigins != ["*"] else { return }
        guard corsOrigins.count <= AllowedOrigins.countMax else {
            throw ConfigurationError(
                setting: "corsOrigins", problem: "has \(corsOrigins.count) origins; at most \(AllowedOrigins.countMax) are allowed")
        }
        for origin in corsOrigins where !AllowedOrigins.isOrigin(origin) {
            throw ConfigurationError(
                setting: "corsOrigins",
                problem: "\"\(origin)\" is not an origin; write https://HOST or https://HOST:PORT in lower case, or only \"*\"")
        }
    }

    /// Whether other machines reach the cluster port and need no proof: any of them may join, read and change everything.
    public var isClusterOpen: Bool { !clusterListen.isLoopback && clusterSecret == nil && clusterTLSCertificate == nil }

    /// Throws for settings that are invalid or contradict one another.
    public func validate() throws(ConfigurationError) {
        guard Limits.isValidName(nodeID) else {
            throw ConfigurationError(setting: "node-id", problem: "\"\(nodeID)\" is not 1 to 64 bytes without control characters")
        }
        guard Limits.isValidName(cluster) else {
            throw ConfigurationError(setting: "cluster", problem: "\"\(cluster)\" is not 1 to 64 bytes without control characters")
        }
        if let clusterSecret, clusterSecret.utf8.count < 16 {
            throw ConfigurationError(setting: "clusterSecret", problem: "has \(clusterSecret.utf8.count) bytes; at least 16 are required")
        }
        for app in appKeys.keys.sorted() where !Limits.isValidName(app) {
            throw ConfigurationError(
                setting: "jwt.\(app)", problem: "is not an app ID; an app ID is 1 to 64 bytes without control characters")
        }
        // Port 0 stands for a port that the kernel chooses. It is valid only for listening.
        for (name, address) in join.map({ ("join", $0) }) + [("advertise", advertise)] {
            guard let address, address.port == 0 else { continue }
            throw ConfigurationError(
                setting: name, problem: "\(address) has port 0, to which no node can connect; give a port of 1 to 65535")
        }
        guard isDevelopment || !appKeys.isEmpty else {
            throw ConfigurationError(
                setting: "apps",
                problem: "is empty; configure an app and its key (ROLLCALL_APPS and ROLLCALL_JWT_<APP>_HS256), or use --dev on loopback")
        }
        for (name, address) in [("listen", listen), ("cluster-listen", clusterListen), ("ops-listen", opsListen)]
        where isDevelopment && !address.isLoopback {
            throw ConfigurationError(
                setting: name,
                problem:
                    "\(address) is reachable from other machines, but the development key is public; configure keys (apps) or listen on 127.0.0.1"
            )
        }
        guard !isClusterOpen || allowsInsecureCluster else {
            throw ConfigurationError(
                setting: "cluster-listen",
                problem: """
                    \(clusterListen) is reachable from other machines, and neither a secret nor TLS protects the cluster; set clusterSecret or \
                    cluster-tls-certificate, or insecure-cluster if only the nodes can reach this network
                    """)
        }
        try validateOrigins()
        try validateWebhooks()
        try validateKeySets()
        guard (1...Self.loopsMax).contains(loopsCount) else {
            throw ConfigurationError(setting: "loops", problem: "\(loopsCount) is not in 1...\(Self.loopsMax)")
        }
        guard (tlsCertificate == nil) == (tlsKey == nil) else {
            throw ConfigurationError(
                setting: "tls-certificate", problem: "needs tls-key, and tls-key needs tls-certificate; one of them is missing")
        }
        let clusterFiles = [clusterTLSCertificate, clusterTLSKey, clusterTLSAuthority].compactMap { $0 }
        guard [0, 3].contains(clusterFiles.count) else {
            throw ConfigurationError(
                setting: "cluster-tls-certificate",
                problem: "needs cluster-tls-key and cluster-tls-ca as well; \(3 - clusterFiles.count) of the three are missing")
        }
        guard core.policy.livenessTimeout > gateway.heartbeatInterval else {
            throw ConfigurationError(
                setting: "heartbeatTimeout",
                problem: "\(core.policy.livenessTimeout) is not longer than heartbeatInterval (\(gateway.heartbeatInterval))")
        }
        guard ["text", "json"].contains(log.format) else {
            throw ConfigurationError(setting: "log-format", problem: "\"\(log.format)\" is not text or json")
        }
        try checkCollector()
    }

    private func checkCollector() throws(ConfigurationError) {
        guard let endpoint = log.otlpEndpoint, !Self.isCollector(endpoint) else { return }
        throw ConfigurationError(
            setting: "otlpEndpoint",
            problem: "is not the URL of a collector, such as http://127.0.0.1:4318, without user, query and fragment")
    }

    /// Whether a text is a URL of HTTP or HTTPS with a host, below which a path may be added.
    private static func isCollector(_ text: String) -> Bool {
        guard let url = URL(string: text), let scheme = url.scheme, let host = url.host else { return false }
        return ["http", "https"].contains(scheme) && !host.isEmpty && url.user == nil && url.query == nil && url.fragment == nil
    }
}

/// Reads one setting at a time, and names the setting in its errors.
private struct SettingsReader {
    let config: ConfigReader

    func text(_ name: String) throws -> String? { config.string(forKey: ConfigKey([name])) }

    func secret(_ name: String) throws -> String? { config.string(forKey: ConfigKey([name]), isSecret: true) }

    func address(_ name: String) throws -> HostPort? {
        guard let text = try text(name) else { return nil }
        guard let address = HostPort(text) else {
            throw ConfigurationError(setting: name, problem: "\"\(text)\" is not HOST:PORT with a port of 0 to 65535")
        }
        return address
    }

    func list(_ name: String) throws -> [String] {
        if let list = config.stringArray(forKey: ConfigKey([name])) { return list.flatMap { $0.split(separator: ",").map(String.init) } }
        return try text(name)?.split(separator: ",").map(String.init) ?? []
    }

    func bool(_ name: String) throws -> Bool? {
        if let value = config.bool(forKey: ConfigKey([name])) { return value }
        guard let text = try text(name) else { return nil }
        guard let value = Bool(text) else { throw ConfigurationError(setting: name, problem: "\"\(text)\" is not true or false") }
        return value
    }

    func integer(_ name: String) throws -> Int? {
        let range = KnownSettings.range(of: name)
        guard let value = try config.int(forKey: ConfigKey([name])) ?? number(name) else { return nil }
        guard range.contains(value) else {
            throw ConfigurationError(setting: name, problem: "\(value) is not in \(range.lowerBound)...\(range.upperBound)")
        }
        return value
    }

    private func number(_ name: String) throws -> Int? {
        guard let text = try text(name) else { return nil }
        guard let value = Int(text) else { throw ConfigurationError(setting: name, problem: "\"\(text)\" is not an integer") }
        return value
    }

    func seconds(_ name: String) throws -> Duration? {
        try integer(name).map { .seconds($0) }
    }

    /// Returns the keys of `jwt.<app>`, and what tokens of the app must say.
    func rules(of app: String) throws -> TokenRules {
        var rules = TokenRules()
        for secret in texts(app, "hs256") { rules.keys.append(.hs256(secret: secret)) }
        for path in texts(app, "es256PublicKeyFile") { rules.keys.append(.es256(publicPEM: try file(path))) }
        for path in texts(app, "rs256PublicKeyFile") { rules.keys.append(.rs256(publicPEM: try file(path))) }
        for path in texts(app, "jwksFile") {
            let set: KeySet
            do { set = try KeySet(Array(try file(path).utf8), source: "jwksFile", allowsSecrets: true) } catch let error as KeySet.Failure {
                throw ConfigurationError(setting: "jwt.\(app).jwksFile", problem: "\(path) \(error)")
            }
            guard !set.keys.isEmpty else {
                throw ConfigurationError(setting: "jwt.\(app).jwksFile", problem: "\(path) has no HS256, ES256 or RS256 key")
            }
            rules.keys += set.keys
        }
        rules.keySetURL = texts(app, "jwksUrl").first
        rules.audiences = texts(app, "audience")
        rules.issuers = texts(app, "issuer")
        guard !rules.keys.isEmpty || rules.keySetURL != nil else {
            throw ConfigurationError(
                setting: "jwt.\(app)", problem: "app \"\(app)\" has no key; set one of \(KnownSettings.keyNames.joined(separator: ", "))")
        }
        guard rules.keys.count <= KeySet.keysMax else {
            throw ConfigurationError(setting: "jwt.\(app)", problem: "has \(rules.keys.count) keys; at most \(KeySet.keysMax) are allowed")
        }
        return rules
    }

    /// The value of a setting of `jwt.<app>`, or the values of a list.
    private func texts(_ app: String, _ name: String) -> [String] {
        let key = ConfigKey(["jwt", app, name])
        if let text = config.string(forKey: key, isSecret: true) { return [text] }
        return config.stringArray(forKey: key, isSecret: true) ?? []
    }

    private func file(_ path: String) throws -> String {
        do { return try String(contentsOfFile: path, encoding: .utf8) } catch {
            throw ConfigurationError(setting: "jwt", problem: "\(path): \(FileErrorText.problem(error, "cannot be read"))")
        }
    }
}
