import PresenceWire

/// `clusterLoad`: returns the load of every live node, and how far each is with the webhook of the app.
///
/// `recentLoad` and the metrics are those of one node. A page of one node cannot read the ops ports of the others, which need not be
/// reachable from the browser.
enum ClusterLoad: OperatorOperation {
    static let description = OpenAPI.Operation(
        name: "clusterLoad", summary: "Returns the load of every node that answers, and how far each is with the webhook of the app.",
        request: Schema.object([]),
        answer: Schema.object([
            Schema.required("nodes", Schema.described(Schema.list(of: node), "The nodes that have answered, by name."))
        ]))

    private static let node = Schema.object([
        Schema.required("node", Schema.string), Schema.required("startedAt", Schema.time),
        Schema.required("usersOnline", Schema.described(Schema.integer, "ONLINE users of all apps that the node owns.")),
        Schema.required("usersOnlineOfApp", Schema.described(Schema.integer, "Those of the app of the token.")),
        Schema.required("sessions", Schema.described(Schema.integer, "Open sessions of all apps.")),
        Schema.required("listeners", Schema.described(Schema.integer, "Open streams with presence=none. They do not count as sessions.")),
        Schema.required("logins", Schema.described(Schema.integer, "Sessions that were opened since the start of the node.")),
        Schema.required("logouts", Schema.integer),
        Schema.required("lost", Schema.described(Schema.integer, "Sessions that ended without a logout.")),
        Schema.required(
            "webhook",
            Schema.described(
                Schema.object([
                    Schema.required("isCircuitOpen", Schema.bool), Schema.required("failuresInARow", Schema.integer),
                    Schema.required("bytesWaiting", Schema.integer),
                ]), "The webhook of the app of the token.")),
        Schema.required(
            "webhooksOfAllApps",
            Schema.described(
                Schema.object(
                    ["accepted", "failed", "events", "expired", "full", "backlog"].map { Schema.required($0, Schema.integer) }),
                "Deliveries by their end, delivered events, and dead letters by their reason, since the start of the node.")),
    ])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        API.Parsed(call: .clusterLoad, subject: caller, errors: [])
    }

    static func write(
        _ answer: Explain.Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter
    ) throws(Problem) {
        let parts = answer.parts.filter { $0.part == .load }.map(\.json).sorted { $0.lexicographicallyPrecedes($1) }
        json.object { $0.array("nodes", parts) { $0.value($1) } }
    }
}
