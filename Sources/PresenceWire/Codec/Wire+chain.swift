/// The byte that names a command of the relationship chain.
private enum ChainCommandTag: UInt8 {
    case add = 1
    case accept = 2
    case reject = 3
    case delete = 4
    case block = 5
}

/// The byte that names a call of the relationship chain.
private enum ChainCallTag: UInt8 {
    case add = 1
    case respond = 2
    case delete = 3
    case setBlocked = 4
    case deleteAll = 5
}

/// The byte that names whose lists a question is about.
private enum RelationCheckTag: UInt8 {
    case own = 1
    case others = 2
}

/// The byte that names the result of a command.
private enum ChainResultTag: UInt8 {
    case done = 1
    case pending = 2
    case refused = 3
    case friends = 4
}

extension ChainCall {
    func write(into wire: inout WireWriter) {
        switch self {
        case .add(let user, let request, let isTwoWay, let group):
            wire.tag(ChainCallTag.add)
            wire.user(user)
            request.write(isTwoWay: isTwoWay, into: &wire)
            wire.optional(group) { $0.text($1) }
        case .respond(let user, let command):
            wire.tag(ChainCallTag.respond)
            wire.user(user)
            command.write(into: &wire)
        case .delete(let users, let isTwoWay):
            wire.tag(ChainCallTag.delete)
            wire.users(users)
            wire.tag(isTwoWay ? 1 : 0)
        case .deleteAll(let isTwoWay):
            wire.tag(ChainCallTag.deleteAll)
            wire.tag(isTwoWay ? 1 : 0)
        case .setBlocked(let users, let isBlocked):
            wire.tag(ChainCallTag.setBlocked)
            wire.users(users)
            wire.tag(isBlocked ? 1 : 0)
        }
    }
}

extension ChainCommand {
    fileprivate func write(into wire: inout WireWriter) {
        switch self {
        case .add(let request, let isTwoWay):
            wire.tag(ChainCommandTag.add)
            request.write(isTwoWay: isTwoWay, into: &wire)
        case .accept(let remark, let isTwoWay):
            wire.tag(ChainCommandTag.accept)
            wire.text(remark)
            wire.tag(isTwoWay ? 1 : 0)
        case .reject: wire.tag(ChainCommandTag.reject)
        case .delete: wire.tag(ChainCommandTag.delete)
        case .block: wire.tag(ChainCommandTag.block)
        }
    }
}

extension SentRequest {
    /// Writes the addition of a friend.
    fileprivate func write(isTwoWay: Bool, into wire: inout WireWriter) {
        wire.text(remark)
        wire.optional(groupID) { $0.unsigned(UInt64($1)) }
        wire.text(addWording)
        wire.text(addSource)
        wire.text(nickname)
        wire.signed(addTime)
        wire.tag((isTwoWay ? 1 : 0) | (isForced ? 2 : 0))
    }
}

extension ChainApply {
    func write(into wire: inout WireWriter) {
        pair.write(into: &wire)
        command.command.write(into: &wire)
        wire.version(command.version)
        wire.signed(command.begunAt)
    }
}

extension ChainApplied {
    func write(into wire: inout WireWriter) {
        pair.write(into: &wire)
        wire.version(version)
        switch result {
        case .done: wire.tag(ChainResultTag.done)
        case .friends: wire.tag(ChainResultTag.friends)
        case .pending(let nickname):
            wire.tag(ChainResultTag.pending)
            wire.text(nickname)
        case .refused(let code):
            wire.tag(ChainResultTag.refused)
            wire.unsigned(UInt64(code.rawValue))
        }
        wire.version(clock)
    }
}

extension ChainVerify {
    func write(into wire: inout WireWriter) {
        pair.write(into: &wire)
        wire.version(version)
        wire.tag(verdict)
    }
}

extension ChainPair {
    fileprivate func write(into wire: inout WireWriter) {
        wire.user(user)
        wire.user(other)
    }
}

extension ChainOutcome {
    func write(into wire: inout WireWriter) {
        wire.user(user)
        wire.unsigned(UInt64(code.rawValue))
    }
}

extension RelationCheck {
    func write(into wire: inout WireWriter) {
        wire.tag(list)
        switch side {
        case .own(let users):
            wire.tag(RelationCheckTag.own)
            wire.users(users)
        case .others(let users, let other):
            wire.tag(RelationCheckTag.others)
            wire.users(users)
            wire.user(other)
        }
    }
}

extension FriendQuery {
    func write(into wire: inout WireWriter) {
        wire.optional(since) { $0.text($1) }
        wire.optional(cursor) { writer, cursor in
            writer.version(cursor.version)
            writer.text(cursor.key)
        }
        wire.unsigned(UInt64(limit))
        wire.tag(withProfile ? 1 : 0)
    }
}

extension WireReader {
    mutating func chainCall() throws(DecodeError) -> ChainCall {
        switch try tag(as: ChainCallTag.self) {
        case .add:
            let other = try user()
            let (request, isTwoWay) = try addition()
            let group = try optional { reader throws(DecodeError) in try FriendGroup(from: &reader).name }
            return .add(other, request, isTwoWay: isTwoWay, group: group)
        case .respond: return .respond(try user(), try chainCommand())
        case .delete: return .delete(try users(), isTwoWay: try flag())
        case .deleteAll: return .deleteAll(isTwoWay: try flag())
        case .setBlocked: return .setBlocked(try users(), try flag())
        }
    }

    mutating func chainCommand() throws(DecodeError) -> ChainCommand {
        switch try tag(as: ChainCommandTag.self) {
        case .add:
            let (request, isTwoWay) = try addition()
            return .add(request, isTwoWay: isTwoWay)
        case .accept: return .accept(remark: try text(bytesMax: Limits.remarkBytesMax), isTwoWay: try flag())
        case .reject: return .reject
        case .delete: return .delete
        case .block: return .block
        }
    }

    /// Reads the addition of a friend.
    private mutating func addition() throws(DecodeError) -> (request: SentRequest, isTwoWay: Bool) {
        var request = SentRequest(addTime: 0)
        request.remark = try text(bytesMax: Limits.remarkBytesMax)
        request.groupID = try optional { reader throws(DecodeError) in try reader.code() }
        request.addWording = try text(bytesMax: Limits.wordingBytesMax)
        request.addSource = try text(bytesMax: Limits.addSourceBytesMax)
        request.nickname = try text(bytesMax: Limits.fieldBytesMax)
        request.addTime = try time()
        let flags = try tag()
        guard flags < 4 else { throw .unknownTag(flags) }
        request.isForced = flags & 2 != 0
        return (request, flags & 1 != 0)
    }

    mutating func friendQuery() throws(DecodeError) -> FriendQuery {
        let since = try optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
        let cursor = try optional { reader throws(DecodeError) in
            FriendQuery.Cursor(version: try reader.version(), key: try reader.text(bytesMax: Limits.nameBytesMax))
        }
        let limit = try unsigned()
        guard (1...UInt64(FriendQuery.limitMax)).contains(limit) else { throw .outOfRange(Int64(clamping: limit)) }
        return FriendQuery(since: since, cursor: cursor, limit: Int(limit), withProfile: try flag())
    }

    mutating func relationCheck() throws(DecodeError) -> RelationCheck {
        let list = try tag(as: RelationCheck.List.self)
        return switch try tag(as: RelationCheckTag.self) {
        case .own: RelationCheck(.own(try users()), in: list)
        case .others: RelationCheck(.others(try users(), other: try user()), in: list)
        }
    }

    mutating func chainOutcome() throws(DecodeError) -> ChainOutcome {
        ChainOutcome(user: try user(), code: ChainCode(rawValue: try code()))
    }

    mutating func code() throws(DecodeError) -> UInt32 {
        let value = try unsigned()
        guard let code = UInt32(exactly: value) else { throw .tooLong(count: Int(clamping: value), limit: Int(UInt32.max)) }
        return code
    }
}

extension ChainApply {
    init(from wire: inout WireReader) throws(DecodeError) {
        let pair = try ChainPair(from: &wire)
        let command = try wire.chainCommand()
        self.init(pair: pair, command: OutboxCommand(command, version: try wire.version(), begunAt: try wire.time()))
    }
}

extension ChainApplied {
    init(from wire: inout WireReader) throws(DecodeError) {
        let pair = try ChainPair(from: &wire)
        let version = try wire.version()
        let result: ChainResult =
            switch try wire.tag(as: ChainResultTag.self) {
            case .done: .done
            case .friends: .friends
            case .pending: .pending(nickname: try wire.text(bytesMax: Limits.fieldBytesMax))
            case .refused: .refused(ChainCode(rawValue: try wire.code()))
            }
        self.init(pair: pair, version: version, result: result, clock: try wire.version())
    }
}

extension ChainVerify {
    init(from wire: inout WireReader) throws(DecodeError) {
        self.init(pair: try ChainPair(from: &wire), version: try wire.version(), verdict: try wire.tag(as: Verdict.self))
    }
}

extension ChainPair {
    /// Reads two users of one app.
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self.init(user: try wire.user(), other: try wire.user())
        guard user.app == other.app, user != other else { throw .badName }
    }
}
