import PresenceWire

/// `setSelfStatus`: sets the custom status, or clears it (T11, T14).
enum SetSelfStatus: OwnerDecision {
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

    static func write(_ answer: RecordAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { json in json.ownStatus(answer, policy) }
    }
}

extension SetSelfStatus {
    /// Sets the custom status, or clears it.
    static func perform(
        _ request: CustomStatusRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<RecordAnswer> {
        guard request.customStatus.isEmpty || maySetCustomStatus(call.id, owner) else { return .refused(.noSession) }
        let user = owner.index(of: call.id)
        let validity = request.seconds ?? owner.policies.policy(of: call.id).customStatusSeconds
        let change = StatusChange(
            customStatus: request.customStatus, customStatusExpiresAt: validity > 0 ? call.now.wall + validity * 1_000 : 0,
            customStatusHasOwnEnd: request.seconds != nil)
        if !owner.refresh(user, change, in: &outbox[at: call.now]) { call.writeAgain(user, of: owner, into: &outbox) }
        return .whenStored(RecordAnswer(record: owner.record(of: call.id)))
    }

    /// Whether a user may set a custom status: where the policy demands a session (T11), one is open.
    private static func maySetCustomStatus(_ id: UserID, _ owner: borrowing Owner) -> Bool {
        guard owner.policies.policy(of: id).customStatusNeedsSession else { return true }
        guard let user = owner.users.index(of: id) else { return false }
        return owner.users[user].status(with: owner.users[user].record.pushDevices).status == .online
    }
}

extension Call {
    /// Sets the caller's custom status, or clears it with an empty text.
    public static func setSelfStatus(customStatus: String, seconds: Int64?) -> Call {
        .owner(.setSelfStatus(customStatus: customStatus, seconds: seconds))
    }
}
