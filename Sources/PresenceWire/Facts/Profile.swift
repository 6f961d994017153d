/// A user's profile (P2, P7). Each field has a version of its own, because two sides of a split may each have changed another field.
public struct Profile: Hashable, Sendable {
    /// A field that was ever set.
    public struct Field: Hashable, Sendable {
        /// A name of ``Standard``, or `Custom_` and the name of a ``CustomField``.
        public let name: String
        public var value: FieldValue
        /// The version of the change that set the value.
        public var version: Version
    }

    /// A field that a call sets (P5).
    public struct Change: Hashable, Sendable {
        /// A name of ``Standard``, or `Custom_` and the name of a ``CustomField``.
        public let name: String
        public let value: FieldValue

        /// - Parameter value: must be one that the field can have: see ``Profile/problem(of:in:)``.
        public init(name: String, value: FieldValue) { (self.name, self.value) = (name, value) }
    }

    /// The fields that every profile has, by the names of the keys (P7).
    public enum Standard: String, CaseIterable, Sendable {
        case nick = "Nick"
        case faceURL = "FaceUrl"
        /// `ANY`, `CONFIRM` or `DENY`: who may add the user as a friend.
        case allowType = "AllowType"
        case gender = "Gender"
        case birthday = "Birthday"
        case location = "Location"
        case language = "Language"
        case level = "Level"
        case role = "Role"
        case selfSignature = "SelfSignature"
    }

    /// The prefix of the names of custom fields.
    public static let customPrefix = "Custom_"
    /// Most fields of a profile.
    public static let fieldsMax = Standard.allCases.count + Limits.customFieldsMax
    /// The values of ``Standard/allowType``.
    public static let allowTypes = ["ANY", "CONFIRM", "DENY"]

    /// The fields by name, as bytes.
    public private(set) var fields: [Field] = []

    public init() {}

    /// The value of a field; nil if it was never set.
    public subscript(name: String) -> FieldValue? {
        let index = index(of: name)
        return index < fields.count && fields[index].name == name ? fields[index].value : nil
    }

    /// Sets a field, unless it has a newer value. An empty text or 0 clears it.
    public mutating func set(_ name: String, to value: FieldValue, at version: Version) {
        let index = index(of: name)
        if index < fields.count, fields[index].name == name {
            if version > fields[index].version { fields[index] = Field(name: name, value: value, version: version) }
        } else {
            fields.insert(Field(name: name, value: value, version: version), at: index)
        }
    }

    /// Sets the fields of a call.
    public mutating func set(_ changes: [Change], at version: Version) {
        for change in changes { set(change.name, to: change.value, at: version) }
        dropOldest()
    }

    /// Takes each field that is newer in another profile of the user.
    public mutating func merge(_ other: Profile) {
        for field in other.fields { set(field.name, to: field.value, at: field.version) }
        dropOldest()
    }

    /// Drops the custom fields that were set the longest ago, beyond ``Limits/customFieldsMax``.
    ///
    /// The app may declare other fields than before, and two sides of a split may each have set other fields.
    private mutating func dropOldest() {
        let custom = fields.filter { Standard(rawValue: $0.name) == nil }
        guard custom.count > Limits.customFieldsMax else { return }
        let oldest = custom.sorted { ($0.version, $0.name) < ($1.version, $1.name) }.prefix(custom.count - Limits.customFieldsMax)
        fields.removeAll { field in oldest.contains { $0.name == field.name } }
    }

    private func index(of name: String) -> Int {
        fields.firstIndex { !$0.name.utf8.lexicographicallyPrecedes(name.utf8) } ?? fields.count
    }

    /// The reason why a field cannot have this value, in words; nil if it can.
    public static func problem(of value: FieldValue, in name: String) -> String? {
        guard let standard = Standard(rawValue: name) else {
            let isCustom = name.hasPrefix(customPrefix) && CustomField.isValidName(name.dropFirst(customPrefix.count))
            return isCustom ? value.tooLong : "is not a field of a profile"
        }
        switch standard {
        case .gender: return value.problem(unlessIn: 0...2)
        case .birthday, .language, .level, .role: return value.problem(unlessIn: 0...Int64(UInt32.max))
        case .nick, .faceURL: return value.text == nil ? "is not a text" : value.tooLong
        case .location, .selfSignature:
            if case .integer = value { return "is not bytes" }
            return value.tooLong
        case .allowType:
            return value.text.map(allowTypes.contains) == true ? nil : "is not one of \(allowTypes.joined(separator: ", "))"
        }
    }

    /// The reason why no caller may set a field to this value that friends are shown as it is, in words; nil if one may. It must be a
    /// text without control characters.
    ///
    /// Only calls and imports are checked. A row of an earlier release may have another value.
    public static func problem(ofShown member: JSONValue.Member) -> String? {
        guard let standard = Standard(rawValue: member.name), [.nick, .faceURL].contains(standard) else { return nil }
        guard case .string(let text) = member.value else { return "must be a text, not base 64" }
        return Limits.hasNoControls(text) ? nil : "must be a text without control characters"
    }
}

extension FieldValue {
    /// The reason why the value is longer than a field may be, in words; nil if it is not.
    public var tooLong: String? {
        guard case .bytes(let bytes) = self, bytes.count > Limits.fieldBytesMax else { return nil }
        return "has \(bytes.count) bytes, at most \(Limits.fieldBytesMax) are allowed"
    }

    fileprivate func problem(unlessIn range: ClosedRange<Int64>) -> String? {
        if case .integer(let number) = self, range.contains(number) { return nil }
        return "is not a whole number of \(range.lowerBound) to \(range.upperBound)"
    }
}
