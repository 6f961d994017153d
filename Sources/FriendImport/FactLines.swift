import Foundation
import PresenceWire

/// One line of a file of facts.
struct FactLine: Sendable {
    /// The number of the line, from 1. Blank lines do not count.
    let number: Int
    /// The place in the file after the line, in bytes.
    let end: UInt64
    /// The line without its end.
    let bytes: [UInt8]
    private(set) var user = ""
    private(set) var kind = ""
    private(set) var key = ""
    /// Whether the fact is allowed only with a friend: a subscription of type 3 or 4.
    private(set) var needsFriend = false
    /// The reason why the line is not sent; nil for one that is.
    private(set) var refusal: RowRefusal?

    /// - Parameter isTooLong: whether `bytes` are only the beginning of the line.
    init(_ bytes: [UInt8], number: Int, end: UInt64, isTooLong: Bool) {
        (self.bytes, self.number, self.end) = (bytes, number, end)
        guard !isTooLong else {
            refusal = RowRefusal(code: 0, reason: "has more than \(FactLines.bytesMax) bytes")
            return
        }
        guard let value = try? JSONReader.read(bytes), case .object = value else {
            refusal = RowRefusal(code: 0, reason: "is not a JSON object")
            return
        }
        guard case .string(let user)? = value["userID"], Limits.isValidName(user) else {
            refusal = RowRefusal(code: 7003, reason: "userID: a user ID is 1 to 64 bytes of UTF-8 without control characters")
            return
        }
        self.user = user
        if case .string(let kind)? = value["kind"] { self.kind = kind }
        if case .string(let key)? = value["key"] { self.key = key }
        if case .integer(let type)? = value["value"]?["subscribeType"] { needsFriend = type == 3 || type == 4 }
    }
}

/// The lines of a file of facts (NDJSON), one after another, from a place on. Only a piece of the file is in memory.
struct FactLines {
    /// Longest line, in bytes. It has room for a fact of each kind.
    static let bytesMax = 65_536
    private static let pieceBytes = 1 << 20

    private let file: FileHandle
    private var place: UInt64
    private var number: Int
    private var piece: [UInt8] = []
    private var taken = 0
    private var isAtEnd = false

    /// - Parameters:
    ///   - place: the end of the line before; 0 for the beginning.
    ///   - number: the number of that line.
    init(_ file: FileHandle, from place: UInt64, number: Int) throws {
        (self.file, self.place, self.number) = (file, place, number)
        try file.seek(toOffset: place)
    }

    /// The next line that is not blank; nil at the end of the file.
    mutating func next() throws -> FactLine? {
        while let (bytes, isTooLong) = try nextBytes() {
            guard !bytes.allSatisfy({ " \t\r".utf8.contains($0) }) else { continue }
            number += 1
            return FactLine(bytes, number: number, end: place, isTooLong: isTooLong)
        }
        return nil
    }

    /// The bytes up to the next line feed, or the first of them in a line that is too long; nil at the end of the file.
    private mutating func nextBytes() throws -> (bytes: [UInt8], isTooLong: Bool)? {
        var line: [UInt8] = []
        var (count, isLine) = (0, false)
        while true {
            if taken == piece.count { try readPiece() }
            guard taken < piece.count else { break }
            isLine = true
            let rest = piece[taken...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            let part = rest[..<(end ?? rest.endIndex)]
            count += part.count
            line += part.prefix(max(Self.bytesMax + 1 - line.count, 0))
            let read = part.count + (end == nil ? 0 : 1)
            taken += read
            place += UInt64(read)
            if end != nil { break }
        }
        if line.last == UInt8(ascii: "\r"), count == line.count { line.removeLast() }
        return isLine ? (line, count > Self.bytesMax) : nil
    }

    private mutating func readPiece() throws {
        guard !isAtEnd else { return }
        let more = try file.read(upToCount: Self.pieceBytes) ?? Data()
        isAtEnd = more.isEmpty
        (piece, taken) = (Array(more), 0)
    }
}

/// The report about refused lines: each with its number, and the code and the reason behind its members.
///
/// An import of the mended report ignores these members.
struct FactReport {
    private let file: FileHandle

    /// Opens the report, or creates it.
    ///
    /// - Parameter bytes: the size that the report had when the position was stored.
    init(beside path: String, bytes: UInt64) throws {
        let report = FactFileImport.reportPath(beside: path)
        if !FileManager.default.fileExists(atPath: report) || bytes == 0 {
            do { try Data().write(to: URL(fileURLWithPath: report)) } catch { throw ImportError("\(report): cannot be written") }
        }
        guard let file = FileHandle(forUpdatingAtPath: report) else { throw ImportError("\(report): cannot be written") }
        self.file = file
        try file.truncate(atOffset: bytes)
        try file.seekToEnd()
    }

    /// Adds lines. Returns the size of the report in bytes.
    func append(_ lines: [(line: FactLine, refusal: RowRefusal)]) throws -> UInt64 {
        var text = Data()
        for (line, refusal) in lines {
            text += Self.line(line, refusal)
            text.append(UInt8(ascii: "\n"))
        }
        do { try file.write(contentsOf: text) } catch { throw ImportError("the report of refused lines cannot be written") }
        return try file.offset()
    }

    private static func line(_ line: FactLine, _ refusal: RowRefusal) -> [UInt8] {
        var json = JSONWriter(reserving: line.bytes.count + 256)
        let members: [JSONValue.Member]
        if let value = try? JSONReader.read(line.bytes), case .object(let found) = value {
            members = found
        } else {
            let beginning = String(decoding: line.bytes.prefix(256), as: UTF8.self)
            members = [JSONValue.Member(name: "line", value: .string(beginning))]
        }
        json.object { json in
            for member in members where !["row", "code", "reason"].contains(member.name) {
                json.key(text: member.name)
                json.value(member.value)
            }
            json.member("row", Int64(line.number))
            json.member("code", Int64(refusal.code))
            json.member("reason", refusal.reason)
        }
        return json.bytes
    }

    func close() throws { try file.close() }
}
