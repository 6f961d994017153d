import PresenceWire

/// `importUsers`: registers users. The owner of each user decides.
///
/// The answer comes after all users that are not in `errorUserList` are on disk. A repeated import succeeds.
enum ImportUsers: OperatorOperation {
    /// The users whose owners have not confirmed the registration.
    struct Answer: PlainAnswer {
        let failed: [UserID]

        init?(_ answer: CallAnswer) {
            guard case .imported(let failed) = answer else { return nil }
            self.failed = failed
        }

        func write(_ errors: [UserError], into json: inout JSONWriter) {
            let failed = failed.map { UserError(userID: String($0.id), code: 50001, reason: Refusal.notDurable.afterPassingOn.detail) }
            json.object { json in json.member("errorUserList", errors + failed) }
        }
    }

    static let description = OpenAPI.Operation(
        name: "importUsers",
        summary: "Registers users, where users.mustBeRegistered is on. A user who logs in is registered without an import.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.importUsersMax))]), isBodyRequired: true,
        answer: Schema.object([Schema.required("errorUserList", Schema.errors)]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: caller, countMax: Limits.importUsersMax)
        return API.Parsed(call: .importUsers(found.users), subject: caller, errors: found.errors)
    }
}

extension ImportUsers {
    /// Asks the owner of each user. The answer names the users that could not be registered.
    static func begin(
        _ users: [UserID], for call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        // No owner answers a call whose users are all invalid.
        if users.isEmpty { return calls.finish(call, .imported(failed: []), edge, &cluster) }
        for user in users { calls.ask(.register, of: user, for: call, &cluster) }
    }
}
