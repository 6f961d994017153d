import NIOCore

/// Requests of one event loop whose tokens have been checked on other threads, and the time that they may take in a turn of the loop.
///
/// A thousand requests with new tokens come back within some milliseconds, one task each. An event loop runs its tasks until none is due,
/// and reads only then. So requests beyond the share wait for a turn behind the reads of the other clients.
/// The connections take turns. At most as many requests wait as ``Admission`` lets be in progress.
struct CheckedTokens {
    /// The time after which the other clients have their turn, without a break.
    static let share = TimeAmount.milliseconds(1)
    /// The same for requests that have waited.
    static let turn = TimeAmount.microseconds(250)
    /// The delay while all connections with such requests are paused.
    static let pauseOfAll = TimeAmount.milliseconds(5)

    /// The requests of a connection that wait.
    private struct Waiting {
        let pausedUntil: () -> NIODeadline
        var requests = CircularBuffer<() -> Void>()
    }

    /// The requests that wait, by connection.
    private var waiting: [ObjectIdentifier: Waiting] = [:]
    /// The connections with requests that wait, in the order of their turns.
    private var turns = CircularBuffer<ObjectIdentifier>()
    private var usedNanoseconds: Int64 = 0
    private var lastEnd = NIODeadline.distantPast

    /// Whether no request waits.
    var isEmpty: Bool { turns.isEmpty }

    /// Returns whether a request may go on now. One that may not goes to ``wait(_:of:)``.
    mutating func mayGoOn(at now: NIODeadline) -> Bool {
        if now - lastEnd > Self.share { usedNanoseconds = 0 }
        return turns.isEmpty && usedNanoseconds < Self.share.nanoseconds
    }

    /// Counts the time of a request that has gone on.
    mutating func wentOn(from start: NIODeadline, to end: NIODeadline) {
        usedNanoseconds += (end - start).nanoseconds
        lastEnd = end
    }

    /// Keeps a request of a connection. Returns whether it is the only one that waits, for which a turn must be scheduled.
    ///
    /// - Parameter pausedUntil: the time before which the connection begins no request.
    mutating func wait(
        _ request: @escaping () -> Void, of connection: ObjectIdentifier, pausedUntil: @escaping () -> NIODeadline
    ) -> Bool {
        if waiting[connection] == nil { turns.append(connection) }
        waiting[connection, default: Waiting(pausedUntil: pausedUntil)].requests.append(request)
        return turns.count == 1 && waiting[connection]?.requests.count == 1
    }

    /// Begins a turn of the requests that wait.
    mutating func beginTurn() { usedNanoseconds = Self.share.nanoseconds - Self.turn.nanoseconds }

    /// The next request, if the turn has time; nil also if none waits, or all connections with such requests are paused.
    mutating func next(at now: NIODeadline) -> (() -> Void)? {
        guard usedNanoseconds < Self.share.nanoseconds else { return nil }
        for _ in 0..<turns.count {
            guard let connection = turns.popFirst(), let paused = waiting[connection]?.pausedUntil() else { return nil }
            if paused > now {
                turns.append(connection)
                continue
            }
            let request = waiting[connection]?.requests.popFirst()
            if waiting[connection]?.requests.isEmpty ?? true { waiting[connection] = nil } else { turns.append(connection) }
            return request
        }
        return nil
    }
}
