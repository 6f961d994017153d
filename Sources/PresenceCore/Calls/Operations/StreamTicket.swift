import PresenceWire

/// `streamTicket`: returns a ticket with which a browser's `EventSource` opens one event stream.
enum StreamTicket: ClientOperation {
    struct Answer: PlainAnswer {
        let ticket: String

        init?(_ answer: CallAnswer) {
            guard case .ticket(let ticket) = answer else { return nil }
            self.ticket = ticket
        }

        func write(_ errors: [UserError], into json: inout JSONWriter) {
            json.object { json in
                json.member("ticket", ticket)
                json.member("expiresInSeconds", StreamTickets.lifetime.components.seconds)
            }
        }
    }

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
}

extension Call {
    /// Keeps a new ticket for an event stream of the caller, at the caller's owner.
    public static func issueTicket(_ ticket: String) -> Call { .owner(.issueTicket(ticket)) }

    /// Uses a ticket.
    public static func redeemTicket(_ ticket: String) -> Call { .owner(.redeemTicket(ticket)) }
}
