import PresenceWire

/// `addBlackList`: puts users on the caller's blocklist (P29).
enum AddBlackList: ChainChange {
    typealias Answer = ChainAnswer
    static let description = OpenAPI.Operation(
        name: "addBlackList",
        summary: "Blocks users. Their friendships and requests with the caller end, and they see the caller OFFLINE.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.chainBatchMax)), Schema.asUser]),
        isBodyRequired: true,
        answer: Schema.blockOutcomes, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.otherUsers("userIDs", than: subject, policy)
        return API.Parsed(call: .chain(.setBlocked(found.users, true)), subject: subject, errors: found.errors)
    }
}

/// `deleteBlackList`: removes users from the caller's blocklist (P30).
enum DeleteBlackList: ChainChange {
    typealias Answer = ChainAnswer
    static let description = OpenAPI.Operation(
        name: "deleteBlackList", summary: "Removes users from the caller's blocklist. Friendships do not come back.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.chainBatchMax)), Schema.asUser]),
        isBodyRequired: true,
        answer: Schema.chainOutcomes, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.otherUsers("userIDs", than: subject, policy)
        return API.Parsed(call: .chain(.setBlocked(found.users, false)), subject: subject, errors: found.errors)
    }
}

/// `getBlackList`: returns the caller's blocklist by pages (P31).
enum GetBlackList: ChainOperation {
    typealias Answer = FriendCallResult
    static let description = OpenAPI.Operation(
        name: "getBlackList", summary: "Returns the users on the caller's blocklist by pages.",
        request: Schema.object([
            Schema.optional("cursor", Schema.text(bytesMax: Limits.nameBytesMax, "From the page before.")),
            Schema.optional("limit", Schema.integer(1...Int64(FriendQuery.limitMax), "Most users of a page; default 100.")),
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required("userIDs", Schema.list(of: Schema.reference("UserID"))),
            Schema.required("seq", Schema.described(Schema.string, "The sequence of the blocklist: blockVersion of onRelationshipState.")),
            Schema.sometimes("cursor", Schema.described(Schema.string, "Present if more pages follow.")),
        ]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let limit = try fields.integer("limit", in: 1...Int64(FriendQuery.limitMax)) ?? Int64(FriendQuery.limitMax)
        let call = FriendCall.blocked(after: try fields.text("cursor", bytesMax: Limits.nameBytesMax), limit: Int(limit))
        return API.Parsed(call: .friendCall(call), subject: subject, errors: [])
    }
}

extension OwnerRequest {
    /// The JSON of one page of the blocklist.
    func blocked(after cursor: String?, limit: Int, of owner: borrowing Owner) -> [UInt8] {
        let list = list(.blocked, of: owner)
        let page = list.page(after: cursor, limit: limit + 1)
        let users = page.prefix(limit)
        var json = JSONWriter(reserving: 32 + 32 * users.count)
        json.object { json in
            json.array("userIDs", users) { $0.string($1.key) }
            json.member("seq", list.sequence)
            if page.count > limit, let last = users.last { json.member("cursor", last.key) }
        }
        return json.bytes
    }
}
