/// A custom field that an app has declared (P8): its name without the prefix `Custom_`, and the type of its values.
public struct CustomFieldDeclaration: Equatable, Sendable {
    /// The types of values.
    public enum ValueType: String, CaseIterable, Sendable {
        case integer
        /// A text in UTF-8.
        case string
        /// A text, or bytes as `{"base64": "…"}`.
        case bytes
    }

    /// 1 to ``Limits/customNameBytesMax`` letters or digits.
    public let name: String
    public let type: ValueType

    /// Reads `{"Blood":"integer"}`.
    static func read(_ value: JSONValue, of setting: String) throws(PolicyError) -> [CustomFieldDeclaration] {
        let types = ValueType.allCases.map(\.rawValue).joined(separator: ", ")
        let problem =
            "must be an object of at most \(Limits.customFieldsMax) names, each of 1 to \(Limits.customNameBytesMax) letters or digits, "
            + "with one of \(types)"
        guard case .object(let members) = value, members.count <= Limits.customFieldsMax else {
            throw PolicyError(setting: setting, problem: problem)
        }
        var fields: [CustomFieldDeclaration] = []
        for member in members.sorted(by: { $0.name < $1.name }) {
            guard CustomField.isValidName(member.name), case .string(let name) = member.value, let type = ValueType(rawValue: name) else {
                throw PolicyError(setting: setting, problem: "\"\(member.name)\": \(problem)")
            }
            fields.append(CustomFieldDeclaration(name: member.name, type: type))
        }
        return fields
    }

    /// Reads a value of the field. Returns nil if its type is wrong.
    ///
    /// The range of integers is that which JSON keeps exactly (RFC 8259 §6).
    public func value(_ json: JSONValue) -> FieldValue? {
        switch (type, FieldValue(json.withWholeNumber)) {
        case (.integer, .integer(let number)) where (-(1 << 53)...(1 << 53)).contains(number): .integer(number)
        case (.bytes, .bytes(let bytes)): .bytes(bytes)
        case (.string, .bytes(let bytes)): if case .string = json { .bytes(bytes) } else { nil }
        default: nil
        }
    }
}
