import PresenceWire

/// `logout`: ends one session of the user, or all sessions.
enum Logout: OwnerDecision {
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

    static func write(_ answer: DoneAnswer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        json.object { _ in }
    }
}

extension Logout {
    /// Ends one session of the user, or all of them.
    static func perform(
        _ request: LogoutRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<DoneAnswer> {
        let (session, user) = (request.session, owner.index(of: call.id))
        if let session, Listener.end(session, of: user, by: &owner, &outbox) { return .now(DoneAnswer()) }
        let ended = owner.users[user].sessions.filter { session == nil || $0.id == session }
        for session in ended where session.graceDeadline == nil {
            outbox.send(.end(session.id, user: call.id, reason: SessionEnd.logout), to: session.peer)
        }
        owner.counters.logouts += UInt64(ended.count { !$0.isCounted })
        owner.users.modify(user) { user in
            if !ended.isEmpty { user.noteSeen(at: call.now.wall) }
            user.sessions.removeAll { session == nil || $0.id == session }
            if session == nil { user.confirmationDeadline = nil }
            if session == nil || !ended.isEmpty { user.statusAfterLast = .unlogined }
        }
        let change = StatusChange(end: session == nil ? .logout : nil, departed: ended)
        if !owner.refresh(user, change, in: &outbox[at: call.now]) { call.writeAgain(user, of: owner, into: &outbox) }
        return .whenStored(DoneAnswer())
    }
}

extension Call {
    /// Ends a session; nil for all sessions of the caller.
    public static func logout(_ session: SessionID?) -> Call { .owner(.logout(session)) }
}
