import Logging

/// A setting of a node: its name, the values that it takes, and its effect.
///
/// ``KnownSettings/groups`` lists all of them. The reader takes the ranges from that list. The page `Configuration` of the documentation
/// is generated from it.
struct NodeSetting: Sendable {
    /// The values that a setting takes.
    enum Value: Sendable, Equatable {
        case text(String)
        case address
        case addresses
        case names
        case origins
        case file
        case bool
        case word([String])
        case integer(ClosedRange<Int>)
        /// Whole seconds.
        case seconds(ClosedRange<Int>)
        /// A mapping by app; it can stand in a file only.
        case byApp(String)
    }

    /// The key in a YAML file.
    let name: String
    let value: Value
    /// Whether `rollcall serve` has a flag of this name.
    let hasFlag: Bool
    /// The value that a node uses when nobody sets one, as a reader sees it.
    let defaultText: String
    /// The effect of the setting, in full sentences.
    let effect: String

    init(_ name: String, _ value: Value, flag hasFlag: Bool = false, default defaultText: String, _ effect: String) {
        self.name = name
        self.value = value
        self.hasFlag = hasFlag
        self.defaultText = defaultText
        self.effect = effect
    }

    init(_ name: String, _ value: Value, flag hasFlag: Bool = false, default seconds: Duration, _ effect: String) {
        self.init(name, value, flag: hasFlag, default: "\(seconds.components.seconds)", effect)
    }

    /// The range of a setting that is a number.
    var range: ClosedRange<Int>? {
        switch value {
        case .integer(let range), .seconds(let range): range
        default: nil
        }
    }
}

extension KnownSettings {
    /// Settings that belong together, under one heading.
    struct Group: Sendable {
        let title: String
        let settings: [NodeSetting]
    }

    private static let standard = NodeConfiguration()

    /// All settings of a node.
    static let groups = [
        Group(title: "Names and addresses", settings: addresses), Group(title: "Apps, tokens and policies", settings: apps),
        Group(title: "TLS and the cluster secret", settings: secrets), Group(title: "Sessions and owners", settings: times),
        Group(title: "Limits", settings: limits), Group(title: "Process", settings: process),
    ]

    private static let addresses = [
        NodeSetting(
            "nodeId", .text("1 to 64 bytes without control characters"), flag: true, default: "the host name",
            "The node's name in its cluster. The data directory belongs to this name: keep it after the first start."),
        NodeSetting(
            "cluster", .text("1 to 64 bytes without control characters"), flag: true, default: "`\(standard.cluster)`",
            "The cluster's name. Nodes refuse nodes of another cluster."),
        NodeSetting("listen", .address, flag: true, default: "`\(standard.listen)`", "The address that clients connect to."),
        NodeSetting(
            "clusterListen", .address, flag: true, default: "`\(standard.clusterListen)`",
            """
            The address that other nodes connect to. On an address that other machines reach, the node starts only with a cluster secret, \
            with TLS between nodes, or with `insecureCluster`.
            """),
        NodeSetting(
            "corsOrigins", .origins, default: "none; with `dev` those of localhost",
            """
            Web origins whose pages may call this node from a browser: `https://app.example.com`, or `*` for every origin. With `dev` pages of \
            localhost, 127.0.0.1 and [::1] may call it as well.
            """),
        NodeSetting(
            "advertise", .address, flag: true, default: "`clusterListen`",
            "The address by which other nodes reach `clusterListen`. Set it when the node listens on `0.0.0.0` or behind NAT."),
        NodeSetting(
            "opsListen", .address, flag: true, default: "`\(standard.opsListen)`",
            "The address for operators, Prometheus and orchestrators. `/metrics`, `/healthz` and `/readyz` need no token: keep it private."),
        NodeSetting(
            "join", .addresses, flag: true, default: "none",
            """
            Cluster addresses of nodes to join through. A host name may stand for several addresses, and the list may contain the node \
            itself. Without it the node forms a cluster alone, or rejoins the members that its data directory lists.
            """),
        NodeSetting(
            "dataDir", .file, flag: true, default: "`\(standard.dataDirectory)`",
            "The directory of the database. The node creates it with mode 700, and one process locks it."),
    ]

    private static let apps = [
        NodeSetting(
            "apps", .names, default: "the apps below `jwt`",
            "Apps whose tokens the node accepts. An app whose key is in an environment variable must be in this list."),
        NodeSetting(
            "jwt", .byApp(tokenNames.map { "`\($0)`" }.joined(separator: ", ")), default: "none",
            """
            The keys that sign tokens, by app, and what the tokens must say. `hs256` is a secret of at least 32 bytes, the two `…PublicKeyFile` \
            name PEM files, and `jwksFile` and `jwksUrl` have a JSON Web Key Set. `audience` and `issuer` are the accepted values of `aud` \
            and `iss`. In a file all but the two of key sets may be lists, for an old and a new key side by side. A variable has \
            one value, for example `ROLLCALL_JWT_CHAT_HS256`; its app must be in `apps`. SIGHUP and `reloadKeys` read the keys again.
            """),
        NodeSetting(
            "policies", .byApp(policyNames.map { "`\($0)`" }.joined(separator: ", ")), default: "preset `rollcall`",
            "The policy of each app, until `setAppPolicy` sets one. Every node of the cluster needs the same text here."),
        NodeSetting(
            "webhookPrivateAddresses", .bool, default: "`false`",
            """
            Delivers webhooks also to private, link-local and reserved addresses. Set it where the back end is in the nodes' own network, and \
            administrators of apps may reach that network.
            """),
        NodeSetting(
            "dev", .bool, flag: true, default: "`true` if neither keys nor addresses are configured, else `false`",
            "Accepts tokens that the built-in development key signs. The node then listens on loopback only."),
    ]

    private static let secrets = [
        NodeSetting(
            "clusterSecret", .text("at least 16 bytes"), default: "none",
            "The secret that the nodes of a cluster share. A node proves that it knows the secret before the cluster port tells it anything."
        ),
        NodeSetting(
            "clusterTlsCertificate", .file, flag: true, default: "none",
            "PEM file with the node's certificate for links between nodes. It needs `clusterTlsKey` and `clusterTlsCa`."),
        NodeSetting("clusterTlsKey", .file, flag: true, default: "none", "PEM file with the key of `clusterTlsCertificate`."),
        NodeSetting(
            "clusterTlsCa", .file, flag: true, default: "none",
            "PEM file with the authority that signs the nodes' certificates. The node reads it at the start only."),
        NodeSetting(
            "insecureCluster", .bool, flag: true, default: "`false`",
            "Opens the cluster port to other machines without a secret and without TLS. Everybody who reaches the port can join."),
        NodeSetting(
            "tlsCertificate", .file, flag: true, default: "none",
            "PEM file with the certificate chain for clients. It needs `tlsKey`. SIGHUP reads both again."),
        NodeSetting("tlsKey", .file, flag: true, default: "none", "PEM file with the key of `tlsCertificate`."),
    ]

    private static let times = [
        NodeSetting(
            "heartbeatInterval", .seconds(1...86_400), default: standard.gateway.heartbeatInterval,
            "The time between two PINGs (HTTP/2) or comments (HTTP/1.1) that the node sends on an idle connection."),
        NodeSetting(
            "heartbeatTimeout", .seconds(2...86_400), default: standard.core.policy.livenessTimeout,
            """
            A session whose client is silent for this long is lost. It must be longer than `heartbeatInterval`. It is the default of the \
            policy setting `liveness.timeout`, except in preset `tencent`.
            """),
        NodeSetting(
            "offlineGrace", .seconds(0...3_600), default: standard.core.policy.offlineGrace,
            """
            A user whose last session is lost has this long to return before viewers see OFFLINE. It is the default of the policy setting \
            `offlineGrace`, except in preset `tencent`.
            """),
        NodeSetting(
            "reconnectGrace", .seconds(0...3_600), default: standard.core.reconnectGrace,
            "Sessions of a gateway that died, and sessions that a new owner reads from disk, have this long to register again."),
        NodeSetting(
            "drainTimeout", .seconds(0...3_600), default: standard.drainTimeout,
            "The time that a stopping node gives its clients to move to other nodes. It asks them over the first half of this time."),
    ]

    private static let limits = [
        NodeSetting(
            "connectionsPerAddress", .integer(0...1_000_000), default: "half of the descriptors that `ulimit -n` leaves for clients",
            """
            Connections of one address to the clients' port at a time; 0 for no limit. A /64 of IPv6 counts as one address, and so does a \
            proxy. The node resets further connections.
            """),
        NodeSetting(
            "proxyProtocol", .bool, default: "`false`",
            """
            Whether each connection to the clients' port begins with the header of the PROXY protocol, version 2. The limits by address then \
            count the clients and not the proxy. The node closes a connection without the header, so that nobody names a false address: \
            only proxies may reach the port.
            """),
        NodeSetting(
            "loginsPerAddress", .integer(0...1_000_000), default: "\(standard.logins.perAddressMax)",
            """
            Logins from one address within 10 s at this node; 0 for no limit. The node refuses further ones with 7008. The default is as \
            much as one event loop carries; use 1,000 where clients reach the nodes directly.
            """),
        NodeSetting(
            "loginsPerUser", .integer(0...1_000_000), default: "\(standard.logins.perUserMax)",
            "Logins of one user within 10 s at this node; 0 for no limit. The node refuses further ones with 7008."),
        NodeSetting(
            "streamsPerConnection", .integer(1...1_000_000), default: "\(standard.streamsPerConnectionMax)",
            "Streams that one client connection may have open."),
    ]

    private static let process = [
        NodeSetting(
            "loops", .integer(1...NodeConfiguration.loopsMax), flag: true, default: "one per core, at most \(NodeConfiguration.loopsMax)",
            "Event loops. Each is a gateway on one thread. Set it where the process may use fewer cores than the machine has."),
        NodeSetting(
            "logLevel", .word(Logger.Level.allCases.map(\.rawValue)), flag: true, default: "`\(standard.log.level)`",
            "The least severe level that the node logs."),
        NodeSetting(
            "logFormat", .word(["text", "json"]), flag: true, default: "`\(standard.log.format)`",
            "The form of the log on standard error: `json` is one JSON object a line, see <doc:Operations#The-log>."),
        NodeSetting(
            "otlpEndpoint", .text("a URL of HTTP or HTTPS"), default: "none",
            """
            The collector that gets the spans of sampled traces by OTLP over HTTP, in JSON, at `/v1/traces` below this URL: for example \
            `http://127.0.0.1:4318`. See <doc:Operations#Traces>.
            """),
    ]
}
