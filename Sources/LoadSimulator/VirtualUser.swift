import HTTP2
import PresenceWire

/// One simulated user: a state machine, not a task.
struct VirtualUser {
    enum State: Equatable {
        /// The user has not begun, or waits before it tries again.
        case away
        /// The user has requested its event stream.
        case opening
        /// The user has received `onConnected`.
        case connected
        /// The user ends its stream on purpose, and returns when the stream is closed.
        case leaving
    }

    var state = State.away
    private(set) var stream: StreamID?
    private(set) var connection = -1
    /// The time of the present stream's request.
    private(set) var openedAt = 0.0
    /// The part of a refusal's body that is here; nil when the node has not refused the stream.
    private var problem: [UInt8]?
    /// The stream that a reconnect hint ends. The user resets it once the new one is open.
    private var previous: (client: HTTPClientConnection, stream: StreamID)?
    /// Whether the node has answered all subscribe calls.
    var isSubscribed = false
    /// Whether the user has received `onSubscriptionSyncCompleted` on the present stream.
    private var isSynced = false
    /// The time of that event. A change that was scheduled before it is not measured on this stream.
    private(set) var syncedAt = 0.0
    /// Failures since the last success.
    private var failures = 0
    /// The next target to try, counted from the user's own.
    private(set) var targetShift = 0
    var lastEventID: Int64?
    var scanner = EventScanner()
    /// Subscribe calls without an answer.
    var subscribesOpen = 0
    /// The last changes, and their scheduled times in seconds.
    private var recent: [(change: Int, scheduledAt: Double)] = []

    var isLive: Bool { state == .connected && isSubscribed && isSynced }

    // MARK: The stream

    /// Records the request of an event stream.
    mutating func begin(_ stream: StreamID, on connection: Int, at now: Double) {
        state = .opening
        openedAt = now
        problem = nil
        self.stream = stream
        self.connection = connection
        isSynced = false
        scanner = EventScanner()
    }

    /// Records `onConnected`. Returns the stream that a reconnect hint ends.
    mutating func connect() -> (client: HTTPClientConnection, stream: StreamID)? {
        defer { previous = nil }
        failures = 0
        state = .connected
        return previous
    }

    /// Records `onSubscriptionSyncCompleted`.
    mutating func sync(at now: Double) { (isSynced, syncedAt) = (true, now) }

    /// Keeps the present stream on `client` until a new one is open, on the next target. Returns false for a user that is not connected.
    mutating func move(from client: HTTPClientConnection) -> Bool {
        guard state == .connected, let stream else { return false }
        previous = (client, stream)
        state = .away
        targetShift += 1
        return true
    }

    /// Records the end of the stream. Returns whether the user ended it on purpose.
    mutating func end() -> Bool {
        defer { (state, stream) = (.away, nil) }
        return state == .leaving
    }

    /// Records a failed attempt. The next one goes to the next target.
    mutating func fail() {
        state = .away
        failures += 1
        targetShift += 1
    }

    // MARK: Refusals

    /// Records that the node answers with a refusal instead of a stream.
    mutating func beginProblem() { problem = [] }

    /// Appends a part of a refusal's body. Returns false when the node has not refused the stream.
    mutating func receive(problem bytes: UnsafeRawBufferPointer) -> Bool {
        guard problem != nil else { return false }
        problem?.append(contentsOf: bytes)
        return true
    }

    /// Takes the body of a refusal; nil when there was none.
    mutating func takeProblem() -> [UInt8]? {
        defer { problem = nil }
        return problem
    }

    // MARK: Times

    /// The milliseconds until the next attempt: full jitter up to 50 ms × 2ⁿ after n failures, at most a second.
    func backoffMilliseconds(using random: inout some RandomNumberGenerator) -> Int64 {
        Int64.random(in: 10...min(50 << Int64(min(failures, 5)), 1_000), using: &random)
    }

    mutating func remember(change: Int, scheduledAt: Double) {
        if recent.count == 8 { recent.removeFirst() }
        recent.append((change, scheduledAt))
    }

    func scheduledAt(change: Int) -> Double? { recent.last { $0.change == change }?.scheduledAt }
}
