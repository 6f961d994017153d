import PresenceWire

/// `getPendencyList`: returns the caller's friend requests by pages (P21–P26).
enum GetPendencyList: ChainOperation {
    typealias Answer = FriendCallResult
    static let description = OpenAPI.Operation(
        name: "getPendencyList", summary: "Returns the caller's friend requests by pages, in the order of their last change.",
        request: Schema.object([
            Schema.optional("seq", Schema.text(bytesMax: Limits.nameBytesMax, "The sequence of the requests that the client holds.")),
            Schema.optional("timestamp", Schema.integer(0...Limits.times.upperBound, "From the page before; 0 for the first page.")),
            Schema.optional("numPerPage", Schema.integer(1...Int64(RequestQuery.limitMax), "Most requests of a page; default 100.")),
            Schema.required("type", Schema.integer(1...bothKinds, "1: received requests. 2: sent requests. 3: both.")),
            Schema.asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required(
                "seq", Schema.described(Schema.string, "The sequence of the requests of both kinds. Clients compare it for equality.")),
            Schema.required(
                "timestamp", Schema.described(Schema.time, "The time of the last change on the page, for the next page; 0 if none follows.")
            ),
            Schema.required("unreadCnt", Schema.unreadCount),
            Schema.required(
                "pendencyList",
                Schema.list(of: Schema.friendRequest)),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    /// The type of a query for received and sent requests.
    private static let bothKinds: Int64 = 3

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard let type = try fields.integer("type", in: 1...bothKinds) else {
            throw .parameter("type: is missing; it must be 1 (received), 2 (sent) or 3 (both)")
        }
        let query = RequestQuery(
            kind: FriendRequestKind(rawValue: UInt8(type)), since: try fields.text("seq", bytesMax: Limits.nameBytesMax),
            after: try fields.integer("timestamp", in: 0...Limits.times.upperBound) ?? 0,
            limit: Int(try fields.integer("numPerPage", in: 1...Int64(RequestQuery.limitMax)) ?? Int64(RequestQuery.limitMax)))
        return API.Parsed(call: .friendCall(.requests(query)), subject: subject, errors: [])
    }
}

/// `deletePendency`: removes friend requests from the caller's list. The other users keep theirs (P27).
enum DeletePendency: ChainChange {
    static let description = OpenAPI.Operation(
        name: "deletePendency", summary: "Removes friend requests from the caller's list.",
        request: Schema.object([
            Schema.required("type", Schema.requestKind), Schema.required("userIDs", Schema.users(max: Limits.chainBatchMax)),
            Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.object([Schema.required("errorUserList", Schema.errors)]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.chain.batchMax))
        guard let kind = try fields.integer("type", in: 1...2).flatMap({ FriendRequestKind(rawValue: UInt8($0)) }) else {
            throw .parameter("type: is missing; it must be 1 (received requests) or 2 (sent requests)")
        }
        return API.Parsed(call: .friendCall(.deleteRequests(found.users, kind)), subject: subject, errors: found.errors)
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        let failed = answer.users.filter { $0.code != .done }
        json.object { json in
            json.member(
                "errorUserList",
                call.errors + failed.map { UserError(userID: String($0.user.id), code: Int($0.code.rawValue), reason: $0.code.text) })
        }
    }
}

/// `pendencyReport`: marks the received requests up to a time as read (P28).
enum PendencyReport: ChainChange {
    typealias Answer = FriendCallResult
    static let description = OpenAPI.Operation(
        name: "pendencyReport", summary: "Marks the received friend requests up to a time as read.",
        request: Schema.object([
            Schema.required("timestamp", Schema.integer(0...Limits.times.upperBound, "Milliseconds since 1970 (UTC).")), Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.object([Schema.required("unreadCnt", Schema.unreadCount)]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard let time = try fields.integer("timestamp", in: 0...Limits.times.upperBound) else {
            throw .parameter("timestamp: is missing; it must be a time in milliseconds since 1970")
        }
        return API.Parsed(call: .friendCall(.readRequests(upTo: time)), subject: subject, errors: [])
    }
}

extension Schema {
    /// A friend request in answers and events.
    package static let friendRequest = object([
        required("userID", reference("UserID")), required("addTime", time), required("addSource", string), required("addWording", string),
        required("nickname", described(string, "The other user's nickname at the time of the request.")), required("type", requestKind),
    ])
    package static let requestKind = integer(1...2, "1: a received request. 2: a sent request.")
    package static let unreadCount = described(
        ["type": "integer", "minimum": 0], "Received requests after the time of the last pendencyReport.")
}
