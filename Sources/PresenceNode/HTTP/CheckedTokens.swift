import NIOCore

/// Requests of one event loop whose tokens have been checked on other threads, and the time that they may take in a turn of the loop.
///
/// A thousand logins with new tokens come back within some milliseconds, one task each. An event loop runs its tasks until none is due, and
/// reads only then. So requests beyond the share wait for a short delay, which puts them behind the reads of the other clients.
/// At most as many wait as ``Admission`` lets be in progress.
struct CheckedTokens {
    /// The time after which the other clients have their turn.
    static let share = TimeAmount.milliseconds(1)
    /// The delay of the requests that wait.
    static let pause = TimeAmount.microseconds(200)

    private var waiting: [() -> Void] = []
    private var usedNanoseconds: Int64 = 0
    private var lastEnd = NIODeadline.distantPast

    /// Whether no request waits.
    var isEmpty: Bool { waiting.isEmpty }

    /// Returns whether a request may go on now. One that may not goes to ``wait(_:)``.
    mutating func mayGoOn(at now: NIODeadline) -> Bool {
        if now - lastEnd > Self.share { usedNanoseconds = 0 }
        return waiting.isEmpty && usedNanoseconds < Self.share.nanoseconds
    }

    /// Counts the time of a request that has gone on.
    mutating func wentOn(from start: NIODeadline, to end: NIODeadline) {
        usedNanoseconds += (end - start).nanoseconds
        lastEnd = end
    }

    /// Keeps a request. Returns whether it is the first, for which a turn must be scheduled after ``pause``.
    mutating func wait(_ request: @escaping () -> Void) -> Bool {
        waiting.append(request)
        return waiting.count == 1
    }

    /// Begins a turn, and takes the requests that wait, in order. Those for which the turn has no time go back by ``putBack(_:)``.
    mutating func takeAll() -> [() -> Void] {
        usedNanoseconds = 0
        defer { waiting = [] }
        return waiting
    }

    /// Puts requests before those that wait. Returns whether a turn must be scheduled.
    mutating func putBack(_ requests: ArraySlice<() -> Void>) -> Bool {
        waiting = requests + waiting
        return !waiting.isEmpty
    }
}
