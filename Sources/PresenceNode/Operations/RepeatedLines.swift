import NIOCore

/// Limits repeated log lines: each different line is written at most once a minute.
struct RepeatedLines {
    private static let interval = TimeAmount.seconds(60)
    /// Different lines that are remembered: a few for each of a hundred nodes. One more clears the table.
    static let linesMax = 1_024

    private var written: [String: NIODeadline] = [:]

    /// Whether to write a line now.
    ///
    /// - Parameters:
    ///   - subject: the address, name or node that the line is about.
    ///   - text: the rest of the line. Two lines that differ only in digits are the same line.
    mutating func isDue(_ subject: String, _ text: String, at now: NIODeadline) -> Bool {
        let line = "\(subject) \(text.filter { !$0.isNumber })"
        if let before = written[line], now - before < Self.interval { return false }
        if written.count >= Self.linesMax { written = [:] }
        written[line] = now
        return true
    }
}
