import PresenceWire

/// The parts of an OpenAPI description. The node composes the document (<doc:HTTPAPI>).
package enum OpenAPI {
    /// A call `POST <prefix>/<name>` with a JSON object.
    package struct Operation {
        package let name: String
        package let summary: String
        /// The schema of the body.
        package let request: JSONValue
        /// Whether a call without a body is refused, because the request has required fields.
        package let isBodyRequired: Bool
        package let answer: JSONValue
        /// The answers besides those of every operation.
        package var refusals: [Refused] = []

        package init(
            name: String, summary: String, request: JSONValue, isBodyRequired: Bool = false, answer: JSONValue, refusals: [Refused] = []
        ) {
            self.name = name
            self.summary = summary
            self.request = request
            self.isBodyRequired = isBodyRequired
            self.answer = answer
            self.refusals = refusals
        }
    }

    /// An answer that is not a success. The raw value names its component.
    package enum Refused: String, CaseIterable {
        case badParameter, notLoggedIn, wrongRole, notAllowed, noSuchUser, noSuchNode, bodyTooSlow, nodeIsAlive, invalidKeys, bodyTooLong,
            rateLimited,
            headerTooLarge,
            unavailable

        package var status: Int {
            switch self {
            case .badParameter: 400
            case .notLoggedIn: 401
            case .wrongRole, .notAllowed: 403
            case .noSuchUser, .noSuchNode: 404
            case .bodyTooSlow: 408
            case .nodeIsAlive, .invalidKeys: 409
            case .bodyTooLong: 413
            case .rateLimited: 429
            case .headerTooLarge: 431
            case .unavailable: 503
            }
        }

        /// The answers of every operation.
        package static let byEveryCall: [Refused] = [
            .badParameter, .notLoggedIn, .bodyTooSlow, .bodyTooLong, .headerTooLarge, .unavailable,
        ]
    }
}

/// Parts of schemas. A field that may be absent may also be null: the node treats both alike.
package enum Schema {
    package struct Field {
        let name: String
        let schema: JSONValue
        let isRequired: Bool
    }

    package static func required(_ name: String, _ schema: JSONValue) -> Field { Field(name: name, schema: schema, isRequired: true) }

    /// A field of an answer that may be absent, but is never null.
    package static func sometimes(_ name: String, _ schema: JSONValue) -> Field { Field(name: name, schema: schema, isRequired: false) }

    /// A field of a request that may be absent or null.
    package static func optional(_ name: String, _ schema: JSONValue) -> Field {
        Field(name: name, schema: nullable(schema), isRequired: false)
    }

    package static func object(_ fields: [Field], besides: [JSONValue.Member] = []) -> JSONValue {
        var members = [JSONValue.Member(name: "type", value: "object")]
        let required = fields.filter(\.isRequired).map { JSONValue.string($0.name) }
        if !required.isEmpty { members.append(.init(name: "required", value: .array(required))) }
        members.append(.init(name: "properties", value: .object(fields.map { .init(name: $0.name, value: $0.schema) })))
        return .object(members + besides)
    }

    package static func nullable(_ schema: JSONValue) -> JSONValue {
        guard case .object(var members) = schema, let index = members.firstIndex(where: { $0.name == "type" }), schema["enum"] == nil
        else { return ["anyOf": [schema, ["type": "null"]]] }
        members[index] = .init(name: "type", value: [members[index].value, "null"])
        return .object(members)
    }

    /// The pattern of a text without control characters (C0, DEL, C1).
    static let noControls = #"^[^\u0000-\u001F\u007F-\u009F]*$"#

    /// A text of at most so many bytes of UTF-8.
    package static func text(
        bytesMax: some BinaryInteger, lengthMin: Int64? = nil, pattern: String? = nil, _ description: String? = nil
    ) -> JSONValue {
        let most = JSONValue.integer(Int64(bytesMax))
        var members = [
            JSONValue.Member(name: "type", value: "string"), .init(name: "maxLength", value: most),
            .init(name: "x-utf8BytesMax", value: most),
        ]
        if let lengthMin { members.append(.init(name: "minLength", value: .integer(lengthMin))) }
        if let pattern { members.append(.init(name: "pattern", value: .string(pattern))) }
        return described(.object(members), description)
    }

    package static func integer(_ range: ClosedRange<Int64>, _ description: String? = nil) -> JSONValue {
        described(["type": "integer", "minimum": .integer(range.lowerBound), "maximum": .integer(range.upperBound)], description)
    }

    package static func list(of schema: JSONValue) -> JSONValue { ["type": "array", "items": schema] }

    /// The users of a call. Those with an invalid ID are in `errorUserList`, so the schema accepts any text.
    package static func users(min: Int64 = 1, max: some BinaryInteger) -> JSONValue {
        ["type": "array", "minItems": .integer(min), "maxItems": .integer(Int64(max)), "items": ["type": "string"]]
    }

    package static func reference(_ name: String) -> JSONValue { ["$ref": "#/components/schemas/\(name)"] }

    package static func described(_ schema: JSONValue, _ description: String?) -> JSONValue {
        guard let description, case .object(let members) = schema else { return schema }
        return .object(members.filter { $0.name != "description" } + [.init(name: "description", value: .string(description))])
    }

    package static let integer: JSONValue = ["type": "integer"]
    package static let string: JSONValue = ["type": "string"]
    package static let bool: JSONValue = ["type": "boolean"]
    package static let time: JSONValue = ["type": "integer", "minimum": 0, "description": "Milliseconds since 1970 (UTC)."]
    package static let errors = list(of: reference("UserError"))
    package static let statuses = list(of: reference("UserStatus"))
}
