import NIOCore

/// Which lines are worth a place in the log: of what is tried again several times a second, each line once a minute.
struct RepeatedLines {
    private static let interval = TimeAmount.seconds(60)
    /// Different lines remembered; with one more all are forgotten.
    static let linesMax = 64

    private var written: [String: NIODeadline] = [:]

    /// Whether this line is to be written now.
    mutating func isDue(_ line: String, at now: NIODeadline) -> Bool {
        if let before = written[line], now - before < Self.interval { return false }
        if written.count >= Self.linesMax { written = [:] }
        written[line] = now
        return true
    }
}
