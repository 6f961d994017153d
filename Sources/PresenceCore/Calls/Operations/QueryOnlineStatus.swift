import PresenceWire

/// `queryOnlineStatus`: returns the records of users, without the restrictions of the app's policy (X1).
enum QueryOnlineStatus: OperatorOperation {
    static let description = OpenAPI.Operation(
        name: "queryOnlineStatus",
        summary: "Returns the records of users without the restrictions of the app's policy and of visibility.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.queryUsersMax))]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
            Schema.required("asOf", Schema.time),
        ]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: caller, countMax: Limits.queryUsersMax)
        return API.Parsed(call: .getUserStatus(found.users), subject: caller, errors: found.errors)
    }

    static func write(_ answer: CallAnswer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        var shown = Policy()
        shown.mustBeRegistered = owner.policy(of: parsed.subject).mustBeRegistered
        try GetUserStatus.write(answer, to: parsed.subject, parsed.errors, shown, into: &json)
    }
}
