import PresenceWire

/// `renew`: moves the end of a session to that of the token that makes the call.
///
/// The session's stream stays. The owner of the user forwards the time to the node of the session, so any node takes the call.
enum Renew: ClientOperation {
    typealias Answer = DoneAnswer
    static let description = OpenAPI.Operation(
        name: "renew",
        summary: "Moves the end of a session to that of the call's token. The stream stays. A token that ends earlier changes nothing.",
        request: Schema.object([
            Schema.required("sessionID", Schema.described(Schema.sessionID, "The session, from onConnected.")), Schema.asUser,
        ]), isBodyRequired: true,
        answer: ["type": "object"], refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard let session = try fields.session() else { throw .parameter("sessionID: is missing; it must be that of onConnected") }
        return API.Parsed(call: .renew(session, until: 0), subject: subject, errors: [])
    }

    /// Forwards the end of a newer token to the node of the session, as a sign of life of the client. Returns the owner's answer.
    static func perform(
        _ request: RenewRequest, of user: UserID, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) -> PresenceWire.Answer {
        guard let index = owner.users.index(of: user),
            let session = owner.users[index].streams.first(where: { $0.id == request.session && $0.graceDeadline == nil })
        else { return .refused(Refusal(code: 6017, detail: "sessionID: is not an open session of the user")) }
        cluster.send(.renew(session.id, user: user, until: request.expiresAt), to: session.peer)
        return .done
    }
}

extension Call {
    /// Moves the end of a session to that of the call's token, and shows that its client is alive.
    public static func renew(_ session: SessionID, until expiresAt: Milliseconds) -> Call { .owner(.renew(session, until: expiresAt)) }
}
