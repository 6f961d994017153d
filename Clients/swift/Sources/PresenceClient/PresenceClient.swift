/// The presence of a user, and that of the users it follows.
///
/// ```swift
/// let client = try PresenceClient(ClientConfiguration(addresses: ["https://presence.example.com"]) { try await app.token() })
/// let changes = client.onUserStatusChanged
/// try await client.login()
/// try await client.subscribeUserStatus(["bob", "carl"])
/// for await statuses in changes { show(statuses) }
/// ```
///
/// The open session *is* being online. A client that is logged in reopens its session after lost connections and node failures, until
/// ``logout(everywhere:)`` or ``close()``. Until then it also keeps itself in memory.
public actor PresenceClient {
    /// The result of a login, for each waiting caller.
    typealias LoginWait = CheckedContinuation<Result<Session, PresenceError>, Never>

    let configuration: ClientConfiguration
    let transport: any Transport
    let broadcaster: Broadcaster
    let retry: CallRetry
    /// Profiles, friends, requests, blocklist and groups.
    public nonisolated let friendship: Friendship
    var random: any RandomNumberGenerator & Sendable
    var machine: SessionMachine
    var view: StatusView
    var streams: [Int: SessionStream] = [:]
    var timer: Task<Void, Never>?
    var watch: StreamWatch.Running
    var loginWaits: [UInt64: LoginWait] = [:]
    var loginsCount: UInt64 = 0
    var lastEventID: String?
    var token: String?
    var renewal: Task<Result<String, PresenceError>, Never>?
    /// The address for calls: that of the session.
    var callAddress: Int
    /// The last opened session. A logout names it even while the client opens another one.
    var lastSessionID: String?
    /// The custom status that the first stream of a login sets, while it has to be set.
    var loginStatus: LoginStatus?
    /// The calls that set a fact, in the order in which they were made.
    var order = CallOrder()
    /// The calls that wait until older calls of the same fact are answered.
    var turnWaits: [UInt64: CheckedContinuation<Void, Never>] = [:]
    /// The calls that wait for a retry.
    var retryWaits: [UInt64: Task<Void, any Error>] = [:]
    /// The number of ended logins. A call is not retried after the login in which it was made.
    var endedLoginsCount = 0
    var isClosed = false
    /// The open session; nil without one.
    public var session: Session? { machine.current.flatMap { streams[$0]?.session } }
    /// The number of events that did not match their name, and were skipped.
    public internal(set) var eventsNotUnderstood = 0

    /// Makes a client without a login. Throws if an address is not a URL with a scheme, or the certificates to trust are invalid.
    public init(_ configuration: ClientConfiguration) throws { self.init(configuration, transport: try configuration.makeTransport()) }

    init(_ configuration: ClientConfiguration, transport: any Transport, retry: CallRetry = CallRetry()) {
        self.configuration = configuration
        self.transport = transport
        self.retry = retry
        watch = StreamWatch.Running(stopwatch: Stopwatch(configuration.clock))
        broadcaster = Broadcaster(usersMax: configuration.usersMax)
        var random = configuration.random
        // Clients that start together spread over the nodes.
        callAddress = Int.random(in: 0..<configuration.addresses.count, using: &random)
        machine = SessionMachine(
            addressesCount: configuration.addresses.count, firstAddress: callAddress, backoff: configuration.backoff,
            loginAttemptsMax: configuration.loginAttemptsMax)
        self.random = random
        view = StatusView(usersMax: configuration.usersMax)
        friendship = Friendship(configuration, broadcaster)
        friendship.attach(to: self)
    }

    // MARK: The session

    /// Opens the session. Returns when a node has opened it, and at once if it is open. If the only caller is cancelled, the login ends.
    ///
    /// - Parameter customStatus: the custom status to set when the session is opened; nil or empty leaves it unchanged. Default:
    /// ``ClientConfiguration/customStatus``.
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

    /// Ends the session: the user goes UNLOGINED, unless it is logged in elsewhere.
    ///
    /// The client has logged out even if this throws. Then the node may consider the session lost.
    ///
    /// - Parameter everywhere: whether to end the user's sessions on all devices.
    public func logout(everywhere: Bool = false) async throws(PresenceError) {
        let named = everywhere ? nil : lastSessionID
        guard everywhere || (machine.state != .disconnected && named != nil) else { return obey(machine.end(.loggedOut)) }
        obey(machine.leave())
        var failure: PresenceError?
        do { _ = try await call("logout", Wire.Logout(sessionID: named), as: Wire.Empty.self) } catch { failure = error }
        obey(machine.end(.loggedOut))
        if let failure { throw failure }
    }

    /// Drops the session without a logout, as when the app is killed: the user goes OFFLINE. Feeds end, and the client cannot be used
    /// again.
    public func close() {
        isClosed = true
        obey(machine.end(.closed))
        broadcaster.finish()
    }

    /// Drops the session without a logout, as when the system suspends the app: the user goes OFFLINE after the policy's `offlineGrace`.
    ///
    /// Feeds and listeners stay. ``login(customStatus:)`` opens the next session, and everything followed is told again.
    public func disconnect() { obey(machine.end(.closed)) }

    /// The first session since the login, even while another is opened; nil without a login. For façades, which are not actors.
    package nonisolated var loginSession: Session? { broadcaster.login }

    /// The state of the connection.
    public var connectionState: ConnectionState { machine.state }

    /// The newest status of a user that this client has received; nil for none.
    ///
    /// The client drops a status if more than ``ClientConfiguration/usersMax`` users have changed since. The status is current only for
    /// users that the client follows.
    public func status(of userID: String) -> UserStatus? { view[userID] }

    /// All known statuses, by user. Of users whose IDs Unicode calls equivalent, it has one.
    public var statuses: [String: UserStatus] {
        Dictionary(view.statuses.map { ($0.userID, $0) }) { first, _ in first }
    }

    // MARK: Events

    /// The changes of the own status, of friends, and of followed users. Each list has each user once, as a whole record.
    public nonisolated var onUserStatusChanged: Feed<[UserStatus]> {
        broadcaster.feed { if case .userStatusChanged(let statuses) = $0 { statuses } else { nil } }
    }

    /// Changes of the connection's state.
    public nonisolated var connectionChanges: Feed<ConnectionChange> {
        broadcaster.feed { if case .connectionStateChanged(let change) = $0 { change } else { nil } }
    }

    /// All events, in order.
    public nonisolated var events: Feed<PresenceEvent> { broadcaster.feed { $0 } }

    /// Adds a listener. The client keeps it until it is removed or the client is closed.
    public nonisolated func addListener(_ listener: any PresenceListener) { addListener(listener, for: listener) }

    /// Adds a listener that stands for `object`. Façades with other words are built on it.
    public nonisolated func addListener(_ listener: any PresenceListener, for object: AnyObject) {
        broadcaster.add(listener, for: ObjectIdentifier(object))
    }

    /// Removes a listener, or the one that stands for the object.
    public nonisolated func removeListener(_ listener: AnyObject) { broadcaster.remove(ObjectIdentifier(listener)) }

    /// Sends the known statuses of users to the listener of `object` again. For façades in whose API an answer is a callback.
    package func sendAgain(_ userIDs: [String], to object: AnyObject) {
        let statuses = userIDs.compactMap { view[$0] }
        if !statuses.isEmpty { broadcaster.send(.userStatusChanged(statuses), to: ObjectIdentifier(object)) }
    }

    /// Sets the custom status at login. A login that fails is retried with it until a newer call sets another.
    private func setAtLogin(_ customStatus: String?) {
        loginStatus = nil
        guard let customStatus, !customStatus.isEmpty else { return }
        let number = begin(Claim(facts: [.customStatus]))
        _ = order.pause(number)
        loginStatus = LoginStatus(text: customStatus, call: number)
    }

    private func giveUpLogin(_ id: UInt64) {
        guard let wait = loginWaits.removeValue(forKey: id) else { return }
        wait.resume(returning: .failure(.cancelled))
        if loginWaits.isEmpty, machine.state == .connecting { obey(machine.end(.closed)) }
    }
}
