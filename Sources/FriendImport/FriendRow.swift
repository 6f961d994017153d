import PresenceWire

/// The columns of a file of friends, from its first record.
struct FriendColumns: Sendable {
    /// A column: a field of `importFriends`, or the name of a custom field.
    enum Column: Equatable, Sendable {
        case userID, friendID, remark, groups, addWording, addSource, addTime
        /// A column that a report has added.
        case report
        case custom(String, isInteger: Bool)
    }

    private static let names: [(name: String, column: Column)] = [
        ("userID", .userID), ("friendID", .friendID), ("remark", .remark), ("groups", .groups), ("addWording", .addWording),
        ("addSource", .addSource), ("addTime", .addTime),
    ]
    private static let integerSuffix = ":integer"
    /// The columns that a report adds behind those of its file. An import ignores them.
    static let reportNames = ["row", "code", "reason"]

    let columns: [Column]
    let names: [String]
    /// Whether the file is the report of an earlier import.
    var isReport: Bool { columns.contains(.report) }

    /// Throws if a column is unknown, occurs twice, or is missing.
    init(_ header: [String]) throws {
        let names = Self.withoutSurplus(header, columnsCount: 0).map { String(Self.withoutBlanks($0)) }
        if names.count == 1, let other = Self.otherDelimiter(in: names[0]) {
            throw ImportError("row 0: the delimiter is a \(other); a comma is right. Export the file with commas, in UTF-8")
        }
        self.names = names
        columns = try names.map(Self.column)
        for (index, name) in names.enumerated() where names[..<index].contains(name) {
            throw ImportError("row 0: the column \"\(name)\" occurs twice")
        }
        for (name, column) in Self.names.prefix(2) where !columns.contains(column) {
            throw ImportError("row 0: the column \"\(name)\" is missing")
        }
    }

    private static func column(_ name: String) throws -> Column {
        if let known = names.first(where: { $0.name == name }) { return known.column }
        if reportNames.contains(name) { return .report }
        guard name.hasPrefix(Profile.customPrefix) else {
            let names = names.map(\.name).joined(separator: ", ")
            throw ImportError(
                "row 0: \"\(name)\" is no column; the columns are \(names), Custom_NAME, and Custom_NAME:integer for a number")
        }
        let isInteger = name.hasSuffix(integerSuffix)
        let field = name.dropFirst(Profile.customPrefix.count).dropLast(isInteger ? integerSuffix.count : 0)
        return .custom(String(field), isInteger: isInteger)
    }

    private static func otherDelimiter(in header: String) -> String? {
        [(";", "semicolon"), ("\t", "tab"), ("|", "vertical bar")].first { header.contains($0.0) }?.1
    }

    // MARK: Fields of a row

    /// Removes empty fields behind the last column, as spreadsheets write them.
    static func withoutSurplus(_ fields: [String], columnsCount: Int) -> [String] {
        let used = fields.lastIndex { !$0.isEmpty }.map { $0 + 1 } ?? 0
        return Array(fields.prefix(max(used, columnsCount)))
    }

    /// Removes the blanks around a name. A blank in quotes is removed as well, because programs quote every field.
    static func withoutBlanks(_ name: String) -> Substring {
        let isBlank = { (character: Character) in character.isWhitespace && !character.isNewline }
        var rest = name.drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return rest
    }

    /// The fields of a row for a report: one for each column that is not of a report.
    ///
    /// A missing field is empty. Surplus fields, which an unquoted comma has made, belong to the last column.
    func kept(_ fields: [String]) -> [String] {
        let last = columns.lastIndex { $0 != .report } ?? 0
        var fitting = Self.withoutSurplus(fields, columnsCount: columns.count)
        let surplus = max(fitting.count - columns.count, 0)
        if surplus > 0 { fitting.replaceSubrange(last...last + surplus, with: [fitting[last...last + surplus].joined(separator: ",")]) }
        fitting += Array(repeating: "", count: columns.count - fitting.count)
        return zip(fitting, columns).filter { $1 != .report }.map(\.0)
    }
}

/// A row of the file: a friend of a user.
struct FriendRow: Equatable, Sendable {
    let user: String
    let friend: String
    /// The names of groups. In the file semicolons stand between them.
    private(set) var groups: [String] = []
    private var texts: [(name: String, value: String)] = []
    private var addTime: Int64?
    private var custom: [(name: String, value: CustomValue)] = []

    private enum CustomValue {
        case integer(Int64)
        case text(String)
    }

    static func == (left: FriendRow, right: FriendRow) -> Bool { (left.user, left.json) == (right.user, right.json) }

    /// Reads the fields of a row. An empty field is absent. Blanks around an ID do not belong to it.
    init(_ record: CSVRecords.Record, _ columns: FriendColumns) throws(RowRefusal) {
        if let fault = record.fault { throw RowRefusal(code: 0, reason: fault) }
        let fields = FriendColumns.withoutSurplus(record.fields, columnsCount: columns.columns.count)
        guard fields.count == columns.columns.count else {
            throw RowRefusal(code: 0, reason: "has \(fields.count) fields; \(columns.columns.count) are right")
        }
        var (user, friend) = ("", "")
        for (index, (field, column)) in zip(fields, columns.columns).enumerated() where !field.isEmpty {
            if columns.isReport, column != .report, field.contains("\u{FFFD}") {
                throw RowRefusal(
                    code: 0, reason: "\(columns.names[index]): U+FFFD stands for bytes that were not UTF-8; write the right text")
            }
            switch column {
            case .userID: user = String(FriendColumns.withoutBlanks(field))
            case .friendID: friend = String(FriendColumns.withoutBlanks(field))
            case .remark, .addWording, .addSource: texts.append(("\(column)", field))
            case .groups: groups = field.split(separator: ";").map(String.init)
            case .addTime: addTime = try Self.integer(field, "addTime")
            case .custom(let name, let isInteger):
                custom.append((name, isInteger ? .integer(try Self.integer(field, "Custom_\(name)")) : .text(field)))
            case .report: break
            }
        }
        for (name, value) in [("userID", user), ("friendID", friend)] where !Limits.isValidName(value) {
            throw RowRefusal(code: 7003, reason: "\(name): a user ID is 1 to 64 bytes of UTF-8 without control characters")
        }
        (self.user, self.friend) = (user, friend)
    }

    private static func integer(_ field: String, _ name: String) throws(RowRefusal) -> Int64 {
        guard let number = Int64(field) else { throw RowRefusal(code: 6017, reason: "\(name): \"\(field)\" is not a whole number") }
        return number
    }

    /// The friend as `importFriends` takes it.
    var json: [UInt8] {
        var json = JSONWriter(reserving: 128)
        write(into: &json)
        return json.bytes
    }

    func write(into json: inout JSONWriter) {
        json.object { json in
            json.member("userID", friend)
            for (name, value) in texts {
                json.key(text: name)
                json.string(value)
            }
            if !groups.isEmpty {
                json.key("groups")
                json.array { json in for group in groups { json.string(group) } }
            }
            if let addTime { json.member("addTime", addTime) }
            guard !custom.isEmpty else { return }
            json.key("custom")
            json.object { json in
                for (name, value) in custom {
                    json.key(text: name)
                    switch value {
                    case .integer(let number): json.integer(number)
                    case .text(let text): json.string(text)
                    }
                }
            }
        }
    }
}

/// The reason why a row was not imported.
struct RowRefusal: Error, Equatable, Sendable {
    /// A code of the HTTP API; 0 for a row that was not sent.
    let code: Int
    let reason: String
}
