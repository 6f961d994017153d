/// Literals for JSON values: `["type": "integer", "minimum": 1]`. Members stay in their order.
extension JSONValue: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }

    public init(integerLiteral value: Int64) { self = .integer(value) }

    public init(booleanLiteral value: Bool) { self = .bool(value) }

    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    public init(dictionaryLiteral members: (String, JSONValue)...) {
        self = .object(members.map { Member(name: $0, value: $1) })
    }
}

extension JSONWriter {
    /// Writes a whole value. Infinite numbers, which JSON does not have, become null.
    public mutating func value(_ value: JSONValue) {
        switch value {
        case .null: literal("null")
        case .bool(let value): bool(value)
        case .integer(let value): integer(value)
        case .number(let value): literal(value.isFinite ? "\(value)" : "null")
        case .string(let value): string(value)
        case .array(let elements): array { json in for element in elements { json.value(element) } }
        case .object(let members):
            object { json in
                for member in members {
                    json.key(text: member.name)
                    json.value(member.value)
                }
            }
        }
    }
}
