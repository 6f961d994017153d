import Foundation

/// A JSON value of an answer or an event, as a test reads it.
package enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// A number with a fraction or an exponent, or beyond 64 bits.
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    /// Reads a text. Throws if the text is not JSON.
    package init(_ bytes: some Collection<UInt8>) throws {
        try self.init(value: JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed))
    }

    private init(value: Any) throws {
        switch value {
        case let object as [String: Any]: self = .object(try object.mapValues { try JSON(value: $0) })
        case let elements as [Any]: self = .array(try elements.map { try JSON(value: $0) })
        case let text as String: self = .string(text)
        case is NSNull: self = .null
        // Every number casts to Bool, Int and Double. The type code says what the text had.
        case let number as NSNumber:
            switch String(cString: number.objCType) {
            case "c": self = .bool(number.boolValue)
            case "d", "f", "Q": self = .number(number.doubleValue)
            default: self = .integer(number.int64Value)
            }
        default: throw TestFailure("no JSON value: \(value)")
        }
    }

    /// The member of an object.
    package subscript(name: String) -> JSON? { if case .object(let members) = self { members[name] } else { nil } }

    package var elements: [JSON] { if case .array(let elements) = self { elements } else { [] } }
    package var text: String? { if case .string(let text) = self { text } else { nil } }
    package var number: Int64? { if case .integer(let number) = self { number } else { nil } }
}
