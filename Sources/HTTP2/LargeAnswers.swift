import NIOCore

/// Has the requests of an event loop whose answers may be large begin in turns: see ``LargeAnswerTurns``.
final class LargeAnswers: ContinuedWork {
    /// The time of a turn.
    private static let turnTime = TimeAmount.microseconds(250)
    /// The time between two looks at the requests in progress, while others wait for them.
    private static let lookInterval = TimeAmount.milliseconds(1)

    private unowned let server: HTTPLoop
    private var turns: LargeAnswerTurns<HTTPServerConnection>
    /// The requests in progress, and some that have been answered meanwhile.
    private var open: [(connection: HTTPServerConnection, stream: StreamID)] = []

    init(for server: HTTPLoop) {
        self.server = server
        turns = LargeAnswerTurns(bytesPerSecond: server.limits.largeAnswerBytesPerSecond)
    }

    /// Whether a request begins now. Otherwise the loop calls ``HTTPServerConnection/work()`` in the turn of the connection.
    func begin(_ stream: StreamID, on connection: HTTPServerConnection) -> Bool {
        if turns.begin(openCount: countOpen(), at: .now()) {
            open.append((connection, stream))
            return true
        }
        if turns.wait(connection) { schedule() }
        return false
    }

    /// Counts a large answer, whichever request it belongs to.
    fileprivate func count(answerBytes: Int) { turns.count(answerBytes: answerBytes, at: .now()) }

    /// Removes a connection that is closed.
    func remove(_ connection: HTTPServerConnection) {
        open.removeAll { $0.connection === connection }
        turns.remove(connection)
    }

    /// Gives the next connections their turns.
    func work() {
        let end = NIODeadline.now() + Self.turnTime
        while let connection = turns.next(openCount: countOpen(), at: .now()) {
            connection.work()
            if .now() >= end { break }
        }
        if turns.endTurn() { schedule() }
    }

    /// The number of requests in progress.
    private func countOpen() -> Int {
        open.removeAll { !$0.connection.isAwaitingAnswer($0.stream) }
        return open.count
    }

    /// Schedules a turn. It is part of the chain of all work that continues, behind the reads: see ``HTTPLoop/continueLater(_:)``.
    private func schedule() {
        let now = NIODeadline.now()
        if turns.hasTime(openCount: countOpen(), at: now) { return server.continueLater(self) }
        server.eventLoop.assumeIsolated().scheduleTask(deadline: max(turns.pausedUntil, now + Self.lookInterval)) { [weak self] in
            if let self { server.continueLater(self) }
        }
    }
}

extension HTTPLoop {
    /// Counts an answer. A small one has no effect.
    func count(answerBytes: Int) {
        if answerBytes >= RequestTurn.pacedBytes { largeAnswers.count(answerBytes: answerBytes) }
    }
}
