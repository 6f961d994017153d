import PresenceWire

/// The columns of a file of friends, from its first record.
struct FriendColumns: Sendable {
    /// A column: a field of `importFriends`, or the name of a custom field.
    enum Column: Equatable, Sendable {
        case userID, friendID, remark, groups, addWording, addSource, addTime
        case custom(String, isInteger: Bool)
    }

    private static let names: [(name: String, column: Column)] = [
        ("userID", .userID), ("friendID", .friendID), ("remark", .remark), ("groups", .groups), ("addWording", .addWording),
        ("addSource", .addSource), ("addTime", .addTime),
    ]
    private static let integerSuffix = ":integer"

    let columns: [Column]

    /// Throws if a column is unknown, occurs twice, or is missing.
    init(_ header: [String]) throws {
        columns = try header.map { name in
            if let known = Self.names.first(where: { $0.name == name }) { return known.column }
            guard name.hasPrefix(Profile.customPrefix) else {
                let names = Self.names.map(\.name).joined(separator: ", ")
                throw ImportError(
                    "row 0: \"\(name)\" is no column; the columns are \(names), Custom_NAME, and Custom_NAME:integer for a number")
            }
            let isInteger = name.hasSuffix(Self.integerSuffix)
            let field = name.dropFirst(Profile.customPrefix.count).dropLast(isInteger ? Self.integerSuffix.count : 0)
            return .custom(String(field), isInteger: isInteger)
        }
        for (index, name) in header.enumerated() where header[..<index].contains(name) {
            throw ImportError("row 0: the column \"\(name)\" occurs twice")
        }
        for (name, column) in Self.names.prefix(2) where !columns.contains(column) {
            throw ImportError("row 0: the column \"\(name)\" is missing")
        }
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

    /// Reads the fields of a row. An empty field is absent.
    init(_ fields: [String], _ columns: FriendColumns) throws(RowRefusal) {
        guard fields.count == columns.columns.count else {
            throw RowRefusal(code: 0, reason: "has \(fields.count) fields; \(columns.columns.count) are right")
        }
        var (user, friend) = ("", "")
        for (field, column) in zip(fields, columns.columns) where !field.isEmpty {
            switch column {
            case .userID: user = field
            case .friendID: friend = field
            case .remark, .addWording, .addSource: texts.append(("\(column)", field))
            case .groups: groups = field.split(separator: ";").map(String.init)
            case .addTime: addTime = try Self.integer(field, "addTime")
            case .custom(let name, let isInteger):
                custom.append((name, isInteger ? .integer(try Self.integer(field, "Custom_\(name)")) : .text(field)))
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
