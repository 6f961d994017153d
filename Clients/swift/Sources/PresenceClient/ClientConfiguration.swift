/// The settings of a client: the nodes, the user's token, and the timeouts.
public struct ClientConfiguration: Sendable {
    /// Returns the app's token for the user.
    ///
    /// The client calls it before the first request, before the token of the session ends, and when a node rejects the token.
    public typealias TokenProvider = @Sendable () async throws -> String

    /// The base URLs of nodes of one cluster, or of a proxy in front of them: `https://presence.example.com`. HTTP/2 with TLS, HTTP/1.1
    /// without. Without credentials, a query or a fragment: the ``token`` names the user.
    public var addresses: [String]
    /// The source of tokens.
    public var token: TokenProvider
    /// The platform that other users see in ``UserStatus/onlinePlatforms``: 1 to 32 letters, digits, `-`, `_` or `.`.
    public var platform = "swift"
    /// The device's ID, which operators see in explanations; at most 128 bytes.
    ///
    /// A login of the same user, platform and device replaces the session before it. Two clients on one device need IDs of their own.
    public var deviceID = ""
    /// Whether vendor push reaches the device. If the app's policy says so (`state.pushReachableStaysOnline`), its user stays ONLINE
    /// without a session.
    ///
    /// Set the ``deviceID``, too. Then a login of another device of the platform does not replace this one.
    public var isPushReachable = false
    /// Whether the client hears without being seen: its stream is no session of the user, and changes no status. Default false.
    ///
    /// It receives what the user's sessions receive. For bots, notification services and wall displays.
    public var hearsUnseen = false
    /// The custom status that the first login sets; nil leaves it unchanged.
    public var customStatus: String?
    /// The most users of one call. Default: ``CallLimits/rollcall``.
    public var limits = CallLimits.rollcall
    /// The timeout of one attempt of a call. Default 10 s.
    ///
    /// A call makes at most four attempts, at one address after the other, with or without a session. If no node is reachable it fails
    /// after at most 45 s, and at once if connections are refused.
    public var callTimeout = Duration.seconds(10)
    /// The timeout of opening a stream, until the node's first event. Default 10 s.
    public var connectTimeout = Duration.seconds(10)
    /// The waits between attempts to open a session. Default: a ceiling of 0.5 s, doubled up to 30 s.
    public var backoff = Backoff()
    /// The number of attempts after which `login` fails. Default 5. The client tries to reopen a lost session until `logout` or `close`.
    public var loginAttemptsMax = 5
    /// The most users whose status the client keeps, and that wait for a slow reader. Default 10,000.
    public var usersMax = 10_000
    /// Whether the client keeps the own friends, requests, blocklist and groups as ``Friendship/relationships``: it fetches them after
    /// the login, and what it has missed after each interruption. Default false.
    public var keepsRelationships = false
    /// The time for which a fetched profile is used again (P4). Default: a day.
    public var profileExpiry = Duration.seconds(86_400)
    /// The clock that measures the waits.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// The source of the jitter and of the first address.
    public var random: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    /// Certificates to trust instead of the system's, in PEM, for a cluster with its own authority.
    ///
    /// On Linux this needs the package trait `AsyncHTTPClient`. Foundation trusts the system's certificates only, so the client throws.
    public var trustedCertificatesPEM: String?
    /// The transport, where there are two. For tests.
    var preferredTransport = PreferredTransport.asyncHTTPClient

    enum PreferredTransport { case asyncHTTPClient, urlSession }

    /// - Parameters: see the properties.
    public init(addresses: [String], token: @escaping TokenProvider) {
        precondition(!addresses.isEmpty, "a client needs an address")
        self.addresses = addresses.map { $0.hasSuffix("/") && !$0.hasSuffix("//") ? String($0.dropLast()) : $0 }
        self.token = token
    }

    /// Throws if an address is not a URL with a scheme, or the certificates are invalid.
    func makeTransport() throws -> any Transport {
        #if AsyncHTTPClient && !canImport(Darwin)
            if preferredTransport == .asyncHTTPClient { return try HTTPTransport(self) }
        #endif
        return try URLSessionTransport(self)
    }

    /// Throws if an address is not a URL with `http://` or `https://`, or has credentials, a query or a fragment.
    func checkAddresses() throws(PresenceError) {
        for address in addresses {
            let scheme = ["http://", "https://"].first { address.lowercased().hasPrefix($0) }
            guard let scheme, let first = address.dropFirst(scheme.count).first, first != "/" else {
                throw PresenceError(
                    code: .badParameter, title: "bad parameter",
                    detail: "addresses: \"\(address)\" is not a URL with http:// or https://; \"https://presence.example.com\" is right")
            }
            let rest = address.dropFirst(scheme.count)
            let hasCredentials = rest.prefix { !"/?#".contains($0) }.contains("@")
            guard !hasCredentials, !rest.contains(where: { $0 == "?" || $0 == "#" }) else {
                throw PresenceError(
                    code: .badParameter, title: "bad parameter",
                    detail: "addresses: \"\(address)\" is not a URL like http://HOST or https://HOST/PATH, "
                        + "without credentials, a query and a fragment")
            }
        }
    }
}
