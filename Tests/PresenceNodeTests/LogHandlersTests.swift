import Logging
import NodeFixture
import Testing

@testable import PresenceNode

/// The lines of `logFormat: json`.
@Suite struct LogHandlersTests {
    private func event(_ message: Logger.Message, _ metadata: Logger.Metadata?) -> LogEvent {
        LogEvent(level: .warning, message: message, metadata: metadata, source: "test", file: "F", function: "f", line: 1)
    }

    @Test("A line is one object with the time of RFC 3339 and the metadata as an object, whatever the texts have") func lines() throws {
        var handler = JSONLogHandler(label: "rollcall")
        handler.metadata = ["node": "n0", "same": "of the logger"]
        let texts = ["plain", "a \"quote\" and a \\", "line\nfeed\u{1B}[31m", "\u{202E}right to left", "日本語", ""]
        for text in texts {
            let metadata: Logger.Metadata = [
                "same": "of the line", "text": "\(text)", "key \(text)": .stringConvertible(7),
                "nested": .dictionary(["list": .array(["\(text)", .dictionary([:])])]),
            ]
            let line = handler.line(event("\(text)", metadata), at: 1_764_391_100_007)
            #expect(!line.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x1B || $0.value == 0x202E }, "\(line)")
            let json = try JSON(Array(line.utf8))
            #expect(
                json
                    == .object([
                        "time": .string("2025-11-29T04:38:20.007Z"), "level": .string("warning"), "label": .string("rollcall"),
                        "message": .string(text),
                        "metadata": .object([
                            "node": .string("n0"), "same": .string("of the line"), "text": .string(text), "key \(text)": .string("7"),
                            "nested": .object(["list": .array([.string(text), .object([:])])]),
                        ]),
                    ]))
        }
        let bare = JSONLogHandler(label: "rollcall").line(event("x", nil), at: 0)
        #expect(bare == #"{"time":"1970-01-01T00:00:00.000Z","level":"warning","label":"rollcall","message":"x","metadata":{}}"#)
    }

    @Test("The error of an event is in its metadata, unless the metadata have one") func errors() throws {
        struct Problem: Error, CustomStringConvertible { let description = "the disk is full" }
        var event = event("x", nil)
        event.error = Problem()
        let handler = JSONLogHandler(label: "rollcall")
        #expect(try JSON(Array(handler.line(event, at: 0).utf8))["metadata"]?["error"]?.text == "the disk is full")
        event.metadata = ["error": "another"]
        #expect(try JSON(Array(handler.line(event, at: 0).utf8))["metadata"]?["error"]?.text == "another")
    }

    @Test(
        "A time has milliseconds and four digits of the year",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (4_102_444_800_042, "2100-01-01T00:00:00.042Z"),
        ])
    func times(time: Int64, text: String) { #expect(JSONLogHandler.timeText(time) == text) }
}
