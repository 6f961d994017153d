/// The behavior of the simulated population.
public enum Scenario: String, CaseIterable, Sendable {
    /// Each user watches a few others, and statuses change at random.
    case steady
    /// All watch one user, which changes its status.
    case celebrity
    /// Each user watches `watch` others; statuses change at random.
    case mesh
    /// All log in within two seconds; then statuses change at random.
    case loginStorm = "login-storm"
    /// Sessions disconnect and return within the grace, users log out and in again, and statuses change.
    case flapping
    /// Users add, accept, reject, delete, block and unblock one another and change their profiles, beside changes as in `mesh`.
    ///
    /// Of the changes at `rate` 60 % are statuses, 30 % relationships and 10 % profiles. Each user has up to six others with whom its
    /// relationship changes; it does not watch them. Every tenth user has none. After the load each user's lists are compared with the
    /// ledger.
    case social
}

/// The settings of a simulation.
public struct SimulationOptions: Sendable {
    /// The host and port of a node.
    public struct Target: Hashable, Sendable, CustomStringConvertible {
        public let host: String
        public let port: Int

        public init(host: String, port: Int) {
            self.host = host
            self.port = port
        }

        public var description: String { "\(host):\(port)" }
    }

    /// The error when no target has ever answered.
    public struct Unreachable: Error, CustomStringConvertible {
        let targets: [Target]
        let seconds: Int

        public var description: String {
            "no target could be reached within \(seconds) s: \(targets.map { "\($0.host):\($0.port)" }.joined(separator: ", "))"
        }
    }

    /// The error for a setting that cannot be used.
    public struct Invalid: Error, CustomStringConvertible {
        public let description: String
    }

    /// The nodes to connect to. Users are spread over them.
    public var targets: [Target]
    /// The ops ports of the nodes whose counters are compared with the ledger. May be empty.
    public var opsTargets: [Target] = []
    public var scenario = Scenario.mesh
    /// The number of users, 2 to 1,000,000.
    public var users = 1_000
    /// The number of other users that each user watches in `steady`, `mesh`, `login-storm`, `flapping` and `social`.
    public var watch = 20
    /// Changes a second, in an open loop: a late server does not slow them down.
    public var rate = 500.0
    /// The seconds of load, after every user has logged in.
    public var duration = 10.0
    /// The number of client connections; 0 for one for each 50 users, at most 2,000.
    public var connections = 0
    /// The most event streams on one connection.
    public var streamsPerConnection = 500
    /// Logins a second while the population logs in. In `login-storm` all log in within two seconds.
    public var loginRate = 2_000.0
    /// The seed of all random choices.
    public var seed: UInt64 = 1
    /// Whether a difference that coalescing does not explain fails the run.
    public var verify = false
    /// The seconds within which every view must become right after the load.
    public var settle = 10.0
    /// The seconds for which a session may be disconnected before its user may be seen OFFLINE.
    public var graceSeconds = 1.5
    /// Connections start from the local addresses 127.0.0.2 to 127.0.0.x; 1 leaves the address to the kernel.
    public var sourceAddresses = 1

    public init(targets: [Target]) { self.targets = targets }

    /// Throws an error for the first setting that cannot be used, with its flag.
    public func validate() throws(Invalid) {
        guard !targets.isEmpty else { throw Invalid(description: "--target: is empty; name at least one node as http://HOST:PORT") }
        guard (2...1_000_000).contains(users) else { throw Invalid(description: "--users: \(users) is not in 2...1000000") }
        guard scenario != .social || users >= 4 else { throw Invalid(description: "--users: \(users) is less than 4, as social needs") }
        guard (0...watchMax).contains(watch) else { throw Invalid(description: "--watch: \(watch) is not in 0..<\(watchMax + 1)") }
        guard rate > 0, rate <= 1_000_000 else {
            throw Invalid(description: "--rate: \(rate) is not more than 0 and at most 1000000 per second")
        }
        guard duration > 0, duration <= 86_400 else {
            throw Invalid(description: "--duration: \(duration) is not more than 0 and at most 86400 seconds")
        }
        guard (1...1_000).contains(streamsPerConnection) else {
            throw Invalid(description: "--streams-per-connection: \(streamsPerConnection) is not in 1...1000")
        }
        guard connectionsCount * streamsPerConnection >= users else {
            throw Invalid(
                description: "--connections: \(connectionsCount) × \(streamsPerConnection) streams are not enough for \(users) users")
        }
        guard connectionsCount < 19_000 else {
            throw Invalid(description: "--connections: \(connectionsCount) is not below 19000, the descriptors that a process may have")
        }
    }

    /// The error of scenario `social` for an app without relationships.
    static let needsChain = """
        --scenario: social needs the relationship chain, which is switched off for this app; an administrator switches it on with \
        {"settings":{"chain.enabled":true}} in setAppPolicy
        """

    /// The most other users that each user may watch. In `social` users do not watch those with whom their relationship changes.
    public var watchMax: Int { Population.watchMax(scenario: scenario, users: users) }

    /// The number of connections to open.
    var connectionsCount: Int {
        let fewest = (users + streamsPerConnection - 1) / streamsPerConnection
        return connections > 0 ? connections : max(fewest, min(max(users / 50, targets.count), 2_000))
    }
}
