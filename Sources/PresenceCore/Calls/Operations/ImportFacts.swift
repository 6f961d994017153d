import PresenceWire

/// `importFacts`: takes facts of one user that an export has written. The user's owner decides about each.
enum ImportFacts: OperatorOperation {
    typealias Answer = FactImportAnswer
    static let description = OpenAPI.Operation(
        name: "importFacts",
        summary:
            "Takes facts of one user, as an export has them, into the user's lists. Each is judged by itself, and a fact that the user has "
            + "stays as it is.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.required(
                "facts",
                [
                    "type": "array", "minItems": 1, "maxItems": .integer(Int64(PortableFact.callMax)),
                    "items": Schema.object([
                        Schema.required("kind", ["type": "string", "enum": .array(PortableFact.kinds.map { .string($0.name) })]),
                        Schema.optional("key", Schema.text(bytesMax: Limits.nameBytesMax)), Schema.required("value", ["type": "object"]),
                        Schema.optional("expiresAt", Schema.integer(0...Limits.times.upperBound, "Milliseconds since 1970 (UTC).")),
                    ]),
                ]),
            Schema.optional(
                "isDryRun", Schema.described(Schema.bool, "Whether the answer says what would become of each fact, and nothing is changed.")
            ),
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required(
                "resultList",
                Schema.described(
                    Schema.list(
                        of: Schema.object([
                            Schema.required("resultCode", Schema.integer), Schema.required("resultInfo", Schema.string),
                            Schema.required("isNew", Schema.described(Schema.bool, "false if the user has the fact, or if it is refused.")),
                        ])), "What has become of each fact, in their order."))
        ]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let user = try fields.user("userID", besides: caller)
        guard let facts = try fields.objects("facts", count: 1...PortableFact.callMax, by: fact) else {
            throw .parameter("facts: is missing; it must be an array of 1 to \(PortableFact.callMax) objects")
        }
        let bytesCount = facts.reduce(0) { $0 + $1.value.count }
        guard bytesCount <= PortableFact.callBytesMax else {
            throw .parameter("facts: the values have \(bytesCount) bytes; at most \(PortableFact.callBytesMax) are allowed in one call")
        }
        let request = FactImportRequest(facts, isDryRun: try fields.bool("isDryRun") ?? false)
        return API.Parsed(call: .owner(.importFacts(request)), subject: user, errors: [])
    }

    private static func fact(_ fields: Fields) throws(Problem) -> PortableFact {
        guard let name = try fields.text("kind", bytesMax: Limits.nameBytesMax), let kind = Row.Kind(name: name),
            PortableFact.kinds.contains(kind)
        else { throw .parameter("kind: must be one of \(PortableFact.kinds.map(\.name).joined(separator: ", "))") }
        guard case .object? = fields.value("value"), let value = fields.value("value") else {
            throw .parameter("value: must be an object")
        }
        var json = JSONWriter(reserving: 256)
        json.value(value)
        guard json.bytes.count <= PortableFact.valueBytesMax else {
            throw .parameter("value: has \(json.bytes.count) bytes; at most \(PortableFact.valueBytesMax) are allowed")
        }
        return PortableFact(
            kind: kind, key: try fields.text("key", bytesMax: Limits.nameBytesMax) ?? "", value: json.bytes,
            expiresAt: try fields.integer("expiresAt", in: 0...Limits.times.upperBound))
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            json.array("resultList", answer.outcomes) { json, outcome in
                json.object { json in
                    var (code, reason) = (0, "")
                    if case .refused(let refused, let words) = outcome { (code, reason) = (refused, words) }
                    json.member("resultCode", Int64(code))
                    json.member("resultInfo", reason)
                    json.member("isNew", outcome == .imported)
                }
            }
        }
    }
}

extension FactImportAnswer: OperationAnswer {}

extension ImportFacts: RequestDecision {
    /// Takes the facts into the user's lists.
    static func perform(
        _ request: FactImportRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<FactImportAnswer> {
        .whenStored(FactImportAnswer(FactImport.perform(request, of: call.id, on: &owner, in: &outbox[at: call.now])))
    }
}
