import Foundation

/// The records of a CSV file (RFC 4180), one after another, from a place on. A record may have line ends in quotes.
///
/// Only a piece of the file is in memory, whatever its size.
struct CSVRecords {
    struct Record: Equatable, Sendable {
        /// The number of the record; the names of the columns are number 0. Blank lines do not count.
        let number: Int
        /// The record as it is in the file, without the line end.
        let text: String
        /// The place in the file after the record, in bytes.
        let end: UInt64
    }

    /// Longest record, in bytes. A longer one lacks a quote.
    static let bytesMax = 65_536
    private static let pieceBytes = 1 << 20
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let file: FileHandle
    private var piece: [UInt8] = []
    /// The bytes of `piece` that were taken.
    private var taken = 0
    /// The place in the file of the next record.
    private var place: UInt64
    private var isAtEnd = false
    private var number: Int

    /// - Parameters:
    ///   - place: the end of the record before; 0 for the beginning.
    ///   - number: the number of the first record to read.
    init(_ file: FileHandle, from place: UInt64 = 0, number: Int = 0) throws {
        (self.file, self.place, self.number) = (file, place, number)
        try file.seek(toOffset: place)
    }

    /// The next record; nil at the end of the file.
    mutating func next() throws -> Record? {
        while true {
            guard let (bytes, length) = try take() else { return nil }
            place += UInt64(length)
            guard !bytes.isEmpty else { continue }
            let start = number == 0 && bytes.starts(with: Self.byteOrderMark) ? Self.byteOrderMark.count : 0
            guard let text = String(validating: bytes[start...], as: UTF8.self) else {
                throw ImportError("row \(number): is not UTF-8")
            }
            defer { number += 1 }
            return Record(number: number, text: text, end: place)
        }
    }

    /// Removes the bytes up to the next line end outside quotes. Returns them without the line end, and their number with it.
    private mutating func take() throws -> (bytes: [UInt8], length: Int)? {
        var (index, isQuoted) = (taken, false)
        while true {
            guard index - taken <= Self.bytesMax else {
                throw ImportError("row \(number): has more than \(Self.bytesMax) bytes; is the end of a quote missing?")
            }
            if index == piece.count {
                guard !isAtEnd else { break }
                let more = try file.read(upToCount: Self.pieceBytes) ?? Data()
                isAtEnd = more.isEmpty
                piece.removeFirst(taken)
                (index, taken) = (index - taken, 0)
                piece += more
                continue
            }
            if piece[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
            if piece[index] == UInt8(ascii: "\n"), !isQuoted { break }
            index += 1
        }
        guard taken < piece.count else { return nil }
        guard !isQuoted else { throw ImportError("row \(number): the end of a quote is missing") }
        var bytes = Array(piece[taken..<index])
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        let length = min(index + 1, piece.count) - taken
        taken += length
        return (bytes, length)
    }
}

extension CSVRecords.Record {
    /// The fields of the record. Throws for quotes that RFC 4180 does not allow.
    func fields() throws -> [String] {
        var fields: [String] = []
        var rest = text.utf8[...]
        while true {
            let isQuoted = rest.first == UInt8(ascii: "\"")
            fields.append(isQuoted ? try Self.takeQuoted(&rest, of: self) : try Self.takeBare(&rest, of: self))
            guard let next = rest.popFirst() else { return fields }
            guard next == UInt8(ascii: ",") else {
                throw ImportError(
                    "row \(number), field \(fields.count): text follows the end of the quotes; a comma or the line end is right")
            }
        }
    }

    /// Removes a field in quotes. `rest` begins with the first quote.
    private static func takeQuoted(_ rest: inout Substring.UTF8View, of record: CSVRecords.Record) throws -> String {
        var field = ""
        while rest.popFirst() == UInt8(ascii: "\"") {
            // A quote after a quote stands for one quote of the text.
            guard let end = rest.firstIndex(of: UInt8(ascii: "\"")) else {
                throw ImportError("row \(record.number): the end of a quote is missing")
            }
            field += String(Substring(rest[..<end]))
            rest = rest[rest.index(after: end)...]
            guard rest.first == UInt8(ascii: "\"") else { break }
            field += "\""
        }
        return field
    }

    /// Removes a field without quotes.
    private static func takeBare(_ rest: inout Substring.UTF8View, of record: CSVRecords.Record) throws -> String {
        let field = rest.prefix { $0 != UInt8(ascii: ",") }
        rest = rest[field.endIndex...]
        guard !field.contains(UInt8(ascii: "\"")) else {
            throw ImportError("row \(record.number): a quote stands inside a field without quotes; quote the field and double the quote")
        }
        return String(Substring(field))
    }
}

/// The error that ends an import: the place, what is wrong, and what would be right.
public struct ImportError: Error, CustomStringConvertible {
    public let description: String
    /// Whether the cluster is at fault, and not the file. The same import goes on later.
    public let isOfCluster: Bool

    init(_ description: String, isOfCluster: Bool = false) { (self.description, self.isOfCluster) = (description, isOfCluster) }
}
