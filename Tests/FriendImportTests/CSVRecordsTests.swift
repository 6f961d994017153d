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
        arguments: ["a,b\nc,\"d\ne\"\n\nf,g", "a,b\r\nc,\"d\ne\"\r\n\r\nf,g\r\n", "\u{FEFF}a,b\nc,\"d\ne\"\nf,g\n"])
    func records(text: String) throws {
        let records = try all(text)
        #expect(records.map(\.text) == ["a,b", "c,\"d\ne\"", "f,g"] && records.map(\.number) == [0, 1, 2])
        #expect(try records.map { try $0.fields() } == [["a", "b"], ["c", "d\ne"], ["f", "g"]])
        // From the end of each record the rest is the same.
        for (index, record) in records.enumerated() {
            #expect(try all(text, from: record.end, number: record.number + 1) == Array(records[(index + 1)...]))
        }
    }

    @Test("A file of many pieces has all its records, also those across two pieces") func pieces() throws {
        let rows = (0..<100_000).map { "user\($0),\"friend \($0 % 7)\"\"\n\"" }
        #expect(try all(rows.joined(separator: "\n")).map(\.text) == rows)
    }

    @Test(
        "A record without the end of a quote, or too long, ends the import with its number",
        arguments: [("a,b\nc,\"d\n", "row 1: the end of a quote"), ("a\n" + String(repeating: "x", count: 65_537), "row 1: has more than")])
    func tooLong(text: String, words: String) throws {
        let error = try #require(throws: ImportError.self) { try all(text) }
        #expect(error.description.hasPrefix(words))
    }

    @Test("Bytes that are not UTF-8 end the import with their row") func notUTF8() throws {
        var records = try CSVRecords(try file([0x61, 0x0A, 0xFF, 0x0A]))
        _ = try records.next()
        let error = try #require(throws: ImportError.self) { try records.next() }
        #expect(error.description == "row 1: is not UTF-8")
    }

    @Test(
        "Fields are split as RFC 4180 says",
        arguments: [
            ("a,b,", ["a", "b", ""]), (",", ["", ""]), ("\"a,b\",c", ["a,b", "c"]), ("\"a \"\"b\"\"\",\"\"", ["a \"b\"", ""]),
            ("é, b ", ["é", " b "]),
        ])
    func fields(text: String, fields: [String]) throws {
        #expect(try all(text).map { try $0.fields() } == [fields])
    }

    @Test(
        "A quote at a place where RFC 4180 allows none is refused with its row",
        arguments: [
            ("a\n\"b\"c", "row 1, field 1: text follows the end of the quotes"), ("a\nb\"c\"", "row 1: a quote stands inside a field"),
        ])
    func wrongQuotes(text: String, words: String) throws {
        let error = try #require(throws: ImportError.self) { try all(text).map { try $0.fields() } }
        #expect(error.description.hasPrefix(words))
    }

    @Test("An empty file has no record") func empty() throws {
        #expect(try all("").isEmpty && all("\n\r\n").isEmpty)
    }
}
