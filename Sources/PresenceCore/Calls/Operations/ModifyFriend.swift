import PresenceWire

/// `modifyFriend`: changes the remark, the groups and the custom fields of a friend (P11).
enum ModifyFriend: ChainChange {
    static let description = OpenAPI.Operation(
        name: "modifyFriend", summary: "Changes the remark, the groups and the custom fields of a friend.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")), Schema.required("values", values), Schema.asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userID", Schema.reference("UserID")), Schema.required("resultCode", Schema.integer),
            Schema.required("resultInfo", Schema.string),
            Schema.sometimes("friend", Schema.described(Schema.friend, "The friend after the change; only with resultCode 0.")),
        ]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let values = Schema.object(
        [
            Schema.optional("Remark", Schema.remark),
            Schema.optional(
                "Group",
                Schema.described(
                    [
                        "type": "array", "items": Schema.groupName, "maxItems": .integer(Int64(Limits.friendGroupsMax)),
                    ], "The names of all groups of the friend from now on.")),
        ],
        besides: Schema.customFields)

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let other = try fields.otherUser("userID", than: subject)
        guard case .object(let members) = fields.value("values") else {
            throw .parameter("values: must be an object with Remark, Group and custom fields")
        }
        var change = FriendChange()
        for member in members {
            switch member.name {
            case _ where member.value == .null: try checkKey(member.name, policy)
            case "Remark": change.remark = try remark(member.value, policy)
            case "Group":
                change.groups = try Fields.texts(
                    member.value, "values.Group", bytes: 1...Int(policy.chain.friendGroupNameBytesMax), count: 0...Limits.friendGroupsMax)
            case let key where key.hasPrefix(Profile.customPrefix):
                let field = JSONValue.Member(name: String(key.dropFirst(Profile.customPrefix.count)), value: member.value)
                change.fields.append(try CustomField(field, "values.\(key)", of: policy))
            default: try checkKey(member.name, policy)
            }
        }
        return API.Parsed(call: .friendCall(.modifyFriend(other, change)), subject: subject, errors: [])
    }

    private static func remark(_ value: JSONValue, _ policy: Policy) throws(Problem) -> String {
        guard case .string(let text) = value, text.utf8.count <= policy.chain.remarkBytesMax else {
            throw .parameter("values.Remark: must be a string of at most \(policy.chain.remarkBytesMax) bytes")
        }
        try Fields.checkControls(text, "values.Remark")
        return text
    }

    /// Throws unless a key names a field of a friend. A field that is null stays as it is.
    private static func checkKey(_ key: String, _ policy: Policy) throws(Problem) {
        guard key != "Remark", key != "Group" else { return }
        let name = key.hasPrefix(Profile.customPrefix) ? key.dropFirst(Profile.customPrefix.count) : ""
        guard !policy.chain.friendFields.contains(where: { $0.name == name }) else { return }
        throw .parameter("values.\(key): is neither Remark, Group nor a custom field that the app declares (friends.customFields)")
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        guard let outcome = answer.users.first else { throw .wrongAnswer }
        json.object { json in
            json.member("userID", outcome.user.id)
            json.member("resultCode", Int64(answer.code.rawValue))
            json.member("resultInfo", answer.code == .wrongGroup ? "the caller has no group of one of these names" : answer.code.text)
            if answer.code == .done { json.member("friend", json: answer.json) }
        }
    }
}

extension CustomField {
    /// Reads a custom field of a friend from the member of its name.
    ///
    /// - Parameter place: the place of the member, for an error.
    init(_ member: JSONValue.Member, _ place: String, of policy: Policy) throws(Problem) {
        guard let declared = policy.chain.friendFields.first(where: { $0.name == member.name }) else {
            throw .parameter("\(place): is no custom field that the app declares (friends.customFields)")
        }
        guard let value = declared.value(member.value) else {
            throw .parameter("\(place): must be of type \(declared.type.rawValue) (friends.customFields)")
        }
        if let problem = value.tooLong { throw .parameter("\(place): \(problem)") }
        self.init(name: declared.name, value: value)
    }
}
