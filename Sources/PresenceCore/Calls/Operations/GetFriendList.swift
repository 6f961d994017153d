import PresenceWire

/// `getFriendList`: returns the caller's friends, or what has changed since a sequence (P9, P10).
enum GetFriendList: ChainOperation, OwnerDecision, OwnerReading {
    typealias Request = FriendQuery
    typealias Answer = ListedFriends
    static let description = OpenAPI.Operation(
        name: "getFriendList", summary: "Returns the caller's friends by pages, or the changes since a sequence.",
        request: Schema.object([
            Schema.optional("seq", Schema.text(bytesMax: Limits.nameBytesMax, "The sequence of the list that the client holds.")),
            Schema.optional(
                "cursor", Schema.text(bytesMax: FriendQuery.Cursor.textBytesMax, pattern: cursorPattern, "From the page before.")),
            Schema.optional("limit", Schema.integer(1...Int64(FriendQuery.limitMax), "Most friends of a page; default 100.")),
            Schema.optional("withProfile", Schema.described(Schema.bool, "Whether each friend comes with the profile.")),
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required("friendList", Schema.list(of: Schema.listedFriend)),
            Schema.required("deleted", Schema.described(Schema.list(of: Schema.string), "Friends removed since seq.")),
            Schema.required(
                "isFull",
                Schema.described(Schema.bool, "True: the answer is a page of the whole list. False: it has the changes since seq.")),
            Schema.required("seq", Schema.described(Schema.string, "The list's sequence. Clients compare it for equality.")),
            Schema.sometimes("cursor", Schema.described(Schema.string, "Present if more pages follow.")),
            Schema.required("total", ["type": "integer", "minimum": 0]),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let query = FriendQuery(
            since: try fields.text("seq", bytesMax: Limits.nameBytesMax), cursor: try cursor(fields),
            limit: Int(try fields.integer("limit", in: 1...Int64(FriendQuery.limitMax)) ?? Int64(FriendQuery.limitMax)),
            withProfile: try fields.bool("withProfile") ?? false)
        return API.Parsed(call: .getFriendList(query), subject: subject, errors: [])
    }

    private static let cursorPattern = #"^[0-9a-f]{24}:[^\u0000-\u001f\u007f-\u009f]+$"#

    private static func cursor(_ fields: Fields) throws(Problem) -> FriendQuery.Cursor? {
        guard let text = try fields.text("cursor", bytesMax: FriendQuery.Cursor.textBytesMax) else { return nil }
        guard let cursor = FriendQuery.Cursor(text: text) else { throw .parameter("cursor: must be that of the page before") }
        return cursor
    }
}

extension ListedFriends: PlainAnswer {
    func write(_ errors: [UserError], into json: inout JSONWriter) { json.value(self.json) }
}

extension GetFriendList {
    /// Reads the friend list. The calling node adds the profiles of the friends.
    ///
    /// - Returns: a refusal if the page before is from a list that this node does not know yet, because it was cut off.
    static func read(_ query: FriendQuery, of call: OwnerRequest, at owner: borrowing Owner) -> OwnerReply<ListedFriends> {
        let list = call.list(.friend, of: owner)
        if let cursor = query.cursor, list.version < cursor.version { return .refusedAsWritten(.unavailable) }
        return .asWritten(ListedFriends(json: call.json(of: list, query, of: owner)))
    }
}

extension OwnerRequest {
    fileprivate func json(of list: RowList, _ query: FriendQuery, of owner: borrowing Owner) -> [UInt8] {
        let groups = friendGroups(of: owner)
        if let since = query.since, query.cursor == nil, case .rows(let changed) = list.changes(since: since, at: now.wall),
            changed.count <= (query.withProfile ? FriendQuery.limitMax : FriendQuery.changesMax)
        {
            let answer = FriendListAnswer(list: list, user: id, groups: groups, entries: changed, isFull: false, hasMore: false)
            // A client that lacks more than one answer can carry reads the whole list.
            if let json = answer.json(cutsOff: false) { return json }
        }
        var page = list.page(after: query.cursor?.key, limit: query.limit + 1)
        let hasMore = page.count > query.limit
        if hasMore { page.removeLast() }
        let answer = FriendListAnswer(list: list, user: id, groups: groups, entries: page, isFull: true, hasMore: hasMore)
        return answer.json(cutsOff: true) ?? []
    }
}

/// An answer of `getFriendList`.
private struct FriendListAnswer {
    let list: RowList
    let user: UserID
    let groups: FriendGroups
    /// The rows of the page, or the changes, tombstones included.
    let entries: [RowList.Entry]
    let isFull: Bool
    /// Whether rows follow the page.
    let hasMore: Bool

    /// The bytes after which a page ends. The last friend, the deletions and the end fit into the rest of an answer.
    private static let pageBytesMax = FriendCallResult.jsonBytesMax * 3 / 4

    /// The JSON of the answer; nil if it would be too long.
    ///
    /// - Parameter cutsOff: whether a long page ends early, instead.
    func json(cutsOff: Bool) -> [UInt8]? {
        var json = JSONWriter(reserving: 256 + 192 * entries.count)
        var count = 0
        json.object { json in
            json.key("friendList")
            json.array { json in
                while count < entries.count, json.bytes.count <= Self.pageBytesMax {
                    if let friend: Friend = entries[count].fact(of: user) { json.friend(friend, entries[count].key, in: groups) }
                    count += 1
                }
            }
            json.array("deleted", entries.filter(\.isRemoved)) { $0.string($1.key) }
            json.member("isFull", isFull)
            json.member("seq", list.sequence)
            if hasMore || count < entries.count, count > 0 {
                json.member("cursor", FriendQuery.Cursor(version: list.version, key: entries[count - 1].key).text)
            }
            json.member("total", Int64(list.liveCount))
        }
        return cutsOff || count == entries.count ? json.bytes : nil
    }
}

extension Schema {
    /// A friend, as clients receive it (P10).
    package static let friend = object(friendFields)
    /// The same in `getFriendList`.
    static let listedFriend = object(
        friendFields + [
            sometimes(
                "profile", described(reference("Profile"), "Only with withProfile. Absent if the friend's owner cannot be reached."))
        ])

    private static let friendFields = [
        required("userID", reference("UserID")), required("remark", string),
        required("groups", described(list(of: string), "The names of the friend's groups.")),
        required("addWording", string), required("addSource", string), required("addTime", time),
        required(
            "custom",
            described(
                [
                    "type": "object",
                    "additionalProperties": [
                        "anyOf": [integer, string, object([required("base64", string)])]
                    ],
                ], "The custom fields, by their names without \"Custom_\".")),
    ]
}
