import PresenceWire

/// `createFriendGroup`: creates groups of friends, and adds friends to each of them (P32).
enum CreateFriendGroup: ChainChange {
    static let description = OpenAPI.Operation(
        name: "createFriendGroup", summary: "Creates groups of friends, and adds friends to each of them.",
        request: Schema.object([
            Schema.required("groupNames", Schema.newGroupNames),
            Schema.optional("userIDs", Schema.users(min: 0, max: Limits.chainBatchMax)), Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.groupResults, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let names = try fields.requiredGroupNames(policy)
        for (index, name) in names.enumerated() { try Fields.checkControls(name, "groupNames[\(index)]") }
        let found = try fields.users("userIDs", besides: subject, countMax: Int(policy.chain.batchMax)) ?? (users: [], errors: [])
        let call = Call.friendCall(.createGroups(names, users: found.users))
        return API.Parsed(call: call, subject: subject, errors: found.errors)
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.groupResults(of: answer, call.errors, ifWrongGroup: "the caller has a group of one of these names")
    }
}

/// `deleteFriendGroup`: deletes groups of friends. The friends stay in the list (P33).
enum DeleteFriendGroup: ChainChange {
    static let description = OpenAPI.Operation(
        name: "deleteFriendGroup", summary: "Deletes groups of friends. The friends stay in the list.",
        request: Schema.object([Schema.required("groupNames", Schema.groupNames), Schema.asUser]), isBodyRequired: true,
        answer: ["type": "object"], refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .friendCall(.deleteGroups(try fields.requiredGroupNames(policy))), subject: subject, errors: [])
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { _ in }
    }
}

/// `renameFriendGroup`: gives a group of friends another name (P36).
enum RenameFriendGroup: ChainChange {
    static let description = OpenAPI.Operation(
        name: "renameFriendGroup", summary: "Gives a group of friends another name.",
        request: Schema.object([
            Schema.required("oldName", Schema.groupName), Schema.required("newName", Schema.newGroupName), Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.object(Schema.groupResult), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let (old, new) = (try fields.groupName("oldName", Limits.friendGroupNameBytesMax), try fields.groupName("newName", policy))
        return API.Parsed(call: .friendCall(.renameGroup(old, to: new)), subject: subject, errors: [])
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            json.groupResult(
                answer.code, ifWrongGroup: "the caller has no group of the old name, or another one of the new name")
        }
    }
}

/// `getFriendGroups`: returns groups with their friends (P37).
enum GetFriendGroups: ChainOperation {
    typealias Answer = FriendCallResult
    static let description = OpenAPI.Operation(
        name: "getFriendGroups", summary: "Returns groups of friends with their users, in the order of their creation.",
        request: Schema.object([
            Schema.optional(
                "groupNames", Schema.described(Schema.groupNames(min: 0), "Only groups of these names; default: all groups.")),
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required(
                "groupList",
                Schema.list(
                    of: Schema.object([
                        Schema.required("name", Schema.string), Schema.required("userCnt", ["type": "integer", "minimum": 0]),
                        Schema.required("userIDs", Schema.list(of: Schema.reference("UserID"))),
                    ]))),
            Schema.required("seq", Schema.described(Schema.string, "The sequence of the groups: groupsVersion of onRelationshipState.")),
        ]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .friendCall(.groups(try fields.groupNames(countMin: 0))), subject: subject, errors: [])
    }
}

/// `addFriendsToFriendGroup`: adds friends to a group (P34).
enum AddFriendsToFriendGroup: ChainChange {
    static let description = OpenAPI.Operation(
        name: "addFriendsToFriendGroup", summary: "Adds friends to a group.", request: Schema.groupMembers, isBodyRequired: true,
        answer: Schema.groupResults, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let (name, found) = try fields.groupMembers(besides: subject, policy)
        return API.Parsed(call: .friendCall(.addToGroup(name, found.users)), subject: subject, errors: found.errors)
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.groupResults(of: answer, call.errors, ifWrongGroup: "the caller has no group of this name")
    }
}

/// `delFriendsFromFriendGroup`: removes friends from a group. They stay in the list (P35).
enum DelFriendsFromFriendGroup: ChainChange {
    static let description = OpenAPI.Operation(
        name: "delFriendsFromFriendGroup", summary: "Removes friends from a group. They stay in the list.", request: Schema.groupMembers,
        isBodyRequired: true, answer: Schema.groupResults, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let (name, found) = try fields.groupMembers(besides: subject, policy)
        return API.Parsed(call: .friendCall(.removeFromGroup(name, found.users)), subject: subject, errors: found.errors)
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.groupResults(of: answer, call.errors, ifWrongGroup: "the caller has no group of this name")
    }
}

extension Fields {
    /// The name of a new group, by the rule of the app.
    fileprivate func groupName(_ name: String, _ policy: Policy) throws(Problem) -> String {
        let text = try groupName(name, Int(policy.chain.friendGroupNameBytesMax))
        try Self.checkControls(text, name)
        return text
    }

    fileprivate func groupName(_ name: String, _ bytesMax: Int) throws(Problem) -> String {
        guard let text = try text(name, bytesMax: bytesMax), !text.isEmpty else {
            throw .parameter("\(name): must be a string of 1 to \(bytesMax) bytes")
        }
        return text
    }

    /// The names of groups; nil if they are absent.
    fileprivate func groupNames(countMin: Int, bytesMax: Int = Limits.friendGroupNameBytesMax) throws(Problem) -> [String]? {
        try texts("groupNames", bytes: 1...bytesMax, count: countMin...Limits.friendGroupsMax)
    }

    /// The names of new groups, or of groups to delete.
    fileprivate func requiredGroupNames(_ policy: Policy) throws(Problem) -> [String] {
        guard let names = try groupNames(countMin: 1, bytesMax: Int(policy.chain.friendGroupNameBytesMax)) else {
            throw .parameter("groupNames: is missing; it must be an array of 1 to \(Limits.friendGroupsMax) names")
        }
        return names
    }

    /// The name of a group, and users who join or leave it.
    fileprivate func groupMembers(
        besides subject: UserID, _ policy: Policy
    ) throws(Problem) -> (name: String, (users: [UserID], errors: [UserError])) {
        let name = try groupName("groupName", Limits.friendGroupNameBytesMax)
        return (name, try requiredUsers("userIDs", besides: subject, countMax: Int(policy.chain.batchMax)))
    }
}

extension Schema {
    static let groupName = groupName()
    /// The name of a group that a call makes. A group of an earlier release may have control characters in its name.
    fileprivate static let newGroupName = groupName(pattern: noControls)
    fileprivate static let groupNames = groupNames(min: 1)
    fileprivate static let newGroupNames = groupNames(min: 1, of: newGroupName)

    private static func groupName(pattern: String? = nil) -> JSONValue {
        text(bytesMax: Limits.friendGroupNameBytesMax, lengthMin: 1, pattern: pattern)
    }

    fileprivate static func groupNames(min: Int64, of groupName: JSONValue = groupName) -> JSONValue {
        ["type": "array", "items": groupName, "minItems": .integer(min), "maxItems": .integer(Int64(Limits.friendGroupsMax))]
    }

    fileprivate static let groupMembers = object([
        required("groupName", groupName), required("userIDs", users(max: Limits.chainBatchMax)), asUser,
    ])
    fileprivate static let groupResult = [
        required("resultCode", described(integer, "0, or the reason why nothing was changed.")),
        required("resultInfo", described(string, "The result in words; empty for 0.")),
    ]
    fileprivate static let groupResults = object(
        groupResult + [
            required("resultList", described(list(of: chainOutcome), "The result for each user; empty unless resultCode is 0.")),
            required("errorUserList", errors),
        ])
}

extension JSONWriter {
    fileprivate mutating func groupResult(_ code: ChainCode, ifWrongGroup text: String) {
        member("resultCode", Int64(code.rawValue))
        member("resultInfo", code == .wrongGroup ? text : code.text)
    }

    /// Writes the result of a call about a group, and that for each of its users.
    fileprivate mutating func groupResults(of result: FriendCallResult, _ errors: [UserError], ifWrongGroup text: String) {
        object { json in
            json.groupResult(result.code, ifWrongGroup: text)
            json.array("resultList", result.users) { json, outcome in json.object { $0.members(of: outcome) } }
            json.member("errorUserList", errors)
        }
    }
}
