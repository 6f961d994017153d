import Foundation
import PresenceWire
import Testing

@testable import FriendImport

/// The lines of a file of facts, their calls, and the report about refused ones.
@Suite struct FactLinesTests {
    private func withFile<Value>(_ bytes: [UInt8], _ body: (String) throws -> Value) throws -> Value {
        let path = NSTemporaryDirectory() + "facts-\(UUID().uuidString).ndjson"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        defer { for end in ["", ".refused.ndjson"] { unlink(path + end) } }
        return try body(path)
    }

    private func lines(of bytes: [UInt8], from place: UInt64 = 0, number: Int = 0) throws -> [FactLine] {
        try withFile(bytes) { path in
            let file = try #require(FileHandle(forReadingAtPath: path))
            defer { file.closeFile() }
            var lines = try FactLines(file, from: place, number: number)
            var found: [FactLine] = []
            while let line = try lines.next() { found.append(line) }
            return found
        }
    }

    private static let friend = #"{"userID":"ann","kind":"friend","key":"ben","value":{"addTime":1}}"#

    @Test("Lines end with LF or CRLF, the last one with neither, and blank lines do not count") func ends() throws {
        let text = Self.friend + "\r\n\n  \n" + Self.friend + "\n" + Self.friend
        let found = try lines(of: Array(text.utf8))
        #expect(found.map(\.number) == [1, 2, 3] && found.allSatisfy { $0.refusal == nil && $0.bytes == Array(Self.friend.utf8) })
        #expect(found.map(\.user) == ["ann", "ann", "ann"] && found[0].kind == "friend" && found[0].key == "ben")
        #expect(found[2].end == UInt64(text.utf8.count))
        let rest = try lines(of: Array(text.utf8), from: found[0].end, number: 1)
        #expect(rest.map(\.number) == [2, 3])
    }

    @Test("A bad line is refused with its number, and costs no other line") func bad() throws {
        let long = "{\"userID\":\"\(String(repeating: "x", count: FactLines.bytesMax))\"}"
        let text = ["[]", "{", long, #"{"userID":""}"#, Self.friend].joined(separator: "\n")
        let found = try lines(of: Array(text.utf8))
        #expect(found.map { $0.refusal?.code } == [0, 0, 0, 7003, nil])
        #expect(found[2].refusal?.reason == "has more than 65536 bytes" && found[2].bytes.count == FactLines.bytesMax + 1)
        #expect(found.map(\.number) == [1, 2, 3, 4, 5])
    }

    @Test("The lines of one user are in calls of at most 100, in their order") func batches() throws {
        let text = (0..<250).map { #"{"userID":"u\#($0 % 2)","kind":"friend","key":"f\#($0)","value":{"addTime":1}}"# }
        try withFile(Array(text.joined(separator: "\n").utf8)) { path in
            let file = try #require(FileHandle(forReadingAtPath: path))
            var lines = try FactLines(file, from: 0, number: 0)
            let window = try #require(try FactWindow(from: &lines, linesMax: 1_000))
            var memory = DryRunMemory()
            let users = window.batches(isDryRun: false, &memory)
            #expect(users.map { $0.map(\.lines.count) } == [[100, 25], [100, 25]])
            #expect(users.allSatisfy { $0.allSatisfy(\.assumed.isEmpty) })
            #expect(users[1].flatMap(\.lines).map(\.key) == (0..<125).map { "f\(2 * $0 + 1)" })
        }
    }

    @Test("A dry run sends the groups and the friends of earlier lines along, as far as its lines need them") func dryRun() throws {
        let group = #"{"userID":"ann","kind":"friendGroup","key":"7","value":{"name":"work"}}"#
        let others = (0..<40).map { #"{"userID":"ann","kind":"friend","key":"f\#($0)","value":{"addTime":1,"groupIDs":[7]}}"# }
        let follows = #"{"userID":"ann","kind":"subscription","key":"f3","value":{"subscribeType":3,"subscribedAt":1}}"#
        let text = ([group] + others + [follows]).joined(separator: "\n")
        try withFile(Array(text.utf8)) { path in
            let file = try #require(FileHandle(forReadingAtPath: path))
            var lines = try FactLines(file, from: 0, number: 0)
            let window = try #require(try FactWindow(from: &lines, linesMax: 1_000))
            var memory = DryRunMemory()
            let batches = try #require(window.batches(isDryRun: true, &memory).first)
            #expect(batches.map(\.lines.count) == [32, 10] && batches[0].assumed == [])
            let assumed = try batches[1].assumed.map { try JSONReader.read($0) }
            #expect(assumed.map { $0["key"] } == [.string("7"), .string("f3")])
        }
    }

    @Test("The report has each refused line with its members, its number, and the reason") func report() throws {
        let text = Self.friend + "\nnot JSON"
        let found = try lines(of: Array(text.utf8))
        try withFile(Array(text.utf8)) { path in
            let report = try FactReport(beside: path, bytes: 0)
            let bytes = try report.append([
                (found[0], RowRefusal(code: 30_010, reason: "full")), (found[1], RowRefusal(code: 0, reason: "is not a JSON object")),
            ])
            try report.close()
            let written = try String(contentsOfFile: FactFileImport.reportPath(beside: path), encoding: .utf8)
            #expect(UInt64(written.utf8.count) == bytes)
            #expect(
                written.split(separator: "\n") == [
                    #"{"userID":"ann","kind":"friend","key":"ben","value":{"addTime":1},"row":1,"code":30010,"reason":"full"}"#,
                    #"{"line":"not JSON","row":2,"code":0,"reason":"is not a JSON object"}"#,
                ])
        }
    }
}
