import PresenceWire

/// `publishEvent`: publishes a numeric status that the app defines (N10).
enum PublishEvent: OwnerDecision {
    static let description = OpenAPI.Operation(
        name: "publishEvent", summary: "Publishes an event: a numeric status that the app defines.",
        request: Schema.object([
            Schema.required("value", Schema.integer(Limits.eventValueMin...Int64(Int32.max), "Smaller values are reserved.")),
            Schema.optional("ext", Schema.text(bytesMax: Limits.eventBytesMax)),
            Schema.optional("expiry", Schema.integer(Limits.eventSeconds, "Seconds; \(Limits.eventSeconds.upperBound) by default.")),
            Schema.optional(
                "sendToOnlineUsersOnly",
                Schema.described(Schema.bool, "Default true. With false, sessions that log in later raise the event as well.")),
            Schema.optional(
                "syncEnabled",
                Schema.described(
                    Schema.bool, "Default true. With false, the publisher's other sessions receive the event and do not raise it.")),
            Schema.optional(
                "sessionID",
                Schema.described(
                    Schema.sessionID,
                    "The session that publishes, from onConnected. Default: the only session of the user on the connection, else on the node, "
                        + "else in the cluster; where there are several, no session.")), Schema.asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("eventID", Schema.string), Schema.required("userStatus", Schema.reference("UserStatus")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard let value = try fields.integer("value", in: Limits.eventValueMin...Int64(Int32.max)) else {
            throw .parameter("value: is missing; it must be an integer of \(Limits.eventValueMin) or more")
        }
        let call = Call.publishEvent(
            value: value, ext: try fields.text("ext", bytesMax: Limits.eventBytesMax) ?? "",
            seconds: try fields.integer("expiry", in: Limits.eventSeconds) ?? Limits.eventSeconds.upperBound,
            isForOnlineOnly: try fields.bool("sendToOnlineUsersOnly") ?? true, isSynced: try fields.bool("syncEnabled") ?? true)
        return API.Parsed(call: call, subject: subject, errors: [], session: try fields.session())
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .events }

    static let takesKey = true

    static func write(_ answer: RecordAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        let record = answer.record
        json.object { json in
            json.member("eventID", (record.events.newest?.id ?? record.version).text)
            json.ownStatus(answer, policy)
        }
    }
}

/// Publishes an event that ends after some seconds.
struct PublishRequest: OwnRequest {
    typealias Answer = RecordAnswer

    /// The event, whose ID and end the owner sets.
    let event: PublishedEvent
    let seconds: Int64
}

extension PublishEvent {
    /// Publishes an event. A repeated call publishes once.
    static func perform(
        _ request: PublishRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<RecordAnswer> {
        _ = owner.accepts(call.request.begunAt, at: call.now)
        let user = owner.index(of: call.id)
        if isPublished(request.event, by: call, in: owner.users[user].record) {
            outbox.rows.append(Row(owner.users[user].record))
        } else {
            let change = StatusChange(events: .publish(request.event, seconds: request.seconds))
            owner.refresh(user, change, in: &outbox[at: call.now])
        }
        return .whenStored(RecordAnswer(record: owner.record(of: call.id)))
    }

    /// Whether an earlier attempt of this call has published the event.
    private static func isPublished(_ event: PublishedEvent, by call: OwnerRequest, in record: Record) -> Bool {
        guard call.request.isRepeated, let done = record.events.newest else { return false }
        return done.id > call.request.begunAt && done.value == event.value && done.ext == event.ext
    }
}
