import Foundation

/// The records of a CSV file (RFC 4180), one after another, from a place on. A record may have line ends in quotes.
///
/// Only a piece of the file is in memory, whatever its size. A record that breaks a rule has a fault, and the next one is read as usual.
struct CSVRecords {
    struct Record: Equatable, Sendable {
        /// The number of the record; the names of the columns are number 0. Blank lines do not count.
        let number: Int
        /// The fields without their quotes. Those of a record with a fault are as near to the file as text can be.
        let fields: [String]
        /// The reason why the record is not what the writer of the file meant; nil for a right one.
        let fault: String?
        /// The place in the file after the record, in bytes.
        let end: UInt64
    }

    /// Longest record, in bytes.
    static let bytesMax = 65_536
    private static let pieceBytes = 1 << 20
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
    static let delimiter = UInt8(ascii: ",")
    static let quote = UInt8(ascii: "\"")

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
        if place == 0, try byte(at: 2) != nil, piece.starts(with: Self.byteOrderMark) { skip(3) }
        while try byte(at: 0) != nil {
            let line = try nextLine()
            let bytes = piece[taken..<taken + line.bytesCount]
            let isBlank = bytes.isEmpty && line.fault == nil
            let (fields, encodingFault) = Self.fields(bytes)
            skip(line.bytesCount)
            if line.fault == .tooLong { try skipToLineEnd() }
            try skipLineEnd()
            guard !isBlank else { continue }
            defer { number += 1 }
            return Record(number: number, fields: fields, fault: line.fault?.rawValue ?? encodingFault, end: place)
        }
        return nil
    }

    // MARK: Lines

    private enum Fault: String {
        case tooLong = "has more than 65536 bytes; the report leaves its fields out"
        case openQuote = "the end of a quote is missing; a field that begins with a quote ends with one"
        case quoteInField = "a quote stands inside a field without quotes; quote the field and double the quote"
        case textAfterQuotes = "text follows the end of the quotes; double a quote that belongs to the text"
    }

    private enum Position {
        case fieldStart, text, quoted
        /// Behind a quote in quotes: it is the end of the quotes, or the first of two that stand for one.
        case quoteInQuotes
    }

    /// Finds the end of the next record, without its line end.
    ///
    /// If a quote has no end, the record is its first line alone. The rows behind it are not lost with it.
    private mutating func nextLine() throws -> (bytesCount: Int, fault: Fault?) {
        var (offset, position) = (0, Position.fieldStart)
        var fault: Fault?
        // The first line end inside the quotes of the present field.
        var quotedLineEnd: Int?
        while let byte = try byte(at: offset) {
            let isLineEnd = Self.isLineEnd(byte)
            guard offset < Self.bytesMax || isLineEnd else { return quotedLineEnd.map { ($0, .openQuote) } ?? (0, .tooLong) }
            switch (position, byte) {
            case (.quoted, Self.quote): position = .quoteInQuotes
            case (.quoted, _): if isLineEnd, quotedLineEnd == nil { quotedLineEnd = offset }
            case (.quoteInQuotes, Self.quote): position = .quoted
            case (.fieldStart, Self.quote): (position, quotedLineEnd) = (.quoted, nil)
            case (_, Self.delimiter): position = .fieldStart
            case _ where isLineEnd: return (offset, fault)
            case (.quoteInQuotes, _):
                if let quotedLineEnd { return (quotedLineEnd, .openQuote) }
                (position, fault) = (.text, fault ?? .textAfterQuotes)
            case (.text, Self.quote): fault = fault ?? .quoteInField
            default: position = .text
            }
            offset += 1
        }
        return position == .quoted ? (quotedLineEnd ?? offset, .openQuote) : (offset, fault)
    }

    private static func isLineEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }

    /// The byte at an offset behind those that were taken; nil at the end of the file.
    private mutating func byte(at offset: Int) throws -> UInt8? {
        while taken + offset >= piece.count {
            guard !isAtEnd else { return nil }
            let more = try file.read(upToCount: Self.pieceBytes) ?? Data()
            isAtEnd = more.isEmpty
            piece.removeFirst(taken)
            taken = 0
            piece += more
        }
        return piece[taken + offset]
    }

    private mutating func skip(_ count: Int) {
        taken += count
        place += UInt64(count)
    }

    private mutating func skipToLineEnd() throws {
        while let byte = try byte(at: 0), !Self.isLineEnd(byte) { skip(1) }
    }

    /// Removes one line end: LF, CR, or both.
    private mutating func skipLineEnd() throws {
        if try byte(at: 0) == UInt8(ascii: "\r") { skip(1) }
        if try byte(at: 0) == UInt8(ascii: "\n") { skip(1) }
    }

    // MARK: Fields

    /// Splits a record. Returns the reason if a field is not UTF-8; such a field has U+FFFD in place of the wrong bytes.
    private static func fields(_ record: ArraySlice<UInt8>) -> (fields: [String], fault: String?) {
        var (fields, fault): ([String], String?) = ([], nil)
        var start = record.startIndex
        while start <= record.endIndex {
            let rest = record[start...]
            let quotesEnd = quotedEnd(rest)
            let end = quotesEnd ?? rest.firstIndex(of: delimiter) ?? rest.endIndex
            let bytes = quotesEnd == nil ? Array(rest[..<end]) : unquoted(rest[..<end])
            if String(validating: bytes, as: UTF8.self) == nil { fault = fault ?? "field \(fields.count + 1) is not UTF-8" }
            fields.append(String(decoding: bytes, as: UTF8.self))
            start = end + 1
        }
        return (fields, fault)
    }

    /// The end of a field in quotes; nil for another field, also for one whose quotes are wrong.
    private static func quotedEnd(_ rest: ArraySlice<UInt8>) -> Int? {
        guard rest.first == quote else { return nil }
        var index = rest.startIndex + 1
        while let next = rest[index...].firstIndex(of: quote) {
            index = next + 1
            guard index < rest.endIndex, rest[index] != delimiter else { return index }
            guard rest[index] == quote else { return nil }
            index += 1
        }
        return nil
    }

    /// The text of a field in quotes: two quotes inside stand for one.
    private static func unquoted(_ field: ArraySlice<UInt8>) -> [UInt8] {
        var (text, isEscape): ([UInt8], Bool) = ([], false)
        for byte in field.dropFirst().dropLast() {
            isEscape = byte == quote && !isEscape
            if !isEscape { text.append(byte) }
        }
        return text
    }

    /// A field as a file has it: in quotes where RFC 4180 asks for them.
    static func field(_ text: String) -> String {
        let needsQuotes = text.utf8.contains { $0 == quote || $0 == delimiter || isLineEnd($0) }
        return needsQuotes ? "\"\(text.replacing("\"", with: "\"\""))\"" : text
    }
}

/// The error that ends an import: the place, what is wrong, and what would be right.
public struct ImportError: Error, CustomStringConvertible {
    public let description: String
    /// Whether the cluster is at fault, and not the file. The same import goes on later.
    public let isOfCluster: Bool

    init(_ description: String, isOfCluster: Bool = false) { (self.description, self.isOfCluster) = (description, isOfCluster) }
}
