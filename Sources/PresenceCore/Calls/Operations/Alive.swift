import PresenceWire

/// `alive`: the sign of life of a client whose stream has promised such signs.
///
/// Any node takes the call. The owner of the user forwards it to the node of the session, as it forwards a renewal.
enum Alive: ClientOperation {
    typealias Answer = DoneAnswer
    static let description = OpenAPI.Operation(
        name: "alive",
        summary: "Shows that the client of a session runs. A stream that was opened with alive=client needs it within heartbeatTimeout.",
        request: Schema.object([
            Schema.required("sessionID", Schema.described(Schema.sessionID, "The session, from onConnected.")), Schema.asUser,
        ]), isBodyRequired: true,
        answer: ["type": "object"], refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard let session = try fields.session() else { throw .parameter("sessionID: is missing; it must be that of onConnected") }
        return API.Parsed(call: .alive(session), subject: subject, errors: [], session: session)
    }
}

extension Call {
    /// A renewal that moves the end of no session. Only the sign of life is left of it.
    public static func alive(_ session: SessionID) -> Call { .renew(session, until: .min) }
}
