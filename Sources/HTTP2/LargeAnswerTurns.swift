import NIOCore

/// The turns of the requests of one event loop whose answers may be large.
///
/// An answer of a megabyte takes two to three milliseconds of a loop. One look at the sockets can bring such requests of fifty
/// connections, which the requests of all others would have to wait for. Therefore these requests begin one after the other, and the loop
/// reads between two of them. The connections take turns.
struct LargeAnswerTurns<Connection: AnyObject> {
    /// The most requests in progress. Their answers may come later, from another loop or node, and take time there.
    static var openMax: Int { 8 }
    /// The same within ``memory`` of a large answer.
    static var openMaxAfterLarge: Int { 1 }
    static var memory: TimeAmount { .seconds(10) }
    /// The time after which a request begins although others are in progress. A node may have died that they wait for.
    static var patience: TimeAmount { .milliseconds(250) }

    /// The way from one turn to the next.
    private enum Phase {
        /// No connection waits.
        case idle
        /// The turn of the next connection is scheduled.
        case scheduled
        /// A connection has its turn, and may begin a request.
        case given
    }

    private let bytesPerSecond: Int
    /// The connections that wait, in the order of their turns.
    private var waiting = CircularBuffer<Connection>()
    /// Those in ``waiting``. They are only looked up.
    private var members: Set<ObjectIdentifier> = []
    private var phase = Phase.idle
    private var lastBegin = NIODeadline.distantPast
    /// The time before which no request begins, because of large answers.
    private(set) var pausedUntil = NIODeadline.distantPast
    private var largeUntil = NIODeadline.distantPast

    /// - Parameter bytesPerSecond: the bytes of large answers for which the loop has time in a second.
    init(bytesPerSecond: Int) { self.bytesPerSecond = bytesPerSecond }

    /// Whether the loop has time for a request.
    ///
    /// - Parameter openCount: the number of requests in progress.
    func hasTime(openCount: Int, at now: NIODeadline) -> Bool {
        guard now >= pausedUntil else { return false }
        return openCount < (now < largeUntil ? Self.openMaxAfterLarge : Self.openMax) || now - lastBegin >= Self.patience
    }

    /// Returns whether a request begins now. The connection of one that does not goes to ``wait(_:)``.
    mutating func begin(openCount: Int, at now: NIODeadline) -> Bool {
        guard phase == .given || (waiting.isEmpty && hasTime(openCount: openCount, at: now)) else { return false }
        if phase == .given { phase = .scheduled }
        lastBegin = now
        return true
    }

    /// Counts a large answer. The next request begins after the time that its bytes take.
    mutating func count(answerBytes: Int, at now: NIODeadline) {
        pausedUntil = max(pausedUntil, now) + .nanoseconds(Int64(answerBytes) * 1_000_000_000 / Int64(bytesPerSecond))
        largeUntil = now + Self.memory
    }

    /// Keeps a connection until its turn. Returns whether a turn must be scheduled.
    mutating func wait(_ connection: Connection) -> Bool {
        if members.insert(ObjectIdentifier(connection)).inserted { waiting.append(connection) }
        guard phase == .idle else { return false }
        phase = .scheduled
        return true
    }

    /// The connection whose turn it is; nil if none waits, or the loop has no time.
    mutating func next(openCount: Int, at now: NIODeadline) -> Connection? {
        guard hasTime(openCount: openCount, at: now), let connection = waiting.popFirst() else { return nil }
        members.remove(ObjectIdentifier(connection))
        phase = .given
        return connection
    }

    /// Ends a turn, which the connection need not have used. Returns whether another must be scheduled.
    mutating func endTurn() -> Bool {
        phase = waiting.isEmpty ? .idle : .scheduled
        return !waiting.isEmpty
    }

    /// Removes a connection that is closed.
    mutating func remove(_ connection: Connection) {
        guard members.remove(ObjectIdentifier(connection)) != nil else { return }
        waiting.removeAll { $0 === connection }
    }
}
