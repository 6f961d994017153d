import PresenceWire

/// `logout`: ends one session of the user, or all sessions.
enum Logout: OwnerDecision {
    typealias Answer = DoneAnswer
    static let description = OpenAPI.Operation(
        name: "logout", summary: "Ends one session of the user, or all sessions. After the last one the user is UNLOGINED.",
        request: Schema.object([
            Schema.optional(
                "sessionID", Schema.described(Schema.sessionID, "The session to end, from onConnected; default: every session of the user.")
            ),
            Schema.asUser,
        ]),
        answer: ["type": "object"], refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .logout(try fields.session()), subject: subject, errors: [])
    }
}

extension Logout {
    /// Ends one session of the user, or all of them.
    static func perform(
        _ request: LogoutRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<DoneAnswer> {
        let user = owner.index(of: call.id)
        if let session = request.session, Listener.end(session, of: user, by: &owner, &outbox) { return .now(DoneAnswer()) }
        let isPublished = UserCall(id: call.id, now: call.now).logout(request.session, of: &owner, into: &outbox)
        if !isPublished { call.writeAgain(user, of: owner, into: &outbox) }
        return .whenStored(DoneAnswer())
    }
}

extension Call {
    /// Ends a session; nil for all sessions of the caller.
    public static func logout(_ session: SessionID?) -> Call { .owner(.logout(session)) }
}
