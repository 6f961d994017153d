import PresenceWire

/// `checkFriends`: tells which users are in the caller's list, and which have the caller in theirs (P18, P19).
enum CheckFriends: ChainOperation {
    typealias Answer = RelationsAnswer
    static let description = OpenAPI.Operation(
        name: "checkFriends", summary: "Tells which users are friends of the caller, in the caller's list or in both lists.",
        request: Schema.relationCheck, isBodyRequired: true,
        answer: Schema.relations(
            "0: no friends. 1: the user is in the caller's list. 2: the caller is in the user's. 3: both."),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        try fields.relationCheck(of: subject, in: .friends, policy)
    }
}

/// `checkBlackList`: tells which users the caller has blocked, and which have blocked the caller. For back ends alone: nobody else may
/// learn who has blocked a user.
enum CheckBlackList: ChainOperation {
    typealias Answer = RelationsAnswer
    static let description = OpenAPI.Operation(
        name: "checkBlackList",
        summary: "Tells which users the caller has blocked, and who has blocked the caller; only for tokens with role \"admin\".",
        request: Schema.relationCheck, isBodyRequired: true,
        answer: Schema.relations(
            "0: no block. 1: the caller has blocked the user. 2: the user has blocked the caller. 3: both."),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        try fields.relationCheck(of: subject, in: .blocked, policy)
    }
}

/// Whether each user of a check is in the list.
struct RelationsAnswer: PlainAnswer {
    let relations: [UserRelation]

    init?(_ answer: CallAnswer) {
        guard case .relationsChecked(let relations) = answer else { return nil }
        self.relations = relations
    }

    func write(_ errors: [UserError], into json: inout JSONWriter) {
        json.object { json in
            json.array("resultList", relations) { $0.relation($1) }
            json.member("errorUserList", errors)
        }
    }
}

extension Fields {
    fileprivate func relationCheck(of subject: UserID, in list: RelationCheck.List, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try otherUsers("userIDs", than: subject, policy)
        guard let type = try integer("checkType", in: 1...2) else {
            throw .parameter("checkType: is missing; it must be 1 (the caller's list) or 2 (also the lists of the users)")
        }
        return API.Parsed(call: .checkRelations(found.users, list, isTwoWay: type == 2), subject: subject, errors: found.errors)
    }
}

extension Calls {
    /// Asks the caller's owner, which also counts the call. The owners of the other users are asked after it has answered.
    mutating func checkRelations(
        _ users: [UserID], in list: RelationCheck.List, of caller: UserID, for call: PendingCalls.CallIndex, _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        // No owner answers a call whose users are all invalid.
        if users.isEmpty { return finish(call, .relationsChecked([]), edge, &cluster) }
        ask(.checkRelations(RelationCheck(.own(users), in: list)), of: caller, for: call, &cluster)
    }

    /// Asks the owners of users whether `other` is in their lists.
    mutating func askOthers(
        _ users: [UserID], whether other: UserID, in list: RelationCheck.List, for call: PendingCalls.CallIndex, _ cluster: inout Cluster
    ) {
        for (_, group) in cluster.placement.grouped(users) {
            ask(.checkRelations(RelationCheck(.others(group, other: other), in: list)), of: group[0], for: call, &cluster)
        }
    }

    /// Handles an owner's answer to a question about its users' lists.
    mutating func onChecked(_ found: [UserID], by sent: PendingCalls.Sent, _ cluster: inout Cluster) {
        guard case .checkRelations(let check) = sent.request.operation, let pending = waiting[sent.call],
            case .checkRelations(let users, let list, let isTwoWay) = pending.call
        else { return }
        switch (check.side, pending.phase) {
        case (.own, .running):
            // One-way, the answer about the other lists is no.
            let checks = PendingCalls.RelationChecks(own: found, answered: isTwoWay ? [] : users)
            waiting[sent.call]?.phase = .checkingRelations(checks)
            if isTwoWay { askOthers(users, whether: pending.caller, in: list, for: sent.call, &cluster) }
        case (.others(let asked, _), .checkingRelations(var checks)):
            checks.others += found
            checks.answered += asked
            waiting[sent.call]?.phase = .checkingRelations(checks)
        case (.own, .checkingRelations), (_, .checkingCaller), (_, .checkingTargets), (.others, .running): break
        }
    }
}

extension PendingCalls.Pending {
    /// The result for each user, from the answers that have arrived.
    func relations(of users: [UserID]) -> [UserRelation] {
        guard case .checkingRelations(let checks) = phase else { return [] }
        return users.map { user in
            UserRelation(
                user: user, isListed: checks.own.contains(user),
                hasCaller: checks.answered.contains(user) ? checks.others.contains(user) : nil)
        }
    }
}

extension OwnerRequest {
    /// The users for whom the answer is yes.
    func found(_ check: RelationCheck, of owner: borrowing Owner) -> [UserID] {
        let kind = check.list.kind
        switch check.side {
        case .own(let users):
            let listed = list(kind, of: owner)
            return users.filter { listed.contains(String($0.id)) }
        case .others(let users, let other):
            var found: [UserID] = []
            for user in users {
                guard let index = owner.index(ofKnown: user) else { continue }
                if owner.users[index].list(kind).contains(String(other.id)) { found.append(user) }
            }
            return found
        }
    }
}

extension RelationCheck.List {
    /// The rows of the list.
    fileprivate var kind: Row.Kind {
        switch self {
        case .friends: .friend
        case .blocked: .blocked
        }
    }
}

extension Schema {
    fileprivate static let relationCheck = object([
        required("userIDs", users(max: Limits.chainBatchMax)),
        required("checkType", integer(1...2, "1: the caller's list. 2: also the lists of the users.")), asUser,
    ])

    fileprivate static func relations(_ types: String) -> JSONValue {
        object([
            required(
                "resultList",
                list(
                    of: object([
                        required("userID", reference("UserID")),
                        required("resultCode", described(integer, "0, or 50001 if the owner of the user's list did not answer.")),
                        required("resultInfo", described(string, "The result in words; empty for 0.")),
                        required("resultType", integer(0...3, types)),
                    ]))),
            required("errorUserList", errors),
        ])
    }
}

extension JSONWriter {
    fileprivate mutating func relation(_ relation: UserRelation) {
        let isKnown = relation.hasCaller != nil
        let type: Int64 = (relation.isListed ? 1 : 0) + (relation.hasCaller == true ? 2 : 0)
        object { json in
            json.member("userID", relation.user.id)
            json.member("resultCode", isKnown ? 0 : Int64(Refusal.unavailable.code))
            json.member("resultInfo", isKnown ? "" : Refusal.unavailable.detail)
            json.member("resultType", type)
        }
    }
}
