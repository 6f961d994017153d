import PresenceWire

/// `importFriends`: adds friends to the caller's list alone, without requests and events. For back ends alone.
///
/// A user who has a friend already keeps it as it is, so an import that is repeated changes nothing.
enum ImportFriends: ChainChange {
    static let description = OpenAPI.Operation(
        name: "importFriends",
        summary: "Adds friends to the caller's list alone, without requests and events; only for tokens with role \"admin\".",
        request: Schema.object([
            Schema.required(
                "friends",
                ["type": "array", "items": friend, "minItems": 1, "maxItems": .integer(Int64(Limits.chainBatchMax))]),
            Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.chainOutcomes, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let friend = Schema.object([
        Schema.required("userID", Schema.reference("UserID")), Schema.optional("remark", Schema.text(bytesMax: Limits.remarkBytesMax)),
        Schema.optional(
            "groups",
            Schema.described(
                ["type": "array", "items": Schema.groupName, "maxItems": .integer(Int64(Limits.friendGroupsMax))],
                "The names of groups that the caller has.")),
        Schema.optional("addWording", Schema.text(bytesMax: Limits.wordingBytesMax)), Schema.optional("addSource", Schema.addSource),
        Schema.optional(
            "addTime", Schema.integer(0...Limits.times.upperBound, "Milliseconds since 1970 (UTC). Default: the time of the call.")),
        Schema.optional("custom", Schema.described(["type": "object"], "Custom fields, as getFriendList returns them.")),
    ])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let read = { (friend: Fields) throws(Problem) in try Self.friend(friend, of: subject, policy) }
        guard let friends = try fields.objects("friends", count: 1...Int(policy.chain.batchMax), by: read) else {
            throw .parameter("friends: is missing; it must be an array of 1 to \(policy.chain.batchMax) objects")
        }
        var seen: Set<UserID> = []
        for (index, friend) in friends.enumerated() where !seen.insert(friend.user).inserted {
            throw .parameter("friends[\(index)].userID: occurs twice in the call")
        }
        return API.Parsed(call: .friendCall(.importFriends(friends)), subject: subject, errors: [])
    }

    private static func friend(_ fields: Fields, of subject: UserID, _ policy: Policy) throws(Problem) -> FriendImport {
        var friend = FriendImport(user: try fields.otherUser("userID", than: subject))
        friend.change.remark = try fields.text("remark", bytesMax: Int(policy.chain.remarkBytesMax))
        friend.change.groups = try fields.texts(
            "groups", bytes: 1...Int(policy.chain.friendGroupNameBytesMax), count: 0...Limits.friendGroupsMax)
        friend.addWording = try fields.text("addWording", bytesMax: Int(policy.chain.wordingBytesMax)) ?? ""
        friend.addSource = try fields.addSource()
        friend.addTime = try fields.integer("addTime", in: 0...Limits.times.upperBound)
        switch fields.value("custom") {
        case nil: break
        case .object(let members):
            for member in members { friend.change.fields.append(try CustomField(member, "custom.\(member.name)", of: policy)) }
        default: throw .parameter("custom: must be an object")
        }
        return friend
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.chainOutcomes(answer.users, call.errors)
    }
}

extension ImportFriends {
    /// Adds friends to the user's list alone, each with a result.
    static func perform(
        _ friends: [FriendImport], of request: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> FriendCallResult {
        let user = owner.index(of: request.id)
        let rules = ChainRules(user: owner.users[user], policy: owner.policies.policy(of: request.id))
        let groups = request.friendGroups(of: owner)
        let (outcomes, changes) = rules.imports(friends, in: groups, at: request.now.wall, isOfCall: request.mayHaveWritten)
        for outcome in outcomes where rules.isFriend(String(outcome.user.id)) {
            request.writeAgain(.friend, String(outcome.user.id), of: owner, into: &outbox)
        }
        if !changes.isEmpty {
            let version = owner.nextVersion { $0.nextImport(at: request.now) }
            owner.write(changes, of: user, decidedAt: version, isSilent: true, in: &outbox[at: request.now])
        }
        owner.removeBlank(request.id)
        return FriendCallResult(users: outcomes)
    }
}

/// `deleteAllFriends`: removes the friends of the caller, and with `delType` 2 the caller from their lists. For back ends alone.
enum DeleteAllFriends: ChainChange {
    typealias Answer = ChainAnswer
    static let description = OpenAPI.Operation(
        name: "deleteAllFriends",
        summary: "Removes up to \(ChainCall.deletedMax) friends of the caller. Repeat it until resultList is empty. "
            + "Only for tokens with role \"admin\".",
        request: Schema.object([Schema.required("delType", DeleteFriends.type), Schema.asUser]), isBodyRequired: true,
        answer: Schema.chainOutcomes, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .chain(.deleteAll(isTwoWay: try DeleteFriends.isTwoWay(fields))), subject: subject, errors: [])
    }
}
