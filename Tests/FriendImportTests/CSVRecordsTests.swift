import Foundation
import Testing

@testable import FriendImport

/// The records of a CSV file (RFC 4180).
@Suite struct CSVRecordsTests {
    private let path = FileManager.default.temporaryDirectory.appending(path: "rollcall-csv-\(UUID()).csv").path

    private func file(_ bytes: [UInt8]) throws -> FileHandle {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        defer { unlink(path) }
        return try #require(FileHandle(forReadingAtPath: path))
    }

    private func all(_ text: String, from place: UInt64 = 0, number: Int = 0) throws -> [CSVRecords.Record] {
        var records = try CSVRecords(try file(Array(text.utf8)), from: place, number: number)
        var all: [CSVRecords.Record] = []
        while let record = try records.next() { all.append(record) }
        return all
    }

    @Test(
        "Records end at line ends outside quotes, whichever line end they have",
        arguments: [
            "a,b\nc,\"d\ne\"\n\nf,g", "a,b\r\nc,\"d\ne\"\r\n\r\nf,g\r\n", "\u{FEFF}\"a\",b\nc,\"d\ne\"\nf,g\n", "a,b\rc,\"d\ne\"\r\rf,g\r",
        ])
    func records(text: String) throws {
        let records = try all(text)
        #expect(records.map(\.fields) == [["a", "b"], ["c", "d\ne"], ["f", "g"]] && records.map(\.number) == [0, 1, 2])
        #expect(records.allSatisfy { $0.fault == nil })
        // From the end of each record the rest is the same.
        for (index, record) in records.enumerated() {
            #expect(try all(text, from: record.end, number: record.number + 1) == Array(records[(index + 1)...]))
        }
    }

    @Test("A file of many pieces has all its records, also those across two pieces") func pieces() throws {
        let rows = (0..<100_000).map { "user\($0),\"friend \($0 % 7)\"\"\n\"" }
        #expect(try all(rows.joined(separator: "\n")).map(\.fields) == (0..<100_000).map { ["user\($0)", "friend \($0 % 7)\"\n"] })
    }

    @Test(
        "A record that breaks a rule has a fault, and the records around it are read",
        arguments: [
            ("\"b", "the end of a quote"), ("\"b\"c", "text follows the end of the quotes"), ("b\"c\"", "a quote stands inside"),
            ("\"say \\\"hi\\\"\"", "text follows the end"), (String(repeating: "x", count: 65_537), "has more than 65536 bytes"),
            ("\"" + String(repeating: "x", count: 65_537), "has more than 65536 bytes"), ("5\" pipe,\"x", "the end of a quote"),
        ])
    func faults(row: String, words: String) throws {
        for lineEnd in ["\n", "\r\n", "\r"] {
            for next in ["c,d", "c,\"d\"", "c,\"d\"\"\ne\""] {
                let text = ["a,b", row, next, "e,f"].joined(separator: lineEnd)
                let records = try all(text)
                #expect(records.map { $0.fault == nil } == [true, false, true, true] && records.map(\.number) == [0, 1, 2, 3])
                #expect(records[1].fault?.hasPrefix(words) == true)
                #expect(try all(text, from: records[1].end, number: 2) == Array(records[2...]))
            }
        }
    }

    @Test("A quote without an end costs no other row, whatever stands in the rest of the file") func openQuoteAtEnd() throws {
        let rows = (0..<20_000).map { "user\($0),friend" }
        let records = try all("a,\"b\n" + rows.joined(separator: "\n"))
        #expect(records.filter { $0.fault != nil }.map(\.number) == [0])
        #expect(records.dropFirst().map { $0.fields[0] } == (0..<20_000).map { "user\($0)" })
    }

    @Test("Bytes that are not UTF-8 are the fault of their row alone") func notUTF8() throws {
        var records = try CSVRecords(try file(Array("a\nb,".utf8) + [0xFF, 0x0A] + Array("c".utf8)))
        _ = try records.next()
        let bad = try #require(try records.next())
        #expect(bad.fault == "field 2 is not UTF-8" && bad.fields == ["b", "\u{FFFD}"])
        let good = try #require(try records.next())
        #expect(good.fault == nil && good.fields == ["c"])
    }

    @Test("A field that is written can be read", arguments: ["a", "", "a,b", "say \"hi\"", "two\nlines", "\"", "a\rb", " a "])
    func written(field: String) throws {
        #expect(try all("x," + CSVRecords.field(field)).map(\.fields) == [["x", field]])
    }

    @Test(
        "Fields are split as RFC 4180 says",
        arguments: [
            ("a,b,", ["a", "b", ""]), (",", ["", ""]), ("\"a,b\",c", ["a,b", "c"]), ("\"a \"\"b\"\"\",\"\"", ["a \"b\"", ""]),
            ("é, b ", ["é", " b "]),
        ])
    func fields(text: String, fields: [String]) throws {
        #expect(try all(text).map(\.fields) == [fields])
    }

    @Test("An empty file has no record") func empty() throws {
        #expect(try all("").isEmpty && all("\n\r\n").isEmpty)
    }
}
