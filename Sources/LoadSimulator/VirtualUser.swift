import HTTP2
import PresenceWire

/// One simulated user: a state machine, not a task.
struct VirtualUser {
    enum State: Equatable {
        /// Has not begun, or waits before it tries again.
        case away
        /// Its stream was requested.
        case opening
        /// `onConnected` was told.
        case connected
        /// Ends its stream on purpose; comes back when it is closed.
        case leaving
    }

    var state = State.away
    var stream: StreamID?
    var connection = -1
    /// When the present stream was requested.
    var openedAt = 0.0
    /// What the node has answered instead of a stream, as far as it is here.
    var problem: [UInt8]?
    /// The stream that a reconnect hint bade it leave, until the new one is open.
    var previous: (client: HTTPClientConnection, stream: StreamID)?
    /// All its subscriptions were answered.
    var isSubscribed = false
    /// `onSubscriptionSyncCompleted` was told on the present stream.
    var isSynced = false
    /// When; a change that was scheduled before is not measured on this stream.
    var syncedAt = 0.0
    /// Counts failed attempts; moves the user to the next target.
    var attempts = 0
    /// The next target to try, counted from the user's own.
    var targetShift = 0
    var lastEventID: Int64?
    var scanner = EventScanner()
    /// Answers to subscribe calls that are missing.
    var subscribesOpen = 0
    /// The last changes and when they were scheduled, in seconds.
    var recent: [(change: Int, scheduledAt: Double)] = []

    var isLive: Bool { state == .connected && isSubscribed && isSynced }

    /// How long to wait before the next attempt, in milliseconds: full jitter up to 50 ms × 2ⁿ, at most a second.
    func backoffMilliseconds(using random: inout SplitMix64) -> Int64 {
        Int64.random(in: 10...min(50 << Int64(min(attempts, 5)), 1_000), using: &random)
    }

    mutating func remember(change: Int, scheduledAt: Double) {
        if recent.count == 8 { recent.removeFirst() }
        recent.append((change, scheduledAt))
    }

    func scheduledAt(change: Int) -> Double? { recent.last { $0.change == change }?.scheduledAt }
}

/// A call that waits for its answer.
struct PendingCall {
    enum Purpose {
        case setStatus(user: Int, scheduledAt: Double)
        case subscribe(user: Int)
        case logout(user: Int)
        /// Asks a node what is true.
        case truth
    }

    var purpose: Purpose
    var status = 0
    var body: [UInt8] = []
}
