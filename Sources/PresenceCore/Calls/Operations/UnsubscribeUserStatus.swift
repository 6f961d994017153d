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

    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { json in json.member("errorUserList", call.errors + answer.unknown.map { UserError(unknown: $0) }) }
    }

    static func countRejections(in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections) {
        rejections.count(.registered, answer.unknown.count)
    }
}
