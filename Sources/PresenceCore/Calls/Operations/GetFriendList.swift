import PresenceWire

/// `getFriendList`: returns the caller's friends, or what has changed since a sequence (P9, P10).
enum GetFriendList: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "getFriendList", summary: "Returns the caller's friends by pages, or the changes since a sequence.",
        request: Schema.object([
            Schema.optional("seq", Schema.text(bytesMax: Limits.nameBytesMax, "The sequence of the list that the client holds.")),
            Schema.optional("cursor", Schema.text(bytesMax: Limits.nameBytesMax, "From the page before.")),
            Schema.optional("limit", Schema.integer(1...Int64(FriendQuery.limitMax), "Most friends of a page; default 100.")),
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required(
                "friendList",
                Schema.list(
                    of: Schema.object([
                        Schema.required("userID", Schema.reference("UserID")), Schema.required("remark", Schema.string),
                        Schema.required("addWording", Schema.string), Schema.required("addSource", Schema.string),
                        Schema.required("addTime", Schema.time),
                    ]))),
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
            since: try fields.text("seq", bytesMax: Limits.nameBytesMax), cursor: try fields.text("cursor", bytesMax: Limits.nameBytesMax),
            limit: Int(try fields.integer("limit", in: 1...Int64(FriendQuery.limitMax)) ?? Int64(FriendQuery.limitMax)))
        return API.Parsed(call: .getFriendList(query), subject: subject, errors: [])
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .chain }

    static func write(_ answer: CallAnswer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        guard case .listed(let list) = answer else { preconditionFailure("getFriendList is answered with \(answer)") }
        json.value(list)
    }
}

extension OwnerRequest {
    /// The JSON of the friend list.
    func friends(_ query: FriendQuery, of owner: borrowing Owner) -> [UInt8] {
        let list = owner.index(ofKnown: id).map { owner.users[$0].list(.friend) } ?? RowList()
        var (entries, isFull, hasMore): ([RowList.Entry], Bool, Bool)
        if let since = query.since, query.cursor == nil, case .rows(let changed) = list.changes(since: since, at: now.wall),
            changed.count <= FriendQuery.changesMax
        {
            (entries, isFull, hasMore) = (changed, false, false)
        } else {
            (entries, isFull) = (list.page(after: query.cursor, limit: query.limit + 1), true)
            hasMore = entries.count > query.limit
            if hasMore { entries.removeLast() }
        }
        var json = JSONWriter(reserving: 256 + 160 * entries.count)
        json.object { json in
            json.key("friendList")
            json.array { json in for entry in entries where !entry.isRemoved { json.friend(entry, of: id) } }
            json.key("deleted")
            json.array { json in for entry in entries where entry.isRemoved { json.string(entry.key) } }
            json.member("isFull", isFull)
            json.member("seq", list.sequence)
            if hasMore, let last = entries.last { json.member("cursor", last.key) }
            json.member("total", Int64(list.liveCount))
        }
        return json.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func friend(_ entry: RowList.Entry, of user: UserID) {
        // A row of a list was checked when it was stored.
        guard let friend = try? Friend(Row(entry, of: user, .friend)) else { return }
        object { json in
            json.member("userID", entry.key)
            json.member("remark", friend.remark)
            json.member("addWording", friend.addWording)
            json.member("addSource", friend.addSource)
            json.member("addTime", friend.addTime)
        }
    }
}
