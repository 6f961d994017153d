/// The live view of `rollcall demo`: makes the lines of a frame from values. It reads no clock and no terminal.
public struct DemoView: Sendable {
    /// A person as a follower sees it.
    public struct Person: Equatable, Sendable {
        public var userID: String
        public var isOnline: Bool
        public var platforms: [String]
        public var text: String
        /// The newest change and the seconds since it; nil before the first.
        public var latest: (words: String, secondsAgo: Int)?

        public init(userID: String) {
            self.userID = userID
            (isOnline, platforms, text) = (false, [], "")
        }

        public static func == (left: Person, right: Person) -> Bool {
            left.userID == right.userID && left.isOnline == right.isOnline && left.platforms == right.platforms && left.text == right.text
        }
    }

    /// The numbers of one second.
    public struct Sample: Sendable {
        public var changes: Double
        public var pushes: Double
        public var p50Milliseconds: Double?
        public var p99Milliseconds: Double?

        public init(changes: Double, pushes: Double, p50Milliseconds: Double?, p99Milliseconds: Double?) {
            self.changes = changes
            self.pushes = pushes
            self.p50Milliseconds = p50Milliseconds
            self.p99Milliseconds = p99Milliseconds
        }
    }

    /// All that a frame shows.
    public struct State: Sendable {
        public var members = "?"
        public var phase = "connecting"
        public var usersOnline = 0
        public var people: [Person] = []
        /// The changes that the follower has heard of, the oldest first.
        public var news: [String] = []
        /// The samples, the oldest first.
        public var samples: [Sample] = []
        /// A command to try in another terminal.
        public var command = ""

        public init() {}
    }

    /// The columns of the narrowest terminal for which the view is made. In a narrower one lines are cut.
    public static let columnsMin = 60
    /// The widest view: a text of more columns is hard to read.
    static let columnsMax = 110

    private let columns: Int
    private let rows: Int
    private let isColored: Bool

    /// - Parameters: the size of the terminal, and whether text may have colors.
    public init(columns: Int, rows: Int, isColored: Bool) {
        self.columns = min(max(columns, 1), Self.columnsMax)
        self.rows = rows
        self.isColored = isColored
    }

    /// The lines of a frame: at most `rows - 1`, so that the terminal does not scroll, and each of at most `columns` columns.
    public func lines(_ state: State) -> [String] {
        let height = max(rows - 1, 1)
        let charts = self.charts(state.samples)
        let head = [styled(title(state), .bold), ""]
        let people = state.people.map(line)
        let command = Self.wrapped(state.command, to: columns - 2).map { cut("  " + $0) }
        let end = [""] + charts + ["", styled(cut("Try it in another terminal:"), .bold)] + command
        let room = height - head.count - people.count - end.count - 1
        let news = room > 0 ? [""] + state.news.suffix(min(room, 8)).map { styled(cut("  " + $0), .faint) } : []
        let all = head + people + news + end
        // In a low terminal the charts and the command are worth more than the last people.
        guard all.count > height else { return all }
        return Array((head + people.prefix(max(height - head.count - end.count, 0)) + end).prefix(height))
    }

    /// The state as one line, for an output that is no terminal.
    public static func line(_ state: State) -> String {
        let last = state.samples.last
        let milliseconds = { (value: Double?) in value.map { "\(ReportText.milliseconds($0)) ms" } ?? "-" }
        let parts = [
            "members \(state.members)", "phase \(state.phase)", "users online \(state.usersOnline)",
            "changes per second \(ReportText.number((last?.changes ?? 0).rounded()))",
            "pushes per second \(ReportText.number((last?.pushes ?? 0).rounded()))",
            "change to push p50 \(milliseconds(last?.p50Milliseconds)) p99 \(milliseconds(last?.p99Milliseconds))",
        ]
        return parts.joined(separator: ", ")
    }

    // MARK: Lines

    private func title(_ state: State) -> String {
        cut("Rollcall demo   members \(state.members)   users online \(ReportText.number(state.usersOnline))   \(state.phase)")
    }

    private func line(_ person: Person) -> String {
        let rest = max(columns - 4 - 8 - 12 - 4, 0)
        let latest = person.latest.map { "\($0.words) \($0.secondsAgo) s ago" } ?? ""
        let latestColumns = min(rest / 2, 20)
        let body = [
            TerminalText.fitted(person.userID, to: 8), TerminalText.fitted(person.platforms.joined(separator: ","), to: 12),
            TerminalText.fitted(person.text, to: rest - latestColumns), TerminalText.cut(latest, to: latestColumns),
        ]
        let text = cut("  \(person.isOnline ? "●" : "○") \(body.joined(separator: " "))".trimmed)
        guard isColored else { return text }
        guard person.isOnline else { return styled(text, .faint) }
        return text.replacing("●", with: styled("●", .green), maxReplacements: 1)
    }

    private func charts(_ samples: [Sample]) -> [String] {
        let labelColumns = 28
        let barsCount = max(columns - labelColumns - 4, 0)
        let number = { (value: Double) in ReportText.number(value.rounded()) }
        let milliseconds = { (value: Double) in ReportText.milliseconds(value) + " ms" }
        let rows: [(name: String, values: [Double?], text: (Double) -> String)] = [
            ("changes per second", samples.map(\.changes), number), ("pushes per second", samples.map(\.pushes), number),
            ("change to push, p50", samples.map(\.p50Milliseconds), milliseconds),
            ("change to push, p99", samples.map(\.p99Milliseconds), milliseconds),
        ]
        return rows.map { row in
            let last = (row.values.last ?? nil).map(row.text) ?? "-"
            let space = String(repeating: " ", count: max(9 - TerminalText.width(last), 0))
            let label = TerminalText.fitted(row.name, to: labelColumns - 9) + space + last
            return cut("  \(label)  ") + styled(Self.sparkline(Array(row.values.suffix(barsCount))), .blue)
        }
    }

    /// A chart of one line: each value is a bar of one to eight eighths, measured from 0. A value that is missing is a space.
    static func sparkline(_ values: [Double?]) -> String {
        let bars = Array("▁▂▃▄▅▆▇█")
        let top = values.compactMap(\.self).max() ?? 0
        return String(
            values.map { value in
                guard let value else { return " " }
                return top > 0 ? bars[min(Int(value / top * 7.999), 7)] : bars[0]
            })
    }

    /// A command in lines that a shell reads as one.
    static func wrapped(_ command: String, to columns: Int) -> [String] {
        var parts: [String] = []
        for word in command.split(separator: " ") {
            // An option stays with its values.
            if let last = parts.last, !word.hasPrefix("--") {
                parts[parts.count - 1] = "\(last) \(word)"
            } else {
                parts.append(String(word))
            }
        }
        var lines: [String] = []
        for part in parts {
            if let last = lines.last, TerminalText.width(last) + TerminalText.width(part) + 3 <= columns {
                lines[lines.count - 1] = "\(last) \(part)"
            } else {
                lines.append((lines.isEmpty ? "" : "  ") + part)
            }
        }
        return lines.enumerated().map { $0 < lines.count - 1 ? $1 + " \\" : $1 }
    }

    private func cut(_ text: String) -> String { TerminalText.cut(text, to: columns) }

    // MARK: Colors

    private enum Style: String { case bold = "1", faint = "2", green = "32", blue = "34" }

    private func styled(_ text: String, _ style: Style) -> String {
        isColored && !text.isEmpty ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m" : text
    }
}

extension String {
    /// The text without the spaces at its end.
    fileprivate var trimmed: String {
        var text = self
        while text.last == " " { text.removeLast() }
        return text
    }
}
