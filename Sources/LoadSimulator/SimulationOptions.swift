/// What the simulated population does.
public enum Scenario: String, CaseIterable, Sendable {
    /// Each user watches a few others, and statuses change at random.
    case steady
    /// One user whom all watch, and who changes its status.
    case celebrity
    /// Each user watches `watch` others; statuses change at random.
    case mesh
    /// All log in within two seconds; then statuses change at random.
    case loginStorm = "login-storm"
    /// Sessions are lost and come back within the grace, users log out and in again, and statuses change.
    case flapping
}

/// What to simulate, and where.
public struct SimulationOptions: Sendable {
    /// Host and port of a node's client port.
    public struct Target: Hashable, Sendable, CustomStringConvertible {
        public let host: String
        public let port: Int

        public init(host: String, port: Int) {
            self.host = host
            self.port = port
        }

        public var description: String { "\(host):\(port)" }
    }

    /// None of the targets has ever answered.
    public struct Unreachable: Error, CustomStringConvertible {
        let targets: [Target]
        let seconds: Int

        /// Which, and for how long.
        public var description: String {
            "no target could be reached within \(seconds) s: \(targets.map { "\($0.host):\($0.port)" }.joined(separator: ", "))"
        }
    }

    /// A setting that cannot be used.
    public struct Invalid: Error, CustomStringConvertible {
        public let description: String
    }

    /// Nodes that clients connect to; users are spread over them.
    public var targets: [Target]
    /// Ops ports whose counters are compared with the ledger; may be empty.
    public var opsTargets: [Target] = []
    public var scenario = Scenario.mesh
    /// Users, 2 to 1,000,000.
    public var users = 1_000
    /// How many others each user watches in `steady`, `mesh`, `login-storm` and `flapping`.
    public var watch = 20
    /// Changes a second, open loop: a late server does not slow it down.
    public var rate = 500.0
    /// How long changes are made, in seconds, after everybody has logged in.
    public var duration = 10.0
    /// Client connections; 0 for one for each 50 users, at most 2,000.
    public var connections = 0
    /// Event streams on one connection at most.
    public var streamsPerConnection = 500
    /// Logins a second while the population logs in (`login-storm`: everybody in two seconds).
    public var loginRate = 2_000.0
    /// Starts all random choices.
    public var seed: UInt64 = 1
    /// Whether to keep the ledger and fail on any difference.
    public var verify = false
    /// How long to wait for quiet after the load, in seconds.
    public var settle = 10.0
    /// Sessions lost for less than this many seconds must not be seen OFFLINE.
    public var graceSeconds = 1.5
    /// Local addresses 127.0.0.2 to 127.0.0.x that connections start from; 1 for no choice.
    public var sourceAddresses = 1

    public init(targets: [Target]) { self.targets = targets }

    /// Throws for the first setting that cannot be used, by its flag.
    public func validate() throws(Invalid) {
        guard !targets.isEmpty else { throw Invalid(description: "--target: name at least one node") }
        guard (2...1_000_000).contains(users) else { throw Invalid(description: "--users: \(users) is not in 2...1000000") }
        guard (0..<users).contains(watch) else { throw Invalid(description: "--watch: \(watch) is not in 0..<\(users)") }
        guard rate > 0, rate <= 1_000_000 else { throw Invalid(description: "--rate: \(rate) is not in 0...1000000 a second") }
        guard duration > 0, duration <= 86_400 else { throw Invalid(description: "--duration: \(duration) is not in 0...86400 seconds") }
        guard (1...1_000).contains(streamsPerConnection) else {
            throw Invalid(description: "--streams-per-connection: \(streamsPerConnection) is not in 1...1000")
        }
        guard connectionsCount * streamsPerConnection >= users else {
            throw Invalid(
                description: "--connections: \(connectionsCount) × \(streamsPerConnection) streams are not enough for \(users) users")
        }
        guard connectionsCount < 19_000 else { throw Invalid(description: "--connections: a process may open 20000 files") }
    }

    /// The connections to open.
    var connectionsCount: Int {
        let fewest = (users + streamsPerConnection - 1) / streamsPerConnection
        return connections > 0 ? connections : max(fewest, min(max(users / 50, targets.count), 2_000))
    }
}
