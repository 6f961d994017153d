/// Whom a client asks, as whom, and how patiently.
public struct ClientConfiguration: Sendable {
    /// Gives the app's token for the user. Called before the first request, and again when a node does not take the token any more.
    public typealias TokenProvider = @Sendable () async throws -> String

    /// Base URLs of nodes of one cluster, or of what stands before them: `https://presence.example.com`. HTTP/2 under TLS, HTTP/1.1 in clear.
    public var addresses: [String]
    /// Where tokens come from.
    public var token: TokenProvider
    /// What other users see among ``UserStatus/onlinePlatforms``: 1 to 32 letters, digits, `-`, `_` or `.`.
    public var platform = "swift"
    /// The device, for those who explain; at most 128 bytes.
    public var deviceID = ""
    /// Vendor push reaches the device: where the app's policy wants it (`state.pushReachableStaysOnline`), its user stays ONLINE without a
    /// session. Name the ``deviceID``, too: a login of another device of the platform does not replace this one then.
    public var isPushReachable = false
    /// Set at the first login; nil leaves it as it is.
    public var customStatus: String?
    /// Most users of one call. Default: ``CallLimits/rollcall``.
    public var limits = CallLimits.rollcall
    /// How long one attempt of a call may take. Default 10 s. A call makes four at most, at one address after the other, whether there is a
    /// session or not; so an app that reaches nobody is told so after 45 s at most, at once where connections are refused.
    public var callTimeout = Duration.seconds(10)
    /// How long opening a stream may take until the node's first word. Default 10 s.
    public var connectTimeout = Duration.seconds(10)
    /// The waits between attempts to open a session. Default: 0.5 s ceiling, doubled to 30 s.
    public var backoff = Backoff()
    /// After how many attempts `login` fails. A session that was lost is sought until `logout` or `close`. Default 5.
    public var loginAttemptsMax = 5
    /// Most users whose status is kept, and that wait for a slow reader. Default 10,000.
    public var usersMax = 10_000
    /// Measures the waits.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// Draws the jitter, and the address to begin with.
    public var random: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    /// Certificates to trust instead of the system's, in PEM; for a cluster with an authority of its own.
    public var trustedCertificatesPEM: String?

    /// - Parameters: see the properties.
    public init(addresses: [String], token: @escaping TokenProvider) {
        precondition(!addresses.isEmpty, "a client needs an address")
        self.addresses = addresses.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        self.token = token
    }
}
