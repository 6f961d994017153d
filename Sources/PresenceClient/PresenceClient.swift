/// A user's presence, and that of the users it follows.
///
/// ```swift
/// let client = try PresenceClient(ClientConfiguration(addresses: ["https://presence.example.com"]) { try await app.token() })
/// let changes = client.onUserStatusChanged
/// try await client.login()
/// try await client.subscribeUserStatus(["bob", "carl"])
/// for await statuses in changes { show(statuses) }
/// ```
///
/// The open session *is* being online. A client that is logged in keeps itself so, through lost connections and nodes that come and go,
/// until ``logout(everywhere:)`` or ``close()``; it also keeps itself in memory until then.
public actor PresenceClient {
    struct Stream {
        var task: Task<Void, Never>?
        /// Ends it unless the node has said its first word by then.
        var deadline: Task<Void, Never>?
        let address: Int
        var session: Session?
        var isMultiplexed = false
        /// The connections it came over.
        var pool: (any Transport.Pool)?
        var hasHeard = false
    }

    /// The result of a login, for each caller that waits.
    typealias LoginWait = CheckedContinuation<Result<Session, PresenceError>, Never>

    let configuration: ClientConfiguration
    let transport: any Transport
    let broadcaster: Broadcaster
    let retry: CallRetry
    var random: any RandomNumberGenerator & Sendable
    var machine: SessionMachine
    var view: StatusView
    var streams: [Int: Stream] = [:]
    var timer: Task<Void, Never>?
    var watch: Task<Void, Never>?
    var loginWaits: [UInt64: LoginWait] = [:]
    var loginsCount: UInt64 = 0
    var lastEventID: String?
    var token: String?
    var renewal: Task<Result<String, PresenceError>, Never>?
    /// The address that calls go to: the session's.
    var callAddress: Int
    /// The session that was opened last: a logout names it also while another is sought.
    var lastSessionID: String?
    /// What the first stream of a login sets.
    var loginStatus: String?
    /// The login's place among the calls that set the custom status, while ``loginStatus`` is to be set.
    var loginCall: UInt64?
    /// Calls that set a fact, in the order in which they were made.
    var order = CallOrder()
    /// Calls that wait until older calls of the same fact are answered.
    var turnWaits: [UInt64: CheckedContinuation<Void, Never>] = [:]
    /// Calls that wait to be retried.
    var retryWaits: [UInt64: Task<Void, any Error>] = [:]
    /// Logins that have ended: a call is not retried after the login in which it was made.
    var endedLoginsCount = 0
    var isClosed = false
    /// The session that is open; nil while there is none.
    public var session: Session? { machine.current.flatMap { streams[$0]?.session } }
    /// Events that were not what their name says, and were passed over.
    public internal(set) var eventsNotUnderstood = 0

    /// A client that is not logged in. Throws when ``ClientConfiguration/trustedCertificatesPEM`` holds no certificates.
    public init(_ configuration: ClientConfiguration) throws {
        self.init(configuration, transport: try HTTPTransport(configuration))
    }

    init(_ configuration: ClientConfiguration, transport: any Transport, retry: CallRetry = CallRetry()) {
        self.configuration = configuration
        self.transport = transport
        self.retry = retry
        broadcaster = Broadcaster(usersMax: configuration.usersMax)
        var random = configuration.random
        // Clients that start together spread over the nodes.
        callAddress = Int.random(in: 0..<configuration.addresses.count, using: &random)
        machine = SessionMachine(
            addressesCount: configuration.addresses.count, firstAddress: callAddress, backoff: configuration.backoff,
            loginAttemptsMax: configuration.loginAttemptsMax)
        self.random = random
        view = StatusView(usersMax: configuration.usersMax)
    }

    // MARK: The session

    /// Opens the session; returns when a node has opened it, and at once if it is open. Cancelling the only caller gives up.
    ///
    /// - Parameter customStatus: is set when the session is opened; nil or empty leaves it as it is.
    ///   Default: ``ClientConfiguration/customStatus``.
    @discardableResult public func login(customStatus: String? = nil) async throws(PresenceError) -> Session {
        if isClosed { throw .closed("the client is closed") }
        if machine.state == .connected, let session { return session }
        if machine.state == .disconnected {
            view = StatusView(usersMax: configuration.usersMax)
            setAtLogin(customStatus ?? configuration.customStatus)
        }
        loginsCount += 1
        let id = loginsCount
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (wait: LoginWait) in
                if Task.isCancelled { return wait.resume(returning: .failure(.cancelled)) }
                loginWaits[id] = wait
                obey(machine.begin())
            }
        } onCancel: {
            Task { await self.giveUpLogin(id) }
        }
        return try result.get()
    }

    /// Ends the session: the user becomes UNLOGINED, unless it is logged in elsewhere. The client has left also when this throws, but
    /// then the node may take the session for lost.
    ///
    /// - Parameter everywhere: end the user's sessions on all devices.
    public func logout(everywhere: Bool = false) async throws(PresenceError) {
        let named = everywhere ? nil : lastSessionID
        guard everywhere || (machine.state != .disconnected && named != nil) else { return obey(machine.end(.loggedOut)) }
        obey(machine.leave())
        var failure: PresenceError?
        do { _ = try await call("logout", Wire.Logout(sessionID: named), as: Wire.Empty.self) } catch { failure = error }
        obey(machine.end(.loggedOut))
        if let failure { throw failure }
    }

    /// Drops everything without a word, as when the app is killed: the user becomes OFFLINE. Feeds end; the client cannot be used again.
    public func close() {
        isClosed = true
        obey(machine.end(.closed))
        broadcaster.finish()
    }

    /// The first session since the login, also while another is sought; nil when nobody is logged in. For façades, which are no actors.
    package nonisolated var loginSession: Session? { broadcaster.login }

    /// The state of the connection.
    public var connectionState: ConnectionState { machine.state }

    /// The newest status of a user that this client has heard of, by the stream or by an answer; nil if none, or if it is long ago and
    /// more than ``ClientConfiguration/usersMax`` users have changed since. Only of users one follows it is the present one.
    public func status(of userID: String) -> UserStatus? { view[userID] }

    /// All that is known, by user; of users whose IDs Unicode calls equivalent, one.
    public var statuses: [String: UserStatus] {
        Dictionary(view.statuses.map { ($0.userID, $0) }) { first, _ in first }
    }

    // MARK: What is told

    /// Changes of one's own status, of friends', and of users one follows; each user once in a list, whole records.
    public nonisolated var onUserStatusChanged: Feed<[UserStatus]> {
        broadcaster.feed { if case .userStatusChanged(let statuses) = $0 { statuses } else { nil } }
    }

    /// Changes of the connection's state.
    public nonisolated var connectionChanges: Feed<ConnectionChange> {
        broadcaster.feed { if case .connectionStateChanged(let change) = $0 { change } else { nil } }
    }

    /// Everything, in order.
    public nonisolated var events: Feed<PresenceEvent> { broadcaster.feed { $0 } }

    /// Calls `listener` from now on; it is held until it is removed or the client is closed.
    public nonisolated func addListener(_ listener: any PresenceListener) { addListener(listener, for: listener) }

    /// Calls `listener` in the place of `object`, which an app knows: what a façade in other words is built on.
    public nonisolated func addListener(_ listener: any PresenceListener, for object: AnyObject) {
        broadcaster.add(listener, for: ObjectIdentifier(object))
    }

    /// Calls `listener`, or what was added for it, no more.
    public nonisolated func removeListener(_ listener: AnyObject) { broadcaster.remove(ObjectIdentifier(listener)) }

    /// Tells what was added for `object` what is known of users, also if it was told: for façades in whose words an answer is a callback.
    package func tellAgain(_ userIDs: [String], to object: AnyObject) {
        let statuses = userIDs.compactMap { view[$0] }
        if !statuses.isEmpty { broadcaster.send(.userStatusChanged(statuses), to: ObjectIdentifier(object)) }
    }

    /// A login that fails is retried with its custom status until a newer call sets another.
    private func setAtLogin(_ customStatus: String?) {
        loginStatus = customStatus
        guard let customStatus, !customStatus.isEmpty else { return }
        let number = begin(Claim(facts: [.customStatus]))
        _ = order.pause(number)
        loginCall = number
    }

    private func giveUpLogin(_ id: UInt64) {
        guard let wait = loginWaits.removeValue(forKey: id) else { return }
        wait.resume(returning: .failure(.cancelled))
        if loginWaits.isEmpty, machine.state == .connecting { obey(machine.end(.closed)) }
    }
}
