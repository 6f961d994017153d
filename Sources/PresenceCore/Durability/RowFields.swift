import PresenceWire

/// A fact that is stored as one row of a list of its user.
protocol RowFact: Equatable {
    static var kind: Row.Kind { get }

    /// Reads the fact from a row's value. Throws the error in it.
    init(_ fields: RowFields) throws(RowError)

    /// Writes the members of the row's value.
    func write(to json: inout JSONWriter)
}

extension RowFact {
    /// Reads a row. Throws the error in it, with the name of the wrong field.
    init(_ row: Row) throws(RowError) {
        guard row.kind == Self.kind else { throw RowError(row, "is not of kind \(Self.kind)") }
        self = try Self(RowFields(row))
    }
}

extension Row {
    /// The durable form of a fact of `user`.
    init(_ fact: some RowFact, of user: UserID, key: String, version: Version, expiresAt: Milliseconds? = nil) {
        var json = JSONWriter(reserving: 160)
        json.object { fact.write(to: &$0) }
        self.init(user: user, kind: type(of: fact).kind, key: key, version: version, value: json.bytes, expiresAt: expiresAt)
    }

    /// Checks that the row can be stored in a list of its user. Throws the error in it: the key, the expiry or a field of the value.
    func checkListed() throws(RowError) {
        try checkKeyAndExpiry()
        guard value != nil else { return }
        switch kind {
        case .profile: _ = try Profile(self)
        case .friend: _ = try Friend(self)
        case .pendencyOut: _ = try SentRequest(self)
        case .pendencyIn: _ = try ReceivedRequest(self)
        case .blocked: _ = try BlockedUser(self)
        case .friendGroup: _ = try FriendGroup(self)
        case .pendencyRead: _ = try ReadRequests(self)
        case .chainOutbox: _ = try OutboxCommand(self)
        case .profileSubscription: _ = try ProfileSubscription(self)
        case .webhookLog: _ = try WebhookLog(self)
        case .answeredCall: _ = try AnsweredCall(self)
        case .deletion: _ = try Deletion(self)
        case .status, .subscription, .visibility, .member, .clock, .policy, .kick: throw RowError(self, "is not a row of a list")
        }
    }

    /// The log of a row of kind ``PresenceWire/Row/Kind/webhookLog``; checks it as ``checkListed()`` does.
    func webhookLog() throws(RowError) -> WebhookLog {
        try checkKeyAndExpiry()
        return try WebhookLog(self)
    }

    private func checkKeyAndExpiry() throws(RowError) {
        if let expiresAt, !isUnseen {
            guard kind == .profileSubscription, Limits.times.contains(expiresAt) else { throw RowError(self, "expires at \(expiresAt)") }
        }
        if key == Row.lateMark, value == nil, kind.hasSequence { return }
        guard case .list(let content, _) = kind.place else { throw RowError(self, "is not a row of a list") }
        switch content {
        case .none: if !key.isEmpty { throw RowError(self, "the key is not empty") }
        case .call: if !CallKey.isValid(key.utf8) { throw RowError(self, "the key is not that of a call") }
        case .group: if FriendGroupID(key).map(String.init) != key { throw RowError(self, "the key is not a number") }
        case .user: if !Limits.isValidName(key) { throw RowError(self, "the key is not a user's ID") }
        }
    }
}

/// The members of a row's value, read by name. Each error names the row and the member.
///
/// A member that is missing is read as empty, unless it says otherwise. Members of other names are ignored, because a later version may
/// write them.
struct RowFields {
    let row: Row
    let members: [JSONValue.Member]

    init(_ row: Row) throws(RowError) {
        guard case .object(let members) = try JSONValue(row) else { throw RowError(row, "the value is not an object") }
        (self.row, self.members) = (row, members)
    }

    private func value(_ name: String) -> JSONValue? { members.first { $0.name == name }?.value }

    /// The error in a member.
    func error(_ name: String, _ problem: String) -> RowError { RowError(row, "\(name) \(problem)") }

    /// A text of at most `bytesMax` bytes; empty if it is missing.
    func text(_ name: String, bytesMax: Int) throws(RowError) -> String {
        guard let value = value(name) else { return "" }
        guard let text = value.text else { throw error(name, "is not a text") }
        guard text.utf8.count <= bytesMax else {
            throw error(name, "has \(text.utf8.count) bytes, at most \(bytesMax) are allowed")
        }
        return text
    }

    /// A whole number of a range; nil if it is missing.
    func number(_ name: String, in range: ClosedRange<Int64>) throws(RowError) -> Int64? {
        guard let value = value(name) else { return nil }
        guard let number = value.wholeNumber, range.contains(number) else {
            throw error(name, "is not a whole number of \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A time, which must be there.
    func time(_ name: String) throws(RowError) -> Milliseconds {
        guard let time = try number(name, in: Limits.times) else { throw error(name, "is missing") }
        return time
    }

    /// A truth value; false if it is missing.
    func bool(_ name: String) throws(RowError) -> Bool {
        switch value(name) {
        case nil: return false
        case .bool(let isSo): return isSo
        case .some: throw error(name, "is not true or false")
        }
    }

    /// A version, which must be there.
    func version(_ name: String) throws(RowError) -> Version {
        guard let value = value(name) else { throw error(name, "is missing") }
        guard let version = value.text.flatMap({ Version(text: $0) }) else { throw error(name, "is not a version") }
        return version
    }

    /// Sorted numbers of friend groups; none if they are missing.
    func groupIDs(_ name: String) throws(RowError) -> [FriendGroupID] {
        guard let value = value(name) else { return [] }
        guard case .array(let elements) = value else { throw error(name, "is not an array") }
        let groups = elements.compactMap { $0.wholeNumber.flatMap { FriendGroupID(exactly: $0) } }
        guard groups.count == elements.count, zip(groups, groups.dropFirst()).allSatisfy({ $0 < $1 }) else {
            throw error(name, "is not a sorted array of the numbers of groups")
        }
        guard groups.count <= Limits.friendGroupsMax else {
            throw error(name, "has \(groups.count) groups, at most \(Limits.friendGroupsMax) are allowed")
        }
        return groups
    }

    /// Custom fields, sorted by name; none if they are missing.
    func customFields(_ name: String) throws(RowError) -> [CustomField] {
        guard let value = value(name) else { return [] }
        guard case .object(let members) = value else { throw error(name, "is not an object") }
        guard members.count <= Limits.customFieldsMax else {
            throw error(name, "has \(members.count) fields, at most \(Limits.customFieldsMax) are allowed")
        }
        var fields: [CustomField] = []
        for member in members {
            guard CustomField.isValidName(member.name) else { throw error("\(name).\(member.name)", "is not a name of a custom field") }
            guard let value = FieldValue(member.value) else { throw error("\(name).\(member.name)", "is neither a number nor bytes") }
            if let problem = value.tooLong { throw error("\(name).\(member.name)", problem) }
            fields.append(CustomField(name: member.name, value: value))
        }
        return fields.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }
}

extension JSONWriter {
    /// Writes a member with a text, unless it is empty.
    mutating func memberIfAny(_ name: StaticString, _ text: String) {
        if !text.isEmpty { member(name, text) }
    }
}
