import PresenceWire

/// `exportUser`: returns all that the cluster holds about one user, page by page.
///
/// The user's owner has the user's own facts and sessions. All nodes name the users who have a fact about the user.
enum ExportUser: OperatorOperation {
    typealias Answer = UserExport

    /// The parts of a page that have arrived.
    struct Parts {
        var facts: [[UInt8]] = []
        /// The last fact of the page; nil if it was the user's last.
        var factsEnd: FactPosition?
        var mentions: [Mention] = []
        /// The first slot that a node has not searched; nil if every node has searched all.
        var mentionsEnd: Slot?
        /// The times that all nodes were asked for mentions.
        var roundsCount = 0
    }

    static let description = OpenAPI.Operation(
        name: "exportUser",
        summary:
            "Returns all that the cluster holds about one user, page by page: the status, the sessions, the profile, the lists, and the "
            + "users whose lists have the user.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.optional(
                "cursor",
                Schema.text(
                    bytesMax: FactPosition.textBytesMax, pattern: UserExport.Position.pattern,
                    "From the page before; without it the first page.")),
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.sometimes(
                "sessions",
                Schema.described(
                    Schema.list(
                        of: Schema.object(Schema.ownSession + [Schema.required("node", Schema.string)])),
                    "The open sessions; on the first page.")),
            Schema.required("facts", Schema.list(of: fact)),
            Schema.required(
                "mentionedBy",
                Schema.described(
                    Schema.list(
                        of: Schema.object([Schema.required("userID", Schema.reference("UserID")), Schema.required("kind", Schema.string)])),
                    "The users who have a fact about the user, and its kind.")),
            Schema.sometimes("cursor", Schema.described(Schema.string, "Present if more pages follow.")),
        ]))

    /// A fact, as exports have it and imports take it.
    static let fact = Schema.object([
        Schema.required("userID", Schema.reference("UserID")),
        Schema.required("kind", ["type": "string", "enum": .array(Row.Kind.ofUsers.map { .string($0.name) })]),
        Schema.required("key", Schema.described(Schema.string, "The other user, or the number of a group; empty if there is one fact.")),
        Schema.required("value", ["type": "object"]), Schema.sometimes("expiresAt", Schema.time),
    ])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let user = try fields.user("userID", besides: caller)
        let text = try fields.text("cursor", bytesMax: FactPosition.textBytesMax)
        let position = text.flatMap { UserExport.Position(text: $0) }
        if text != nil, position == nil { throw .parameter("cursor: is not the cursor of an earlier page") }
        return API.Parsed(call: .exportUser(after: position), subject: user, errors: [])
    }

    static func write(_ page: UserExport, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            json.member("userID", parsed.subject.id)
            if let sessions = page.sessions { json.array("sessions", sessions) { $0.session($1) } }
            json.array("facts", page.facts) { $0.value($1) }
            json.array("mentionedBy", page.mentions) { json, mention in
                json.object { json in
                    json.member("userID", mention.user.id)
                    json.member("kind", mention.kind.name)
                }
            }
            if let end = page.end { json.member("cursor", end.text) }
        }
    }
}

extension UserExport: OperationAnswer {
    package init?(_ answer: CallAnswer) {
        guard case .userExported(let page) = answer else { return nil }
        self = page
    }
}

extension ExportUser: OwnerReading {
    typealias Request = FactExportRequest

    /// Reads a page of the user's own facts.
    static func read(
        _ request: FactExportRequest, of call: OwnerRequest, at owner: borrowing Owner
    ) -> OwnerReply<FactExportAnswer> {
        .asWritten(FactExport(id: call.id, request: request).page(of: owner))
    }
}

extension ExportUser {
    /// The times that one call asks all nodes for mentions, so that it ends long before its deadline.
    private static let roundsMax = 8

    /// Sends the requests of the first part of a page.
    static func begin(
        after position: UserExport.Position?, of user: UserID, for call: PendingCalls.CallIndex, _ calls: inout Calls,
        _ cluster: inout Cluster
    ) {
        switch position {
        case nil:
            calls.askSessions(of: [user], for: call, &cluster)
            calls.ask(.exportFacts(FactExportRequest(after: nil, isWhole: true)), of: user, for: call, &cluster)
        case .facts(let fact):
            calls.ask(.exportFacts(FactExportRequest(after: fact, isWhole: true)), of: user, for: call, &cluster)
        case .mentions(let slot): askForMentions(of: user, from: slot, for: call, &calls, &cluster)
        }
    }

    private static func askForMentions(
        of user: UserID, from slot: Slot, for call: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.export.roundsCount += 1
        calls.waiting[call]?.answered.export.mentionsEnd = nil
        calls.askAllNodes(.mentions(MentionRequest(from: slot)), of: user, for: call, &cluster)
    }

    /// Takes the facts of the user's owner.
    static func take(
        _ answer: FactExportAnswer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.export.facts = answer.facts
        calls.waiting[call]?.answered.export.factsEnd = answer.next
        advance(call, &calls, edge, &cluster)
    }

    /// Takes the mentions of one node.
    static func take(
        _ answer: MentionAnswer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.export.mentions += answer.mentions
        if let next = answer.next {
            let end = calls.waiting[call]?.answered.export.mentionsEnd ?? .max
            calls.waiting[call]?.answered.export.mentionsEnd = min(end, next)
        }
        advance(call, &calls, edge, &cluster)
    }

    /// Continues after all requests of a part are answered.
    static func advance(
        _ call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        guard let pending = calls.waiting[call], pending.openCount == 0 else { return }
        let parts = pending.answered.export
        if let end = parts.factsEnd { return finish(call, pending, at: .facts(end), &calls, edge, &cluster) }
        if parts.roundsCount == 0 { return askForMentions(of: pending.caller, from: 0, for: call, &calls, &cluster) }
        guard let end = parts.mentionsEnd else { return finish(call, pending, at: nil, &calls, edge, &cluster) }
        // A node that has searched further repeats these slots.
        calls.waiting[call]?.answered.export.mentions.removeAll { $0.user.slot >= end }
        let hasRoom = (calls.waiting[call]?.answered.export.mentions.count ?? 0) < MentionSearch.mentionsMax
        if hasRoom, parts.roundsCount < roundsMax {
            return askForMentions(of: pending.caller, from: end, for: call, &calls, &cluster)
        }
        guard let pending = calls.waiting[call] else { return }
        finish(call, pending, at: .mentions(end), &calls, edge, &cluster)
    }

    private static func finish(
        _ call: PendingCalls.CallIndex, _ pending: PendingCalls.Pending, at end: UserExport.Position?, _ calls: inout Calls,
        _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        guard case .exportUser(let position) = pending.call else { return }
        let parts = pending.answered.export
        let mentions = parts.mentions.sorted { first, second in
            (first.user.slot, first.user, first.kind.rawValue) < (second.user.slot, second.user, second.kind.rawValue)
        }
        let page = UserExport(
            sessions: position == nil ? pending.answered.sessions[pending.caller] ?? [] : nil, facts: parts.facts, mentions: mentions,
            end: end)
        calls.finish(call, .userExported(page), edge, &cluster)
    }
}
