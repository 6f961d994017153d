import NIOCore

/// Which lines are worth a place in the log: of what is tried again several times a second, each line once a minute.
struct RepeatedLines {
    private static let interval = TimeAmount.seconds(60)
    /// Different lines remembered; with one more all are forgotten. For each of a hundred nodes a few.
    static let linesMax = 1_024

    private var written: [String: NIODeadline] = [:]

    /// Whether a line is to be written now.
    ///
    /// - Parameters:
    ///   - subject: whom it is about.
    ///   - text: the rest; numbers in it, as of seconds, do not make it another one.
    mutating func isDue(_ subject: String, _ text: String, at now: NIODeadline) -> Bool {
        let line = "\(subject) \(text.filter { !$0.isNumber })"
        if let before = written[line], now - before < Self.interval { return false }
        if written.count >= Self.linesMax { written = [:] }
        written[line] = now
        return true
    }
}
