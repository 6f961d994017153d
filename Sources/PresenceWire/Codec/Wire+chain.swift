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
}

/// The byte that names the result of a command.
private enum ChainResultTag: UInt8 {
    case done = 1
    case pending = 2
    case refused = 3
}

extension WireWriter {
    mutating func chainCall(_ call: ChainCall) {
        switch call {
        case .add(let user, let request, let isTwoWay):
            tag(ChainCallTag.add)
            self.user(user)
            sentRequest(request)
            tag(isTwoWay ? 1 : 0)
        case .respond(let user, let command):
            tag(ChainCallTag.respond)
            self.user(user)
            chainCommand(command)
        case .delete(let users, let isTwoWay):
            tag(ChainCallTag.delete)
            self.users(users)
            tag(isTwoWay ? 1 : 0)
        }
    }

    mutating func chainCommand(_ command: ChainCommand) {
        switch command {
        case .add(let request, let isTwoWay):
            tag(ChainCommandTag.add)
            sentRequest(request)
            tag(isTwoWay ? 1 : 0)
        case .accept(let remark, let isTwoWay):
            tag(ChainCommandTag.accept)
            text(remark)
            tag(isTwoWay ? 1 : 0)
        case .reject: tag(ChainCommandTag.reject)
        case .delete: tag(ChainCommandTag.delete)
        case .block: tag(ChainCommandTag.block)
        }
    }

    private mutating func sentRequest(_ request: SentRequest) {
        text(request.remark)
        optional(request.groupID) { $0.unsigned(UInt64($1)) }
        text(request.addWording)
        text(request.addSource)
        signed(request.addTime)
    }

    mutating func chainApply(_ apply: ChainApply) {
        chainPair(apply.pair)
        chainCommand(apply.command.command)
        version(apply.command.version)
        signed(apply.command.begunAt)
    }

    mutating func chainApplied(_ applied: ChainApplied) {
        chainPair(applied.pair)
        version(applied.version)
        switch applied.result {
        case .done: tag(ChainResultTag.done)
        case .pending: tag(ChainResultTag.pending)
        case .refused(let code):
            tag(ChainResultTag.refused)
            unsigned(UInt64(code.rawValue))
        }
        version(applied.clock)
    }

    private mutating func chainPair(_ pair: ChainPair) {
        user(pair.user)
        user(pair.other)
    }

    mutating func friendQuery(_ query: FriendQuery) {
        optional(query.since) { $0.text($1) }
        optional(query.cursor) { $0.text($1) }
        unsigned(UInt64(query.limit))
    }

    mutating func chainOutcome(_ outcome: ChainOutcome) {
        user(outcome.user)
        unsigned(UInt64(outcome.code.rawValue))
    }
}

extension WireReader {
    mutating func chainCall() throws(DecodeError) -> ChainCall {
        switch try tag(as: ChainCallTag.self) {
        case .add: .add(try user(), try sentRequest(), isTwoWay: try flag())
        case .respond: .respond(try user(), try chainCommand())
        case .delete: .delete(try users(), isTwoWay: try flag())
        }
    }

    mutating func chainCommand() throws(DecodeError) -> ChainCommand {
        switch try tag(as: ChainCommandTag.self) {
        case .add: .add(try sentRequest(), isTwoWay: try flag())
        case .accept: .accept(remark: try text(bytesMax: Limits.remarkBytesMax), isTwoWay: try flag())
        case .reject: .reject
        case .delete: .delete
        case .block: .block
        }
    }

    private mutating func sentRequest() throws(DecodeError) -> SentRequest {
        var request = SentRequest(addTime: 0)
        request.remark = try text(bytesMax: Limits.remarkBytesMax)
        request.groupID = try optional { reader throws(DecodeError) in try reader.code() }
        request.addWording = try text(bytesMax: Limits.wordingBytesMax)
        request.addSource = try text(bytesMax: Limits.addSourceBytesMax)
        request.addTime = try time()
        return request
    }

    mutating func chainApply() throws(DecodeError) -> ChainApply {
        let pair = try chainPair()
        let command = try chainCommand()
        return ChainApply(pair: pair, command: OutboxCommand(command, version: try version(), begunAt: try time()))
    }

    mutating func chainApplied() throws(DecodeError) -> ChainApplied {
        let pair = try chainPair()
        let version = try version()
        let result: ChainResult =
            switch try tag(as: ChainResultTag.self) {
            case .done: .done
            case .pending: .pending
            case .refused: .refused(ChainCode(rawValue: try code()))
            }
        return ChainApplied(pair: pair, version: version, result: result, clock: try self.version())
    }

    /// Reads two users of one app.
    private mutating func chainPair() throws(DecodeError) -> ChainPair {
        let pair = ChainPair(user: try user(), other: try user())
        guard pair.user.app == pair.other.app, pair.user != pair.other else { throw .badName }
        return pair
    }

    mutating func friendQuery() throws(DecodeError) -> FriendQuery {
        let since = try optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
        let cursor = try optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
        let limit = try unsigned()
        guard (1...UInt64(FriendQuery.limitMax)).contains(limit) else { throw .outOfRange(Int64(clamping: limit)) }
        return FriendQuery(since: since, cursor: cursor, limit: Int(limit))
    }

    mutating func chainOutcome() throws(DecodeError) -> ChainOutcome {
        ChainOutcome(user: try user(), code: ChainCode(rawValue: try code()))
    }

    private mutating func code() throws(DecodeError) -> UInt32 {
        let value = try unsigned()
        guard let code = UInt32(exactly: value) else { throw .tooLong(count: Int(clamping: value), limit: Int(UInt32.max)) }
        return code
    }
}
