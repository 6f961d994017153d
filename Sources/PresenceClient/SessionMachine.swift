/// Decides when to open a stream, where, and when to give up. A value without I/O: what happened goes in, effects come out, in order.
///
/// A stream is named by its number. At most three are open: the session's; one that is to follow it; and, until all has been told by the
/// session's, the one before it.
struct SessionMachine {
    /// What is to be done.
    enum Effect: Equatable {
        /// Open a stream at an address of the list. Answered by ``connected(_:node:)`` or ``lost(_:_:using:)``.
        case open(stream: Int, address: Int)
        /// Drop a stream; nothing is wanted of it any more.
        case cancel(stream: Int)
        /// Call ``woke()`` after so long; replaces an earlier one.
        case wake(after: Duration)
        /// The state of the connection has changed.
        case report(ConnectionChange)
        /// Nothing more will be opened.
        case end
    }

    /// How a stream ended, or did not begin.
    enum Failure: Equatable {
        /// The connection could not be made or broke.
        case broken(String)
        /// A node has answered, and not with a stream.
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
    /// The stream of a node that is leaving, until the session's has told everything: only then is it sure that the user's owner knows of
    /// the new session, and the end of this one shows nobody an OFFLINE.
    private(set) var retiring: Int?
    private var isWaiting = false
    /// A logout is on its way: its answer ends the session, and the stream that the node ends before that is not opened again.
    private(set) var isLeaving = false
    /// Attempts since a session last worked.
    private var attempt = 0
    /// Hints in a row that led back to a node that is leaving.
    private var hops = 0
    private var node: String?

    /// - Parameters:
    ///   - addressesCount: how many addresses there are; all lead to the same cluster.
    ///   - firstAddress: which of them to begin with.
    ///   - loginAttemptsMax: after how many attempts a first login fails; a session that was lost is sought for ever.
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

    /// Begins a session, unless there is one.
    mutating func begin() -> [Effect] {
        guard phase == .idle else { return [] }
        phase = .connecting
        attempt = 0
        hops = 0
        return [.report(ConnectionChange(.connecting, .login)), open()]
    }

    /// A node has opened the session of a stream.
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
        if phase != .connected { effects.append(.report(ConnectionChange(.connected, .sessionOpened))) }
        phase = .connected
        return effects
    }

    /// Everything of one type that the session follows has been told: the session works. Called once for each type.
    mutating func synced(_ stream: Int) -> [Effect] {
        guard stream == current else { return [] }
        attempt = 0
        defer { retiring = nil }
        return retiring.map { [.cancel(stream: $0)] } ?? []
    }

    /// The node of a stream is leaving: another stream is to be opened after so long, and this one dropped then.
    mutating func hinted(_ stream: Int, after: Duration, using random: inout some RandomNumberGenerator) -> [Effect] {
        guard stream == current, pending == nil, !isWaiting, !isLeaving else { return [] }
        let delay = hops == 0 ? after : max(after, backoff.delay(attempt: hops, using: &random))
        hops += 1
        rotate()
        return [wait(delay)]
    }

    /// A stream has ended, or was not opened.
    mutating func lost(_ stream: Int, _ failure: Failure, using random: inout some RandomNumberGenerator) -> [Effect] {
        if stream == retiring { retiring = nil }
        guard stream == current || stream == pending else { return [] }
        let wasCurrent = stream == current
        if wasCurrent {
            current = retiring
            retiring = nil
        } else {
            pending = nil
        }
        if isLeaving { return [] }
        var effects: [Effect] = []
        if case .refused(let error) = failure, error.isFinal { return end(.refused(error)) }
        attempt += 1
        if phase == .connecting, attempt >= loginAttemptsMax { return end(failure.reason) }
        if current == nil, phase == .connected {
            phase = .reconnecting
            effects.append(.report(ConnectionChange(.reconnecting, failure.reason)))
        }
        // Another stream is on its way already.
        guard pending == nil else { return effects }
        // A hint that waits has chosen another address already.
        if !isWaiting { rotate() }
        var delay = backoff.delay(attempt: attempt - 1, using: &random)
        if case .refused(let error) = failure, let asked = error.retryAfter { delay += asked }
        return effects + [wait(delay)]
    }

    /// A newer login has ended the session of a stream.
    ///
    /// The newer login may be this client's own stream that is being opened: then the session goes on there.
    mutating func replaced(_ stream: Int) -> [Effect] {
        guard stream == current, pending == nil else { return [] }
        return end(.kickedOffline("replaced"))
    }

    /// The wait is over.
    mutating func woke() -> [Effect] {
        guard isWaiting, phase != .idle, pending == nil else { return [] }
        isWaiting = false
        return [open()]
    }

    /// Opens nothing more, because the node is being asked to end the session; it ends the session's own stream.
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
    /// What the app is told.
    var reason: ConnectionReason {
        switch self {
        case .broken(let detail): .connectionLost(detail)
        case .refused(let error): .refused(error)
        }
    }
}

extension PresenceError {
    /// Whether asking another node, or later, cannot help.
    var isFinal: Bool {
        switch code {
        case .tokenUnavailable, .unreachable, .cancelled: false
        case .closed: true
        default: (400..<500).contains(status) && status != 429 && status != 408
        }
    }
}
