import Testing

@testable import LoadSimulator

@Suite struct DemoViewTests {
    private static var state: DemoView.State {
        var state = DemoView.State()
        (state.members, state.phase, state.usersOnline) = ("3 alive", "load", 1_000)
        var ann = DemoView.Person(userID: "ann")
        (ann.isOnline, ann.platforms, ann.text, ann.latest) = (true, ["ios", "web"], "会议中 ☕ until three o'clock", ("changed", 4))
        var mallory = DemoView.Person(userID: "mallory\u{1B}[2J")
        mallory.text = "\u{1B}]0;owned\u{07}\r\n\u{202E}"
        state.people = [ann, mallory] + ["ben", "carla", "dae", "emre"].map { DemoView.Person(userID: $0) }
        state.news = (0..<20).map { "0:\($0)  ann changed the text: “会议中会议中会议中会议中会议中会议中会议中会议中”" } + ["1:00  bad\u{1B}[2J"]
        state.samples = (1...300).map {
            DemoView.Sample(changes: Double($0), pushes: 5_000, p50Milliseconds: $0 < 290 ? nil : 1.5, p99Milliseconds: Double($0))
        }
        state.command = "/a/long/folder/rollcall watch --user you ann --target http://127.0.0.1:41237"
        return state
    }

    private static func withoutColors(_ line: String) -> String { line.replacing(/\u{1B}\[[0-9]+m/, with: "") }

    @Test("No line is wider than the terminal, and a frame is lower than it", arguments: [1, 10, 40, 60, 61, 80, 132, 300])
    func size(columns: Int) {
        for rows in [1, 2, 10, 24, 30, 60] {
            for isColored in [false, true] {
                let lines = DemoView(columns: columns, rows: rows, isColored: isColored).lines(Self.state)
                #expect(!lines.isEmpty && lines.count <= max(rows - 1, 1))
                for line in lines { #expect(TerminalText.width(Self.withoutColors(line)) <= columns, "\(line)") }
            }
        }
    }

    @Test("A frame of 60 columns names people, news, rates, latencies and a command that a shell reads as one") func content() {
        let lines = DemoView(columns: 60, rows: 40, isColored: false).lines(Self.state)
        let text = lines.joined(separator: "\n")
        #expect(lines[0] == "Rollcall demo   members 3 alive   users online 1,000   load")
        #expect(text.contains("● ann      ios,web") && text.contains("○ ben") && text.contains("changed 4 s ago"), "\(text)")
        #expect(text.contains("changes per second       300  ") && text.contains("pushes per second      5,000  "), "\(text)")
        #expect(text.contains("1.50 ms  ") && text.contains("300 ms  "), "\(text)")
        #expect(text.contains("rollcall watch --user you ann \\\n") && text.hasSuffix("--target http://127.0.0.1:41237"), "\(text)")
        #expect(lines.filter { $0.contains("ann changed the text") }.count == 7)
    }

    @Test("Texts of others cannot send commands to the terminal") func escaped() {
        for rows in [24, 60] {
            let text = DemoView(columns: 120, rows: rows, isColored: false).lines(Self.state).joined()
            #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x202E && !(0x7F...0x9F).contains($0.value) })
            #expect(text.contains("\\u{1B}"))
        }
    }

    @Test("A chart shows values from 0 as eighths, the newest on the right, and a missing one as a gap") func sparkline() {
        #expect(DemoView.sparkline([0, 1, 4, 8, nil, 8]) == "▁▁▄█ █")
        #expect(DemoView.sparkline([0, 0]) == "▁▁" && DemoView.sparkline([]) == "")
    }

    @Test("For an output that is no terminal the state is one line") func plainLine() {
        let line = DemoView.line(Self.state)
        #expect(line.hasPrefix("members 3 alive, phase load, users online 1000, changes per second 300, pushes per second 5,000, "))
        #expect(line.hasSuffix("change to push p50 1.50 ms p99 300 ms"))
        #expect(DemoView.line(DemoView.State()).hasSuffix("p50 - p99 -"))
    }
}
