import PresenceWire

/// `streamTicket`: returns a ticket with which a browser's `EventSource` opens one event stream.
enum StreamTicket: ClientOperation {
    static let description = OpenAPI.Operation(
        name: "streamTicket",
        summary: "Returns a ticket that opens one event stream: GET /v1/events?ticket=…, without an Authorization header.",
        request: Schema.object([Schema.asUser]),
        answer: Schema.object([
            Schema.required("ticket", Schema.string),
            Schema.required("expiresInSeconds", Schema.integer),
        ]), refusals: [.wrongRole, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .issueTicket(""), subject: subject, errors: [])
    }

    static func write(_ answer: CallAnswer, to caller: UserID, _ errors: [UserError], _ policy: Policy, into json: inout JSONWriter)
        throws(Problem)
    {
        guard case .ticket(let text) = answer else { preconditionFailure("streamTicket is answered with \(answer)") }
        json.object { json in
            json.member("ticket", text)
            json.member("expiresInSeconds", StreamTickets.lifetime.components.seconds)
        }
    }
}
