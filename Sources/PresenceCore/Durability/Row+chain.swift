import PresenceWire

extension Friend: RowFact {
    static var kind: Row.Kind { .friend }

    init(_ fields: RowFields) throws(RowError) {
        self.init(addTime: try fields.time("addTime"))
        remark = try fields.text("remark", bytesMax: Limits.remarkBytesMax)
        groupIDs = try fields.groupIDs("groupIDs")
        addWording = try fields.text("addWording", bytesMax: Limits.wordingBytesMax)
        addSource = try fields.text("addSource", bytesMax: Limits.addSourceBytesMax)
        customFields = try fields.customFields("custom")
    }

    func write(to json: inout JSONWriter) {
        json.memberIfAny("remark", remark)
        if !groupIDs.isEmpty {
            json.array("groupIDs", groupIDs) { $0.integer(Int64($1)) }
        }
        json.memberIfAny("addWording", addWording)
        json.memberIfAny("addSource", addSource)
        json.member("addTime", addTime)
        guard !customFields.isEmpty else { return }
        json.key("custom")
        json.object { json in
            for field in customFields {
                json.key(text: field.name)
                json.value(field.value, isCompact: true)
            }
        }
    }
}

extension SentRequest: RowFact {
    static var kind: Row.Kind { .pendencyOut }

    init(_ fields: RowFields) throws(RowError) {
        self.init(addTime: try fields.time("addTime"))
        remark = try fields.text("remark", bytesMax: Limits.remarkBytesMax)
        groupID = try fields.number("groupID", in: 0...Int64(FriendGroupID.max)).map { FriendGroupID($0) }
        addWording = try fields.text("addWording", bytesMax: Limits.wordingBytesMax)
        addSource = try fields.text("addSource", bytesMax: Limits.addSourceBytesMax)
        isForced = try fields.bool("isForced")
        nickname = try fields.text("nickname", bytesMax: Limits.fieldBytesMax)
    }

    func write(to json: inout JSONWriter) {
        if isForced { json.member("isForced", true) }
        json.memberIfAny("remark", remark)
        if let groupID { json.member("groupID", Int64(groupID)) }
        json.memberIfAny("addWording", addWording)
        json.memberIfAny("addSource", addSource)
        json.memberIfAny("nickname", nickname)
        json.member("addTime", addTime)
    }
}

extension ReceivedRequest: RowFact {
    static var kind: Row.Kind { .pendencyIn }

    init(_ fields: RowFields) throws(RowError) {
        self.init(addTime: try fields.time("addTime"))
        addWording = try fields.text("addWording", bytesMax: Limits.wordingBytesMax)
        addSource = try fields.text("addSource", bytesMax: Limits.addSourceBytesMax)
        nickname = try fields.text("nickname", bytesMax: Limits.fieldBytesMax)
    }

    func write(to json: inout JSONWriter) {
        json.memberIfAny("addWording", addWording)
        json.memberIfAny("addSource", addSource)
        json.memberIfAny("nickname", nickname)
        json.member("addTime", addTime)
    }
}

extension BlockedUser: RowFact {
    static var kind: Row.Kind { .blocked }

    init(_ fields: RowFields) throws(RowError) { self.init(since: try fields.time("since")) }

    func write(to json: inout JSONWriter) { json.member("since", since) }
}

extension FriendGroup: RowFact {
    static var kind: Row.Kind { .friendGroup }

    init(_ fields: RowFields) throws(RowError) {
        self.init(name: try fields.text("name", bytesMax: Limits.friendGroupNameBytesMax))
        if name.isEmpty { throw fields.error("name", "is missing or empty") }
    }

    func write(to json: inout JSONWriter) { json.member("name", name) }
}

extension ReadRequests: RowFact {
    static var kind: Row.Kind { .pendencyRead }

    init(_ fields: RowFields) throws(RowError) { self.init(timestamp: try fields.time("timestamp")) }

    func write(to json: inout JSONWriter) { json.member("timestamp", timestamp) }
}

extension ProfileSubscription: RowFact {
    static var kind: Row.Kind { .profileSubscription }

    init(_ fields: RowFields) throws(RowError) {
        let type = try fields.number("subscribeType", in: Int64(Self.profile)...Int64(Self.friendProfile))
        guard let type, type != 3 else { throw fields.error("subscribeType", "is not 2 or 4") }
        self.init(subscribeType: UInt8(type), subscribedAt: try fields.time("subscribedAt"))
    }

    func write(to json: inout JSONWriter) {
        json.member("subscribeType", Int64(subscribeType))
        json.member("subscribedAt", subscribedAt)
    }
}

extension OutboxCommand: RowFact {
    static var kind: Row.Kind { .chainOutbox }

    init(_ fields: RowFields) throws(RowError) {
        self.init(
            try ChainCommand(fields), version: try fields.version("version"), begunAt: try fields.time("begunAt"))
    }

    func write(to json: inout JSONWriter) {
        command.write(to: &json)
        json.member("version", version)
        json.member("begunAt", begunAt)
    }
}

extension ChainCommand {
    fileprivate init(_ fields: RowFields) throws(RowError) {
        let name = try fields.text("command", bytesMax: Limits.nameBytesMax)
        switch name {
        case "add": self = .add(try SentRequest(fields), isTwoWay: try fields.bool("isTwoWay"))
        case "accept":
            let remark = try fields.text("remark", bytesMax: Limits.remarkBytesMax)
            self = .accept(remark: remark, isTwoWay: try fields.bool("isTwoWay"))
        case "reject": self = .reject
        case "delete": self = .delete
        case "block": self = .block
        default: throw fields.error("command", "is \"\(name)\", not add, accept, reject, delete or block")
        }
    }

    fileprivate func write(to json: inout JSONWriter) {
        switch self {
        case .add(let request, let isTwoWay):
            json.member("command", "add")
            json.member("isTwoWay", isTwoWay)
            request.write(to: &json)
        case .accept(let remark, let isTwoWay):
            json.member("command", "accept")
            json.member("isTwoWay", isTwoWay)
            json.memberIfAny("remark", remark)
        case .reject: json.member("command", "reject")
        case .delete: json.member("command", "delete")
        case .block: json.member("command", "block")
        }
    }
}

extension Profile: RowFact {
    static var kind: Row.Kind { .profile }

    /// Reads each field as an array of its value and its version.
    init(_ fields: RowFields) throws(RowError) {
        self.init()
        guard fields.members.count <= Self.fieldsMax else {
            throw RowError(fields.row, "the profile has \(fields.members.count) fields")
        }
        for member in fields.members {
            guard case .array(let parts) = member.value, parts.count == 2, let value = FieldValue(parts[0]),
                let version = parts[1].text.flatMap({ Version(text: $0) })
            else { throw fields.error(member.name, "is not a value and its version") }
            if let problem = Self.problem(of: value, in: member.name) { throw fields.error(member.name, problem) }
            guard version <= fields.row.version else { throw fields.error(member.name, "is newer than the row: \(version.text)") }
            set(member.name, to: value, at: version)
        }
    }

    func write(to json: inout JSONWriter) {
        for field in fields {
            json.key(text: field.name)
            json.array { json in
                json.value(field.value, isCompact: true)
                json.string(field.version.text)
            }
        }
    }
}

extension Row {
    /// The key of a tombstone that marks a list: an older row was written since. A client that holds an earlier sequence would miss that
    /// row among the changes, and reads the whole list.
    static let lateMark = ""

    /// The expiry of a tombstone that has removed nothing.
    ///
    /// It keeps a late addition away. Clients are told nothing of it: otherwise a user would learn of a block, or of a friend in the list
    /// of another user alone.
    static let removedNothing: Milliseconds = 0

    /// Whether the row is a tombstone that has removed nothing.
    var isUnseen: Bool { value == nil && expiresAt == Self.removedNothing && kind.hasSequence }
}
