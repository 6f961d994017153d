import PresenceWire

/// `getSessions`: returns the caller's own open sessions.
enum GetSessions: ClientOperation {
    /// The sessions, and the one that calls.
    struct Answer: OperationAnswer {
        let sessions: [UserSession]
        let current: SessionID?

        init?(_ answer: CallAnswer) {
            guard case .ownSessions(let sessions, let current) = answer else { return nil }
            (self.sessions, self.current) = (sessions, current)
        }
    }

    static let description = OpenAPI.Operation(
        name: "getSessions", summary: "Returns the caller's open sessions, in the order of their logins. logout ends one of them.",
        request: Schema.object([
            Schema.optional(
                "sessionID",
                Schema.described(
                    Schema.sessionID,
                    "The session that calls, from onConnected. Default: the only session of the user on the connection, else on the node.")),
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required(
                "sessions",
                Schema.list(
                    of: Schema.object(
                        Schema.ownSession + [
                            Schema.required("node", Schema.described(Schema.string, "The node that holds the stream.")),
                            Schema.required("isCurrent", Schema.described(Schema.bool, "Whether it is the session that calls.")),
                        ])))
        ]),
        refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .owner(.sessions([subject])), subject: subject, errors: [], session: try fields.session())
    }

    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            json.key("sessions")
            json.array { json in for session in answer.sessions { json.session(session, isCurrent: session.id == answer.current) } }
        }
    }
}

extension Schema {
    /// The fields of an open session of a user.
    package static let ownSession = [
        required("sessionID", string), required("platform", string),
        required("deviceID", described(string, "Empty if the device has no name.")),
        required("since", described(time, "The time of the login.")),
    ]
}
