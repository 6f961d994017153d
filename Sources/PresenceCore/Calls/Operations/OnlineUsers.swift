import PresenceWire

/// `onlineUsers`: returns a page of the ONLINE users of an app, and their number.
enum OnlineUsers: OperatorOperation {
    typealias Answer = OnlineUsersAnswer
    /// Most users of a page.
    static let limitMax: Int64 = 1_000
    private static let limitStandard: Int64 = 100

    static let description = OpenAPI.Operation(
        name: "onlineUsers", summary: "Returns a page of the app's ONLINE users, in an order that does not change, and their number.",
        request: Schema.object([
            Schema.optional(
                "cursor", Schema.described(Schema.reference("UserID"), "The cursor of the page before; without it the first page.")),
            Schema.optional("limit", Schema.integer(1...limitMax, "Most users of the page; default \(limitStandard).")),
        ]),
        answer: Schema.object([
            Schema.required(
                "users",
                Schema.list(
                    of: Schema.object([
                        Schema.required("userID", Schema.reference("UserID")), Schema.required("platforms", Schema.list(of: Schema.string)),
                    ]))),
            Schema.sometimes("cursor", Schema.described(Schema.string, "For the next page; absent in the last page.")),
            Schema.required("total", Schema.integer),
        ]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let cursor = try fields.text("cursor", bytesMax: Limits.nameBytesMax)
        if let cursor, !Limits.isValidName(cursor) { throw .parameter("cursor: is not the cursor of an earlier page") }
        let limit = try fields.integer("limit", in: 1...limitMax) ?? limitStandard
        let query = OnlineQuery(app: String(caller.app), after: cursor.map { UserID($0, besides: caller) }, limit: Int(limit))
        return API.Parsed(call: .onlineUsers(query), subject: caller, errors: [])
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        guard case .onlineUsers(let query) = parsed.call else { throw .wrongAnswer }
        let users = answer.users
        json.object { json in
            json.array("users", users) { $0.onlineUser($1) }
            if users.count == query.limit, let last = users.last { json.member("cursor", last.user.id) }
            json.member("total", Int64(answer.total))
        }
    }
}

extension JSONWriter {
    /// Writes a user of a list of ONLINE users.
    package mutating func onlineUser(_ user: OnlineUser) {
        object { json in
            json.member("userID", user.user.id)
            json.array("platforms", user.platforms) { $0.string($1) }
        }
    }
}

extension OnlineUsersAnswer: OperationAnswer {}

extension OnlineUsers {
    /// Takes the users of one node. After those of all nodes, the page has the first of them.
    static func take(
        _ users: [OnlineUser], total: UInt64, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.onlineUsers += users
        calls.waiting[call]?.answered.onlineTotal += Int(clamping: min(total, 1 << 40))
        guard let pending = calls.waiting[call], pending.openCount == 0, case .onlineUsers(let query) = pending.call else { return }
        let sorted = pending.answered.onlineUsers.sorted { OnlineUser.isBefore($0.user, $1.user) }
        let page = PresenceWire.Answer.onlineUsers(Array(sorted.prefix(query.limit)), total: UInt64(pending.answered.onlineTotal))
        calls.finish(call, .owner(page), edge, &cluster)
    }

    /// Slots that are searched at a time.
    private static let slotsSearched = 256

    /// The answer of one node: the first users behind the query's position, and the number of all.
    static func answer(_ query: OnlineQuery, _ owner: borrowing Owner) -> PresenceWire.Answer {
        let limit = min(query.limit, Int(limitMax))
        var found: [OnlineUser] = []
        var start = Int(query.after?.slot ?? 0)
        while start < Ring.slotsCount, found.count < limit {
            let end = min(start + slotsSearched, Ring.slotsCount)
            var part: [OnlineUser] = []
            owner.users.forEachUser(in: Slot(start)...Slot(end - 1)) { index in
                guard !owner.users[index].isReplica, owner.users[index].isWanted(by: query) else { return }
                let user = owner.users.user(at: index)
                guard user.app == query.app, query.after.map({ OnlineUser.isBefore($0, user) }) ?? true else { return }
                part.append(OnlineUser(user: user, platforms: query.isOfAll ? [] : owner.users[index].record.onlinePlatforms))
            }
            found += part.sorted { OnlineUser.isBefore($0.user, $1.user) }
            start = end
        }
        return .onlineUsers(Array(found.prefix(limit)), total: UInt64(owner.users.onlineCount(of: query.app)))
    }
}

extension OwnedUser {
    /// Whether the answer to a query has the user.
    fileprivate func isWanted(by query: OnlineQuery) -> Bool { query.isOfAll ? hasPortableFacts : record.statusType == .online }
}
