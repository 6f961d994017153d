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
}

/// Collects the answers of the owners to a `checkRelations`.
enum RelationGathering {
    /// Takes an owner's answer to a question about its users' lists.
    static func take(
        _ found: [UserID], by sent: PendingCalls.Sent, _ calls: inout Calls, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: inout Cluster, at now: Now
    ) {
        guard case .checkRelations(let check) = sent.request.operation, let pending = calls.waiting[sent.call],
            case .checkRelations(let users, let list, let isTwoWay) = pending.call
        else { return }
        switch (check.side, pending.phase) {
        case (.own, .running):
            // One-way, the answer about the other lists is no.
            let checks = PendingCalls.RelationChecks(own: found, answered: isTwoWay ? [] : users)
            calls.waiting[sent.call]?.phase = .checkingRelations(checks)
            if isTwoWay { calls.askOthers(users, whether: pending.caller, in: list, for: sent.call, &cluster) }
            guard owner.policies.policy(of: pending.caller).mustBeRegistered else { return }
            // The records show which users exist.
            calls.gather(users, for: sent.call, edge, owner, &cluster, at: now)
        case (.others(let asked, _), .checkingRelations(var checks)):
            checks.others += found
            checks.answered += asked
            calls.waiting[sent.call]?.phase = .checkingRelations(checks)
        case (.own, .checkingRelations), (_, .checkingCaller), (_, .checkingTargets), (.others, .running): break
        }
    }
}

extension PendingCalls.Pending {
    /// The result for each user, from the answers that have arrived. A record does not show that an `unsure` user does not exist.
    func relations(of users: [UserID], unsure: UnsureUsers) -> [UserRelation] {
        guard case .checkingRelations(let checks) = phase else { return [] }
        return users.enumerated().map { index, user in
            var isKnown = records.isEmpty ? true : records[index]?.isOfKnownUser
            if isKnown == false, unsure.contains(user) { isKnown = nil }
            let isAnswered = checks.answered.contains(user) && isKnown != nil
            return UserRelation(
                user: user, isListed: checks.own.contains(user), hasCaller: isAnswered ? checks.others.contains(user) : nil,
                isUnknown: isKnown == false)
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
                        required(
                            "resultCode",
                            described(
                                integer,
                                "0; 30003 for a user whom the app does not know, where users.mustBeRegistered is on; "
                                    + "or 50001 if the owner of the user's list did not answer.")),
                        required("resultInfo", described(string, "The result in words; empty for 0.")),
                        required("resultType", integer(0...3, types)),
                    ]))),
            required("errorUserList", errors),
        ])
    }
}

extension JSONWriter {
    fileprivate mutating func relation(_ relation: UserRelation) {
        let type: Int64 = (relation.isListed ? 1 : 0) + (relation.hasCaller == true ? 2 : 0)
        object { json in
            json.member("userID", relation.user.id)
            if relation.isUnknown {
                json.member("resultCode", Int64(ChainCode.noSuchUser.rawValue))
                json.member("resultInfo", ChainCode.noSuchUser.text)
            } else {
                let isAnswered = relation.hasCaller != nil
                json.member("resultCode", isAnswered ? 0 : Int64(Refusal.unavailable.code))
                json.member("resultInfo", isAnswered ? "" : Refusal.unavailable.detail)
            }
            json.member("resultType", type)
        }
    }
}
