import PresenceWire

/// `setSelfStatus`: sets the custom status, or clears it (T11, T14).
enum SetSelfStatus: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "setSelfStatus", summary: "Sets the caller's custom status; empty or null clears it.",
        request: Schema.object([
            Schema.required("customStatus", Schema.nullable(Schema.text(bytesMax: OpenAPI.standard.customStatusBytesMax))),
            Schema.optional(
                "expiry",
                Schema.integer(
                    Limits.customStatusSeconds.lowerBound...OpenAPI.standard.customStatusSecondsMax,
                    """
                    Seconds, at most customStatus.ttlMax. Default customStatus.ttl; 0 means until the text is cleared. A text with an expiry \
                    stays when the user goes OFFLINE, unless customStatus.needsSession is on.
                    """)),
            Schema.asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([Schema.required("userStatus", Schema.reference("UserStatus"))]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard fields.names("customStatus") else {
            throw .parameter("customStatus: is missing; it must be a string, or \"\" or null to clear the custom status")
        }
        let text = try fields.text("customStatus", bytesMax: Int(policy.customStatusBytesMax), by: .customStatus) ?? ""
        let range = Limits.customStatusSeconds.lowerBound...policy.customStatusSecondsMax
        let seconds = try fields.integer("expiry", in: range, by: .ttl)
        return API.Parsed(call: .setSelfStatus(customStatus: text, seconds: seconds), subject: subject, errors: [])
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .ownStatus }

    static func write(_ answer: OwnStatusAnswer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        json.object { json in json.ownStatus(answer, policy) }
    }
}

extension OwnerRequest {
    /// Sets the custom status, or clears it.
    func setSelfStatus(_ customStatus: String, _ seconds: Int64?, on owner: inout Owner, into outbox: inout Outbox) {
        guard customStatus.isEmpty || maySetCustomStatus(owner) else { return answer(.refused(.noSession), into: &outbox) }
        let user = owner.index(of: id)
        let validity = seconds ?? owner.policies.policy(of: id).customStatusSeconds
        let change = StatusChange(
            customStatus: customStatus, customStatusExpiresAt: validity > 0 ? now.wall + validity * 1_000 : 0,
            customStatusHasOwnEnd: seconds != nil)
        if !owner.refresh(user, change, at: now, into: &outbox) { writeAgain(user, of: owner, into: &outbox) }
        answerWhenStored(.record(owner.record(of: id)), into: &outbox)
    }

    /// Whether the user may set a custom status: where the policy demands a session (T11), one is open.
    private func maySetCustomStatus(_ owner: borrowing Owner) -> Bool {
        guard owner.policies.policy(of: id).customStatusNeedsSession else { return true }
        guard let user = owner.users.index(of: id) else { return false }
        return owner.users[user].status(with: owner.users[user].record.pushDevices).status == .online
    }
}
