/// The byte that names a call about the caller's own lists.
private enum FriendCallTag: UInt8 {
    case requests = 1
    case deleteRequests = 2
    case readRequests = 3
    case modifyFriend = 4
    case createGroups = 5
    case deleteGroups = 6
    case renameGroup = 7
    case groups = 8
    case addToGroup = 9
    case removeFromGroup = 10
    case blocked = 11
    case profile = 12
    case modifyProfile = 13
    case importFriends = 14
}

extension FriendCall {
    func write(into wire: inout WireWriter) {
        switch self {
        case .profile: wire.tag(FriendCallTag.profile)
        case .modifyProfile(let changes):
            wire.tag(FriendCallTag.modifyProfile)
            wire.list(changes) { writer, change in
                writer.text(change.name)
                change.value.write(into: &writer)
            }
        case .blocked(let cursor, let limit):
            wire.tag(FriendCallTag.blocked)
            wire.optional(cursor) { $0.text($1) }
            wire.unsigned(UInt64(limit))
        case .requests(let query):
            wire.tag(FriendCallTag.requests)
            query.write(into: &wire)
        case .deleteRequests(let users, let kind):
            wire.tag(FriendCallTag.deleteRequests)
            wire.users(users)
            wire.tag(kind)
        case .readRequests(let time):
            wire.tag(FriendCallTag.readRequests)
            wire.signed(time)
        case .modifyFriend(let other, let change):
            wire.tag(FriendCallTag.modifyFriend)
            wire.user(other)
            change.write(into: &wire)
        case .createGroups(let names, let users):
            wire.tag(FriendCallTag.createGroups)
            wire.list(names) { $0.text($1) }
            wire.users(users)
        case .deleteGroups(let names):
            wire.tag(FriendCallTag.deleteGroups)
            wire.list(names) { $0.text($1) }
        case .renameGroup(let old, let new):
            wire.tag(FriendCallTag.renameGroup)
            for name in [old, new] { wire.text(name) }
        case .groups(let names):
            wire.tag(FriendCallTag.groups)
            wire.optional(names) { writer, names in writer.list(names) { $0.text($1) } }
        case .addToGroup(let name, let users):
            wire.tag(FriendCallTag.addToGroup)
            wire.text(name)
            wire.users(users)
        case .removeFromGroup(let name, let users):
            wire.tag(FriendCallTag.removeFromGroup)
            wire.text(name)
            wire.users(users)
        case .importFriends(let friends):
            wire.tag(FriendCallTag.importFriends)
            wire.list(friends) { $1.write(into: &$0) }
        }
    }
}

extension RequestQuery {
    fileprivate func write(into wire: inout WireWriter) {
        wire.optional(kind) { $0.tag($1) }
        wire.optional(since) { $0.text($1) }
        wire.signed(after)
        wire.unsigned(UInt64(limit))
    }
}

extension FriendChange {
    fileprivate func write(into wire: inout WireWriter) {
        wire.optional(remark) { $0.text($1) }
        wire.optional(groups) { writer, names in writer.list(names) { $0.text($1) } }
        wire.list(fields) { $1.write(into: &$0) }
    }
}

extension FriendImport {
    fileprivate func write(into wire: inout WireWriter) {
        wire.user(user)
        change.write(into: &wire)
        wire.text(addWording)
        wire.text(addSource)
        wire.optional(addTime) { $0.signed($1) }
    }
}

/// The byte that names the type of a field's value.
private enum FieldValueTag: UInt8 {
    case integer = 1
    case bytes = 2
}

extension CustomField {
    fileprivate func write(into wire: inout WireWriter) {
        wire.text(name)
        value.write(into: &wire)
    }
}

extension FieldValue {
    fileprivate func write(into wire: inout WireWriter) {
        switch self {
        case .integer(let number):
            wire.tag(FieldValueTag.integer)
            wire.signed(number)
        case .bytes(let bytes):
            wire.tag(FieldValueTag.bytes)
            wire.list(bytes) { $0.tag($1) }
        }
    }
}

extension FriendCallResult {
    func write(into wire: inout WireWriter) {
        wire.unsigned(UInt64(code.rawValue))
        wire.list(users) { $1.write(into: &$0) }
        wire.text(String(decoding: json, as: UTF8.self))
    }
}

extension FriendCall {
    init(from wire: inout WireReader) throws(DecodeError) {
        self =
            switch try wire.tag(as: FriendCallTag.self) {
            case .profile: .profile
            case .modifyProfile:
                .modifyProfile(
                    try wire.list(countMax: Profile.fieldsMax) { reader throws(DecodeError) in try Profile.Change(from: &reader) })
            case .blocked:
                .blocked(
                    after: try wire.optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) },
                    limit: try wire.pageLimit(FriendQuery.limitMax))
            case .requests: .requests(try RequestQuery(from: &wire))
            case .deleteRequests: .deleteRequests(try wire.users(), try wire.tag(as: FriendRequestKind.self))
            case .readRequests: .readRequests(upTo: try wire.time())
            case .modifyFriend: .modifyFriend(try wire.user(), try FriendChange(from: &wire))
            case .createGroups: .createGroups(try Self.groupNames(from: &wire), users: try wire.users())
            case .deleteGroups: .deleteGroups(try Self.groupNames(from: &wire))
            case .renameGroup: .renameGroup(try FriendGroup(from: &wire).name, to: try FriendGroup(from: &wire).name)
            case .groups: .groups(try wire.optional { reader throws(DecodeError) in try Self.groupNames(from: &reader) })
            case .addToGroup: .addToGroup(try FriendGroup(from: &wire).name, try wire.users())
            case .removeFromGroup: .removeFromGroup(try FriendGroup(from: &wire).name, try wire.users())
            case .importFriends:
                .importFriends(
                    try wire.list(countMax: Limits.chainBatchMax) { reader throws(DecodeError) in try FriendImport(from: &reader) })
            }
    }

    fileprivate static func groupNames(from wire: inout WireReader) throws(DecodeError) -> [String] {
        try wire.list(countMax: Limits.friendGroupsMax) { reader throws(DecodeError) in try FriendGroup(from: &reader).name }
    }
}

extension FriendGroup {
    /// Reads the name of a group.
    init(from wire: inout WireReader) throws(DecodeError) {
        self.init(name: try wire.text(bytesMax: Limits.friendGroupNameBytesMax))
        guard !name.isEmpty else { throw .badName }
    }
}

extension FriendChange {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self.init()
        remark = try wire.optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.remarkBytesMax) }
        groups = try wire.optional { reader throws(DecodeError) in try FriendCall.groupNames(from: &reader) }
        fields = try wire.list(countMax: Limits.customFieldsMax) { reader throws(DecodeError) in try CustomField(from: &reader) }
    }
}

extension FriendImport {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self.init(user: try wire.user())
        change = try FriendChange(from: &wire)
        addWording = try wire.text(bytesMax: Limits.wordingBytesMax)
        addSource = try wire.text(bytesMax: Limits.addSourceBytesMax)
        addTime = try wire.optional { reader throws(DecodeError) in try reader.time() }
    }
}

extension CustomField {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        let name = try wire.text(bytesMax: Limits.customNameBytesMax)
        guard Self.isValidName(name) else { throw .badName }
        self.init(name: name, value: try FieldValue(from: &wire))
    }
}

extension FieldValue {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self =
            switch try wire.tag(as: FieldValueTag.self) {
            case .integer: .integer(try wire.signed())
            case .bytes: .bytes(try wire.list(countMax: Limits.fieldBytesMax) { reader throws(DecodeError) in try reader.tag() })
            }
    }
}

extension Profile.Change {
    /// Reads a field that a profile can have, with a value that it can have.
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self.init(name: try wire.text(bytesMax: Limits.nameBytesMax), value: try FieldValue(from: &wire))
        guard Profile.problem(of: value, in: name) == nil else { throw .badName }
    }
}

extension RequestQuery {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        let kind = try wire.optional { reader throws(DecodeError) in try reader.tag(as: FriendRequestKind.self) }
        let since = try wire.optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
        let after = try wire.time()
        self.init(kind: kind, since: since, after: after, limit: try wire.pageLimit(Self.limitMax))
    }
}

extension WireReader {
    /// Reads the number of rows on a page: 1 to `limitMax`.
    fileprivate mutating func pageLimit(_ limitMax: Int) throws(DecodeError) -> Int {
        let limit = try unsigned()
        guard (1...UInt64(limitMax)).contains(limit) else { throw .outOfRange(Int64(clamping: limit)) }
        return Int(limit)
    }
}

extension FriendCallResult {
    init(from wire: inout WireReader) throws(DecodeError) {
        let code = ChainCode(rawValue: try wire.code())
        let users = try wire.list { reader throws(DecodeError) in try reader.chainOutcome() }
        self.init(code: code, users: users, json: Array(try wire.text(bytesMax: Limits.batchBytesMax).utf8))
    }
}
