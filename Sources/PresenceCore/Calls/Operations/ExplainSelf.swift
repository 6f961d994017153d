import PresenceWire

/// `explainSelf`: explains to a user why others see it ONLINE, OFFLINE or UNLOGINED.
///
/// It is the part of `explain` about the user itself. It says nothing about others: neither who watches the user, nor from whom it is
/// hidden.
enum ExplainSelf: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "explainSelf", summary: "Explains why the caller is ONLINE, OFFLINE or UNLOGINED.", request: Schema.object([Schema.asUser]),
        answer: Schema.object([
            Schema.required("node", Schema.described(Schema.string, "The node that decides the status.")),
            Schema.required("userID", Schema.reference("UserID")), Schema.required("userStatus", Schema.reference("UserStatus")),
            Schema.required(
                "sessions",
                Schema.list(
                    of: Schema.object([
                        Schema.required("sessionID", Schema.string), Schema.required("platform", Schema.string),
                        Schema.required("deviceID", Schema.string), Schema.required("node", Schema.string),
                        Schema.sometimes(
                            "mayResumeForMilliseconds",
                            Schema.described(Schema.integer, "The session is disconnected. Until then the user stays ONLINE by it.")),
                    ]))), Schema.required("visibility", Schema.string),
            Schema.required("invisible", Schema.described(Schema.bool, "Whether the user is hidden from everyone for now.")),
            Schema.required("because", Schema.described(Schema.list(of: Schema.string), "The reasons, in words for people.")),
        ]),
        refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .owner(.explain(subject, .own)), subject: subject, errors: [])
    }

    static func write(_ answer: Explain.Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        guard let part = answer.parts.first, part.part == .own else { throw .wrongAnswer }
        json.value(part.json)
    }
}
