/// The byte that names a call about the caller's own lists.
private enum FriendCallTag: UInt8 {
    case requests = 1
    case deleteRequests = 2
    case readRequests = 3
}

extension FriendCall {
    func write(into wire: inout WireWriter) {
        switch self {
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

extension FriendCallResult {
    func write(into wire: inout WireWriter) {
        wire.unsigned(UInt64(code.rawValue))
        wire.list(users) { $1.write(into: &$0) }
        wire.text(String(decoding: json, as: UTF8.self))
    }
}

extension WireReader {
    mutating func friendCall() throws(DecodeError) -> FriendCall {
        switch try tag(as: FriendCallTag.self) {
        case .requests: .requests(try requestQuery())
        case .deleteRequests: .deleteRequests(try users(), try tag(as: FriendRequestKind.self))
        case .readRequests: .readRequests(upTo: try time())
        }
    }

    private mutating func requestQuery() throws(DecodeError) -> RequestQuery {
        let kind = try optional { reader throws(DecodeError) in try reader.tag(as: FriendRequestKind.self) }
        let since = try optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
        let after = try time()
        let limit = try unsigned()
        guard (1...UInt64(RequestQuery.limitMax)).contains(limit) else { throw .outOfRange(Int64(clamping: limit)) }
        return RequestQuery(kind: kind, since: since, after: after, limit: Int(limit))
    }

    mutating func friendCallResult() throws(DecodeError) -> FriendCallResult {
        let code = ChainCode(rawValue: try code())
        let users = try list { reader throws(DecodeError) in try reader.chainOutcome() }
        return FriendCallResult(code: code, users: users, json: Array(try text(bytesMax: Limits.batchBytesMax).utf8))
    }
}
