import PresenceWire

/// `importUsers`: registers users. The owner of each user decides.
///
/// The answer comes after all users that are not in `errorUserList` are on disk. A repeated import succeeds.
enum ImportUsers: OperatorOperation {
    /// The users whose owners have not confirmed the registration.
    struct Answer: OperationAnswer {
        let failed: [UserID]

        init?(_ answer: CallAnswer) {
            guard case .imported(let failed) = answer else { return nil }
            self.failed = failed
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

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        let errors = answer.failed.map { UserError(userID: String($0.id), code: 50001, reason: Refusal.notDurable.detail) }
        json.object { json in json.member("errorUserList", parsed.errors + errors) }
    }
}

extension Calls {
    /// Asks the owner of each user. The answer names the users that could not be registered.
    mutating func importUsers(_ users: [UserID], for call: PendingCalls.CallIndex, _ edge: borrowing Edge, _ cluster: inout Cluster) {
        // No owner answers a call whose users are all invalid.
        if users.isEmpty { return finish(call, .imported(failed: []), edge, &cluster) }
        for user in users { ask(.register, of: user, for: call, &cluster) }
    }
}

extension OwnerRequest {
    /// Registers the user: the record says so, and every node that is asked about the user sees it.
    func register(on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        var record = owner.users[user].record
        // An earlier attempt may have failed, so that the fact is only on this disk.
        guard !record.isRegistered else {
            outbox.rows.append(Row(record))
            return answerWhenStored(.record(record), into: &outbox)
        }
        (record.isRegistered, record.version) = (true, owner.clock.next(at: now.wall))
        record.knownSince = owner.knownSince(ofNew: record)
        owner.users.modify(user) { $0.record = record }
        outbox.changes.append((record, owner.users[user].watchers))
        outbox.rows.append(Row(record))
        owner.schedule(user, at: now)
        answerWhenStored(.record(owner.record(of: id)), into: &outbox)
    }
}
