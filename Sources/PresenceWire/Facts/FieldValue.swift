/// The value of a field of a profile, or of a custom field of a friend (P2, P8, P10).
public enum FieldValue: Hashable, Sendable {
    case integer(Int64)
    /// Bytes, which need not be UTF-8. A text is stored as its UTF-8 (P8).
    case bytes([UInt8])

    /// The bytes of a text.
    public static func text(_ text: String) -> FieldValue { .bytes(Array(text.utf8)) }

    /// The text, if the value is one in UTF-8.
    public var text: String? {
        if case .bytes(let bytes) = self { String(validating: bytes, as: UTF8.self) } else { nil }
    }

    /// Reads a number, a text, or bytes as `{"base64": "…"}`; nil for any other JSON.
    public init?(_ json: JSONValue) {
        switch json {
        case .integer(let number): self = .integer(number)
        case .string(let text): self = .text(text)
        case .object(let members):
            guard members.count == 1, members[0].name == "base64", case .string(let text) = members[0].value,
                let bytes = Base64.bytes(of: text)
            else { return nil }
            self = .bytes(bytes)
        case .null, .bool, .number, .array: return nil
        }
    }
}

extension JSONWriter {
    /// Writes a number as a number, UTF-8 as a text, and other bytes as `{"base64": "…"}`.
    ///
    /// - Parameter isCompact: whether a text with control characters is written as base 64 too. JSON has six bytes for each such character,
    ///   and a row has a limit.
    public mutating func value(_ value: FieldValue, isCompact: Bool = false) {
        switch value {
        case .integer(let number): integer(number)
        case .bytes(let bytes):
            if let text = value.text, !isCompact || bytes.allSatisfy({ $0 >= 0x20 }) {
                string(text)
            } else {
                object { $0.member("base64", Base64.text(of: bytes)) }
            }
        }
    }
}

/// A field that an app has declared (P8): its name without the prefix `Custom_`, and its value.
public struct CustomField: Hashable, Sendable {
    /// 1 to ``Limits/customNameBytesMax`` letters or digits.
    public var name: String
    /// At most ``Limits/fieldBytesMax`` bytes.
    public var value: FieldValue

    public init(name: String, value: FieldValue) {
        self.name = name
        self.value = value
    }

    /// Whether `name` can name a custom field.
    public static func isValidName(_ name: some StringProtocol) -> Bool {
        (1...Limits.customNameBytesMax).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: false
                }
            }
    }
}
