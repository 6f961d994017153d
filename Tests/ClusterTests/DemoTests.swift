import Foundation
import NodeFixture
import Testing

/// `rollcall demo`, on a terminal and without one.
@Suite(.serialized, .timeLimit(.minutes(3))) struct DemoTests {
    private static let arguments = ["demo", "--users", "60", "--watch", "5", "--rate", "50", "--duration", "12"]

    @Test("Without a terminal the demo prints plain lines: the people who came and the numbers") func plain() async throws {
        let demo = try await RollcallBinary.run(Self.arguments)
        #expect(demo.status == 0 && !demo.output.contains("\u{1B}"), "\(demo.output)")
        #expect(demo.output.contains(/\n0:\d\d  (ann|ben|carla|dae|emre|mei) came online on [a-z]+\n/), "\(demo.output)")
        #expect(demo.output.contains(/members 3 alive, phase load, users online 60, changes per second [1-9]/), "\(demo.output)")
        #expect(
            demo.output.contains("try in another terminal: ") && demo.output.contains(" watch --user you ann --target http://127.0.0.1:"))
        #expect(demo.output.contains(/verdict +verified/), "\(demo.output)")
    }

    /// A terminal of 60 columns and 24 rows, by the command `script` of util-linux, which passes SIGINT on as Ctrl-C does.
    @Test("On a terminal of 60 columns no line is longer, Ctrl-C ends the demo in order, and the cursor is shown again")
    func terminal() async throws {
        let command = ([RollcallBinary.path] + Self.arguments).map { "'\($0)'" }.joined(separator: " ")
        let shell = "stty cols 60 rows 30; timeout --foreground --signal=INT 8 \(command)"
        let shown = try await run("env", ["TERM=xterm", "NO_COLOR=1", "script", "-qec", shell, "/dev/null"])
        let frames = shown.output.components(separatedBy: "\u{1B}[?25l")
        #expect(frames.count == 2, "the cursor is hidden once: \(shown.output)")
        let view = (frames.last ?? "").replacing("\r\n", with: "\n").replacing("\r", with: "")
        #expect(view.contains(/(●|○) ann/) && view.contains("Try it in another terminal:") && view.contains("▁"), "\(view)")
        // Lines of the view begin with the command that clears the rest of a line.
        let lines = view.split(separator: "\n").compactMap { line in line.firstRange(of: "\u{1B}[K").map { line[$0.upperBound...] } }
        #expect(lines.count > 20 && lines.allSatisfy { $0.count <= 60 }, "\(lines.filter { $0.count > 60 })")
        #expect(!view.contains("\u{1B}[32m"), "NO_COLOR leaves no color")
        let end = try #require(view.firstRange(of: "\u{1B}[?25h"))
        #expect(view[end.upperBound...].contains(/verdict +verified/), "\(view)")
    }
}
