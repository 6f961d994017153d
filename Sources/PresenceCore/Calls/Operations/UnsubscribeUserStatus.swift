import PresenceWire

/// `unsubscribeUserStatus`: ends the subscriptions to some users, or all of them.
enum UnsubscribeUserStatus: ClientOperation {
    /// The users of the call whom the app does not know.
    struct Answer: OperationAnswer {
        let unknown: [UserID]

        init?(_ answer: CallAnswer) {
            switch answer {
            case .done: unknown = []
            case .unsubscribed(let users): unknown = users
            default: return nil
            }
        }
    }

    static let description = OpenAPI.Operation(
        name: "unsubscribeUserStatus", summary: "Ends the subscriptions to some users, or all subscriptions.",
        request: [
            "anyOf": [
                Schema.object([
                    Schema.required("userIDs", Schema.users(max: OpenAPI.standard.unsubscribeUsersMax)),
                    Schema.sometimes("all", ["anyOf": [["type": "boolean", "const": false], ["type": "null"]]]), Schema.oneType,
                    Schema.originSession,
                    Schema.asUser,
                ]),
                Schema.object([
                    Schema.required("all", ["type": "boolean", "const": true]), Schema.sometimes("userIDs", ["type": "null"]),
                    Schema.oneType,
                    Schema.originSession,
                    Schema.asUser,
                ]),
            ]
        ], isBodyRequired: true,
        answer: Schema.object([Schema.required("errorUserList", Schema.errors)]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let type = try fields.subscribeType()
        if try fields.bool("all") ?? false {
            guard !fields.has("userIDs") else { throw .parameter("all: give either \"all\": true or userIDs, not both") }
            let call = Call.unsubscribeUserStatus(nil, subscribeType: type)
            return API.Parsed(call: call, subject: subject, errors: [], session: try fields.session())
        }
        let (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.unsubscribeUsersMax))
        let call = Call.unsubscribeUserStatus(users, subscribeType: type)
        return API.Parsed(call: call, subject: subject, errors: errors, session: try fields.session())
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .others }

    static func write(_ answer: Answer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        json.object { json in json.member("errorUserList", errors + answer.unknown.map { UserError(unknown: $0) }) }
    }

    static func countRejections(in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections) {
        rejections.count(.registered, answer.unknown.count)
    }
}

extension OwnerRequest {
    /// Ends the subscriptions to some users, or all of them.
    func unsubscribe(
        _ targets: [UserID]?, of type: UInt8?, by session: OriginSession, on owner: inout Owner, into outbox: inout Outbox
    ) {
        if type.map(Subscription.isOfProfile) ?? true { unsubscribeProfiles(of: targets, type, by: session, on: &owner, into: &outbox) }
        guard type.map({ !Subscription.isOfProfile($0) }) ?? true else { return answerWhenStored(.done, into: &outbox) }
        let user = owner.index(of: id)
        let version = owner.clock.next(at: now.wall)
        let inactive = SubscriptionQuota(user: user).inactive(of: owner)
        let unknownAt = owner.listsMayBeIncomplete ? now.wall : nil
        let (ended, others) = owner.users.modify(user) {
            $0.subscriptions.unsubscribe(targets, of: type, version: version, unknownAt: unknownAt)
        }
        // Gateways may follow targets that this node does not know, because nodes that have not answered may have sent them.
        let isDoubtful = owner.listsMayBeIncomplete && targets != nil
        owner.drop(isDoubtful ? ended + others : ended, of: user, by: session, into: &outbox)
        SubscriptionQuota(user: user).sendActivity(inactiveBefore: inactive, by: &owner, in: &outbox[at: now])
        if !isDoubtful { outbox.rows += others.map { Row($0, of: id) } }
        answerWhenStored(.done, into: &outbox)
    }
}
