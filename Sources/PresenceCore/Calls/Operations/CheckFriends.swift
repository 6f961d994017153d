import PresenceWire

/// `checkFriends`: tells which users are in the caller's list, and which have the caller in theirs (P18, P19).
enum CheckFriends: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "checkFriends", summary: "Tells which users are friends of the caller, in the caller's list or in both lists.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: Limits.chainBatchMax)),
            Schema.required("checkType", Schema.integer(1...2, "1: the caller's list. 2: also the lists of the users.")),
            Schema.asUser,
        ]), isBodyRequired: true, answer: Schema.friendRelations, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.otherUsers("userIDs", than: subject, policy)
        guard let type = try fields.integer("checkType", in: 1...2) else {
            throw .parameter("checkType: is missing; it must be 1 (the caller's list) or 2 (also the lists of the users)")
        }
        return API.Parsed(call: .checkFriends(found.users, isTwoWay: type == 2), subject: subject, errors: found.errors)
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .chain }

    static func write(_ answer: CallAnswer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        guard case .friendsChecked(let relations) = answer else { preconditionFailure("checkFriends is answered with \(answer)") }
        json.object { json in
            json.key("resultList")
            json.array { json in for relation in relations { json.relation(relation) } }
            json.member("errorUserList", errors)
        }
    }
}

extension Calls {
    /// Asks the caller's owner, which also counts the call. The owners of the other users are asked after it has answered.
    mutating func checkFriends(
        _ users: [UserID], of caller: UserID, for call: PendingCalls.CallIndex, _ edge: inout Edge, _ cluster: inout Cluster
    ) {
        // No owner answers a call whose users are all invalid.
        if users.isEmpty { return finish(call, .friendsChecked([]), &edge, &cluster) }
        ask(.checkFriends(.own(users)), of: caller, for: call, &cluster)
    }

    /// Asks the owners of users whether `friend` is in their lists.
    mutating func askOthers(_ users: [UserID], whether friend: UserID, for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for (_, group) in cluster.placement.grouped(users) {
            ask(.checkFriends(.others(group, friend: friend)), of: group[0], for: call, &cluster)
        }
    }

    /// Handles an owner's answer to a question about friends.
    mutating func onChecked(_ found: [UserID], by sent: PendingCalls.Sent, _ cluster: inout Cluster) {
        guard case .checkFriends(let check) = sent.request.operation, let pending = waiting[sent.call],
            case .checkFriends(let users, let isTwoWay) = pending.call
        else { return }
        switch (check, pending.phase) {
        case (.own, .running):
            // One-way, the answer about the other lists is no.
            let checks = PendingCalls.FriendChecks(own: found, answered: isTwoWay ? [] : users)
            waiting[sent.call]?.phase = .checkingFriends(checks)
            if isTwoWay { askOthers(users, whether: pending.caller, for: sent.call, &cluster) }
        case (.others(let asked, _), .checkingFriends(var checks)):
            checks.others += found
            checks.answered += asked
            waiting[sent.call]?.phase = .checkingFriends(checks)
        case (.own, .checkingFriends), (_, .checkingCaller), (.others, .running): break
        }
    }
}

extension PendingCalls.Pending {
    /// The result for each user, from the answers that have arrived.
    func friendRelations(of users: [UserID]) -> [FriendRelation] {
        guard case .checkingFriends(let checks) = phase else { return [] }
        return users.map { user in
            FriendRelation(
                user: user, isFriend: checks.own.contains(user),
                hasCaller: checks.answered.contains(user) ? checks.others.contains(user) : nil)
        }
    }
}

extension OwnerRequest {
    /// The users for whom the answer to a question about friends is yes.
    func found(_ check: FriendCheck, of owner: borrowing Owner) -> [UserID] {
        switch check {
        case .own(let users):
            let friends = list(.friend, of: owner)
            return users.filter { friends.contains(String($0.id)) }
        case .others(let users, let friend):
            var found: [UserID] = []
            for user in users {
                guard let index = owner.index(ofKnown: user) else { continue }
                if owner.users[index].list(.friend).contains(String(friend.id)) { found.append(user) }
            }
            return found
        }
    }
}

extension Schema {
    fileprivate static let friendRelations = object([
        required(
            "resultList",
            list(
                of: object([
                    required("userID", reference("UserID")),
                    required("resultCode", described(integer, "0, or 50001 if the owner of the user's list did not answer.")),
                    required("resultInfo", described(string, "The result in words; empty for 0.")),
                    required(
                        "resultType",
                        integer(0...3, "0: no friends. 1: the user is in the caller's list. 2: the caller is in the user's. 3: both.")),
                ]))),
        required("errorUserList", errors),
    ])
}

extension JSONWriter {
    fileprivate mutating func relation(_ relation: FriendRelation) {
        let isKnown = relation.hasCaller != nil
        let type: Int64 = (relation.isFriend ? 1 : 0) + (relation.hasCaller == true ? 2 : 0)
        object { json in
            json.member("userID", relation.user.id)
            json.member("resultCode", isKnown ? 0 : Int64(Refusal.unavailable.code))
            json.member("resultInfo", isKnown ? "" : Refusal.unavailable.detail)
            json.member("resultType", type)
        }
    }
}
