/// Decides when and where to open a stream, and when to give up. It does no I/O: inputs come in, effects go out, in order.
///
/// A stream is known by its number. At most three are open: that of the session, its successor, and, until the session's stream has sent
/// everything, its predecessor.
struct SessionMachine {
    /// An action to carry out.
    enum Effect: Equatable {
        /// Open a stream at an address of the list. The answer is ``connected(_:node:)`` or ``lost(_:_:using:)``.
        case open(stream: Int, address: Int)
        /// Drop a stream that is not needed any more.
        case cancel(stream: Int)
        /// Call ``woke()`` after a delay. It replaces an earlier one.
        case wake(after: Duration)
        /// The state of the connection has changed.
        case report(ConnectionChange)
        /// Nothing more is opened.
        case end
    }

    /// The reason why a stream ended, or was not opened.
    enum Failure: Equatable {
        /// The connection failed or broke.
        case broken(String)
        /// A node answered with an error.
        case refused(PresenceError)
    }

    private enum Phase: Equatable {
        case idle, connecting, connected, reconnecting
    }

    private let addressesCount: Int
    private let backoff: Backoff
    private let loginAttemptsMax: Int
    private var phase = Phase.idle
    private var address = 0
    private var streamsCount = 0
    /// The stream of the session.
    private(set) var current: Int?
    /// The stream that is being opened.
    private(set) var pending: Int?
    /// The stream of a node that is leaving, until the session's stream has sent everything.
    ///
    /// Only then does the user's owner certainly know the new session, so that the end of this stream shows nobody an OFFLINE.
    private(set) var retiring: Int?
    private var isWaiting = false
    /// The effect of this client's own next login on the session, as far as the client knows.
    private enum OwnReplacement {
        case none
        /// A stream was not opened while there was a session. Its login may have replaced the session all the same.
        case possible
        /// A newer login has replaced the session while this client opens its next stream. That login is the client's own.
        case seen
    }

    private var ownReplacement = OwnReplacement.none
    /// Whether a logout is on its way. Its answer ends the session. A stream that the node ends before is not reopened.
    private(set) var isLeaving = false
    /// The attempts since a session last worked.
    private var attempt = 0
    /// The consecutive hints that led back to a node that is leaving.
    private var hops = 0
    private var node: String?

    /// - Parameters:
    ///   - addressesCount: the number of addresses, all of one cluster.
    ///   - firstAddress: the address to start with.
    ///   - loginAttemptsMax: the attempts after which a first login fails. A lost session is retried for ever.
    init(addressesCount: Int, firstAddress: Int, backoff: Backoff, loginAttemptsMax: Int) {
        precondition(addressesCount > 0, "a client needs an address")
        self.addressesCount = addressesCount
        self.backoff = backoff
        self.loginAttemptsMax = loginAttemptsMax
        address = firstAddress % addressesCount
    }

    /// The state to show.
    var state: ConnectionState {
        switch phase {
        case .idle: .disconnected
        case .connecting: .connecting
        case .connected: .connected
        case .reconnecting: .reconnecting
        }
    }

    /// Starts a session, unless there is one.
    mutating func begin() -> [Effect] {
        guard phase == .idle else { return [] }
        phase = .connecting
        attempt = 0
        hops = 0
        return [.report(ConnectionChange(.connecting, .login)), open()]
    }

    /// Records that a node has opened the session of a stream.
    mutating func connected(_ stream: Int, node: String) -> [Effect] {
        guard stream == pending else { return [] }
        var effects: [Effect] = []
        if let retiring { effects.append(.cancel(stream: retiring)) }
        retiring = current
        hops = node == self.node ? hops : 0
        self.node = node
        current = stream
        pending = nil
        isWaiting = false
        ownReplacement = .none
        if phase != .connected { effects.append(.report(ConnectionChange(.connected, .sessionOpened))) }
        phase = .connected
        return effects
    }

    /// Records that all statuses of one type have arrived, so that the session works. Called once for each type.
    mutating func synced(_ stream: Int) -> [Effect] {
        guard stream == current else { return [] }
        attempt = 0
        defer { retiring = nil }
        return retiring.map { [.cancel(stream: $0)] } ?? []
    }

    /// Records that the node of a stream is leaving. Another stream opens after a delay, and then this one is dropped.
    mutating func hinted(_ stream: Int, after: Duration, using random: inout some RandomNumberGenerator) -> [Effect] {
        guard stream == current, pending == nil, !isWaiting, !isLeaving else { return [] }
        let delay = hops == 0 ? after : max(after, backoff.delay(attempt: hops, using: &random))
        hops += 1
        rotate()
        return [wait(delay)]
    }

    /// Records that the node of the session's stream may be frozen. A stream opens elsewhere, and the session's stream is kept until then.
    mutating func doubted(_ stream: Int) -> [Effect] {
        guard stream == current, pending == nil, !isWaiting, !isLeaving else { return [] }
        rotate()
        return [open()]
    }

    /// The longest wait after a node has rejected the token: the app may hand out a better one soon.
    private static let tokenWaitMax = Duration.seconds(8)

    /// Records that a stream has ended, or was not opened.
    ///
    /// A rejected token ends a first login. A lost session waits for a better token.
    mutating func lost(_ stream: Int, _ failure: Failure, using random: inout some RandomNumberGenerator) -> [Effect] {
        if stream == retiring { retiring = nil }
        guard stream == current || stream == pending else { return [] }
        let wasCurrent = stream == current
        let isHandedOver = wasCurrent && ownReplacement == .seen
        if ownReplacement == .seen { ownReplacement = .none }
        if wasCurrent {
            current = retiring
            retiring = nil
        } else {
            pending = nil
            ownReplacement = current == nil ? .none : .possible
        }
        // The node of the next stream has the session already, and its first event is on the way.
        if isLeaving || isHandedOver { return [] }
        var effects: [Effect] = []
        var awaitsToken = false
        if case .refused(let error) = failure {
            awaitsToken = error.status == 401 && phase != .connecting
            if error.isFinal, !awaitsToken { return end(.refused(error)) }
        }
        attempt += 1
        if phase == .connecting, attempt >= loginAttemptsMax { return end(failure.reason) }
        if current == nil, phase == .connected || awaitsToken {
            phase = .reconnecting
            effects.append(.report(ConnectionChange(.reconnecting, failure.reason)))
        }
        // Another stream is already being opened.
        guard pending == nil else { return effects }
        // A waiting hint has already chosen another address.
        if !isWaiting { rotate() }
        let waits = awaitsToken ? Backoff(initial: backoff.initial, max: min(backoff.max, Self.tokenWaitMax)) : backoff
        var delay = waits.delay(attempt: attempt - 1, using: &random)
        if case .refused(let error) = failure, let asked = error.retryAfter { delay += asked }
        return effects + [wait(delay)]
    }

    /// Records that a newer login has ended the session of a stream.
    ///
    /// The newer login may be this client's own next stream, or one that it has given up. Then the session goes on with the next one.
    mutating func replaced(_ stream: Int) -> [Effect] {
        guard stream == current, pending == nil, ownReplacement != .possible else {
            if stream == current, pending != nil { ownReplacement = .seen }
            return []
        }
        return end(.kickedOffline("replaced"))
    }

    /// Records that the wait is over.
    mutating func woke() -> [Effect] {
        guard isWaiting, phase != .idle, pending == nil else { return [] }
        isWaiting = false
        return [open()]
    }

    /// Opens nothing more, because the client asks the node to end the session. The node then ends the session's stream.
    mutating func leave() -> [Effect] {
        isLeaving = phase != .idle
        isWaiting = false
        defer { (pending, retiring) = (nil, nil) }
        return [retiring, pending].compactMap(\.self).map { .cancel(stream: $0) }
    }

    /// Ends the session for good.
    mutating func end(_ reason: ConnectionReason) -> [Effect] {
        guard phase != .idle else { return [] }
        let effects = [retiring, current, pending].compactMap(\.self).map { Effect.cancel(stream: $0) }
        phase = .idle
        current = nil
        pending = nil
        retiring = nil
        isWaiting = false
        ownReplacement = .none
        isLeaving = false
        node = nil
        return effects + [.report(ConnectionChange(.disconnected, reason)), .end]
    }

    private mutating func open() -> Effect {
        streamsCount += 1
        pending = streamsCount
        return .open(stream: streamsCount, address: address)
    }

    private mutating func wait(_ delay: Duration) -> Effect {
        isWaiting = true
        return .wake(after: delay)
    }

    private mutating func rotate() { address = (address + 1) % addressesCount }
}

extension SessionMachine.Failure {
    /// The reason that the app receives.
    var reason: ConnectionReason {
        switch self {
        case .broken(let detail): .connectionLost(detail)
        case .refused(let error): .refused(error)
        }
    }
}

extension PresenceError {
    /// Whether another node or a later attempt cannot help.
    var isFinal: Bool {
        switch code {
        case .tokenUnavailable, .unreachable, .cancelled: false
        case .closed: true
        default: (400..<500).contains(status) && status != 429 && status != 408
        }
    }
}
