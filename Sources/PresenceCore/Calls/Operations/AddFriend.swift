import PresenceWire

/// `addFriend`: adds a friend, or asks the user for approval (P12–P14).
enum AddFriend: ChainChange {
    static let description = OpenAPI.Operation(
        name: "addFriend", summary: "Adds a friend, or sends a friend request if the user must approve it.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.optional("remark", Schema.remark),
            Schema.optional("addWording", Schema.addWording),
            Schema.optional("addSource", Schema.addSource),
            Schema.optional("group", Schema.text(bytesMax: Limits.friendGroupNameBytesMax, "A group of the caller, for the new friend.")),
            Schema.optional("addType", ["type": "string", "enum": ["both", "single"]]),
            Schema.optional(
                "force", Schema.described(Schema.bool, "Adds the friend without an approval; only for tokens with role \"admin\".")),
            Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.chainOutcome, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let other = try fields.otherUser("userID", than: subject)
        var request = SentRequest(addTime: 0)
        request.remark = try fields.shownText("remark", bytesMax: Int(policy.chain.remarkBytesMax)) ?? ""
        request.addWording = try fields.shownText("addWording", bytesMax: Int(policy.chain.wordingBytesMax), hasLines: true) ?? ""
        request.addSource = try fields.addSource()
        request.isForced = try fields.bool("force") ?? false
        let type = try fields.text("addType", bytesMax: Limits.platformBytesMax) ?? "both"
        guard type == "both" || type == "single" else { throw .parameter("addType: must be \"both\" or \"single\"") }
        let group = try fields.text("group", bytesMax: Limits.friendGroupNameBytesMax).flatMap { $0.isEmpty ? nil : $0 }
        let call = Call.chain(.add(other, request, isTwoWay: type == "both", group: group))
        return API.Parsed(call: call, subject: subject, errors: [])
    }

    static func write(_ answer: ChainAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        try json.chainOutcome(in: answer)
    }
}

/// `doResponse`: accepts or rejects a friend request (P16, P17).
enum DoResponse: ChainChange {
    static let description = OpenAPI.Operation(
        name: "doResponse", summary: "Accepts or rejects a friend request.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.required(
                "responseType",
                Schema.integer(0...2, "0: accept, so that the user has the caller as a friend. 1: accept and add the user. 2: reject.")),
            Schema.optional("remark", Schema.remark),
            Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.chainOutcome, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let other = try fields.otherUser("userID", than: subject)
        let remark = try fields.shownText("remark", bytesMax: Int(policy.chain.remarkBytesMax)) ?? ""
        guard let type = try fields.integer("responseType", in: 0...2) else {
            throw .parameter("responseType: is missing; it must be 0 (accept), 1 (accept and add) or 2 (reject)")
        }
        let command = type == 2 ? ChainCommand.reject : .accept(remark: remark, isTwoWay: type == 1)
        return API.Parsed(call: .chain(.respond(other, command)), subject: subject, errors: [])
    }

    static func write(_ answer: ChainAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        try json.chainOutcome(in: answer)
    }
}

/// `deleteFriends`: removes friends from the caller's list, and with `delType` 2 the caller from theirs (P15).
enum DeleteFriends: ChainChange {
    typealias Answer = ChainAnswer
    static let description = OpenAPI.Operation(
        name: "deleteFriends", summary: "Removes friends, from the caller's list alone or from both lists.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: Limits.chainBatchMax)),
            Schema.required("delType", type), Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.chainOutcomes, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static let type = Schema.integer(1...2, "1: from the caller's list. 2: also the caller from the lists of the users.")

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.otherUsers("userIDs", than: subject, policy)
        let call = Call.chain(.delete(found.users, isTwoWay: try isTwoWay(fields)))
        return API.Parsed(call: call, subject: subject, errors: found.errors)
    }

    /// Whether the call removes the caller from the lists of the users as well.
    static func isTwoWay(_ fields: Fields) throws(Problem) -> Bool {
        guard let type = try fields.integer("delType", in: 1...2) else {
            throw .parameter("delType: is missing; it must be 1 (from the caller's list) or 2 (from both lists)")
        }
        return type == 2
    }
}

extension Fields {
    /// The beginning of every source (P13).
    fileprivate static let sourcePrefix = "AddSource_Type_"

    /// The origin of a friendship; empty if it is absent or null.
    func addSource() throws(Problem) -> String {
        let source = try text("addSource", bytesMax: Limits.addSourceBytesMax) ?? ""
        try Self.checkControls(source, "addSource")
        // Bytes, not characters: a mark that joins the underscore would hide it.
        guard source.isEmpty || source.utf8.starts(with: Self.sourcePrefix.utf8) else {
            throw .parameter("addSource: must begin with \(Self.sourcePrefix)")
        }
        return source
    }

    /// Another user than the caller.
    func otherUser(_ name: String, than caller: UserID) throws(Problem) -> UserID {
        let other = try user(name, besides: caller)
        guard other != caller else { throw .parameter("\(name): names the caller") }
        return other
    }
}

extension Fields {
    /// Users besides the caller. The caller, if it is named, is an error of its own.
    func otherUsers(_ name: String, than caller: UserID, _ policy: Policy) throws(Problem) -> (users: [UserID], errors: [UserError]) {
        let found = try requiredUsers(name, besides: caller, countMax: Int(policy.chain.batchMax))
        let others = found.users.filter { $0 != caller }
        guard others.count < found.users.count else { return found }
        return (others, found.errors + [UserError(userID: String(caller.id), code: 6017, reason: "\(name): names the caller")])
    }
}

extension Schema {
    static let remark = text(bytesMax: Limits.remarkBytesMax, pattern: noControls)
    fileprivate static let addWording = text(bytesMax: Limits.wordingBytesMax, pattern: #"^[^\u0000-\u0009\u000B-\u001F\u007F-\u009F]*$"#)
    static let addSource = text(
        bytesMax: Limits.addSourceBytesMax, pattern: #"^(\#(Fields.sourcePrefix)[^\u0000-\u001F\u007F-\u009F]{0,8})?$"#,
        "The prefix and at most 8 bytes; or empty.")
    /// The results of a call about several users.
    static let chainOutcomes = object(outcomeMembers)
    /// The results of a call that blocks users.
    static let blockOutcomes = object(outcomeMembers + [mayBeSeenUntil])
    private static let outcomeMembers = [required("resultList", list(of: chainOutcome)), required("errorUserList", errors)]
    static let chainOutcome = object([
        required("userID", reference("UserID")), required("resultCode", described(integer, "0, or a code of the relationship chain.")),
        required("resultInfo", described(string, "The result in words; empty for 0.")),
    ])
}

extension JSONWriter {
    /// Writes the results of a call about several users.
    mutating func chainOutcomes(_ outcomes: [ChainOutcome], _ errors: [UserError], _ remnant: Remnant = .none) {
        object { json in
            json.array("resultList", outcomes) { json, outcome in json.object { $0.members(of: outcome) } }
            json.member("errorUserList", errors)
            json.members(of: remnant)
        }
    }

    /// Writes the result of a call about one user. A decision whose result is unknown is an error of the call.
    fileprivate mutating func chainOutcome(in answer: ChainAnswer) throws(Problem) {
        guard let outcome = answer.outcomes.first else { throw .wrongAnswer }
        if outcome.code == .unavailable { throw Problem(Refusal.unavailable.afterPassingOn) }
        object { $0.members(of: outcome) }
    }

    mutating func members(of outcome: ChainOutcome) {
        member("userID", outcome.user.id)
        member("resultCode", Int64(outcome.code.rawValue))
        member("resultInfo", outcome.code.text)
    }
}
