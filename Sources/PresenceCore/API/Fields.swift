import PresenceWire

/// The JSON object of a call, read field by field. Each error names the field and the rule.
package struct Fields {
    private let object: JSONValue

    /// Reads a body; an empty one is an empty object.
    package init(_ body: UnsafeBufferPointer<UInt8>) throws(Problem) {
        if body.isEmpty {
            object = .object([])
            return
        }
        do throws(JSONError) { object = try JSONReader.read(body) } catch { throw .parameter("body: \(error.explanation)") }
        guard case .object = object else { throw .parameter("body: must be a JSON object") }
    }

    private init(object: JSONValue) { self.object = object }

    /// A text; nil if it is absent or null.
    ///
    /// - Parameter rule: the rule of the app's policy that sets the limit, if one does; as below.
    package func text(_ name: String, bytesMax: Int, by rule: PolicyRule? = nil) throws(Problem) -> String? {
        switch object[name] {
        case nil, .null: return nil
        case .string(let text):
            guard text.utf8.count <= bytesMax else {
                throw .parameter("\(name): has \(text.utf8.count) bytes; at most \(bytesMax) are allowed", by: rule)
            }
            return text
        default: throw .parameter("\(name): must be a string")
        }
    }

    /// A text that other users are shown as it is, so one without control characters; nil if it is absent or null.
    ///
    /// - Parameter hasLines: whether line feeds are allowed.
    func shownText(_ name: String, bytesMax: Int, hasLines: Bool = false) throws(Problem) -> String? {
        guard let text = try text(name, bytesMax: bytesMax) else { return nil }
        try Self.checkControls(text, name, hasLines: hasLines)
        return text
    }

    /// Throws if a text that other users are shown as it is has control characters. `name` is for the error.
    static func checkControls(_ text: String, _ name: String, hasLines: Bool = false) throws(Problem) {
        guard !(hasLines ? text.split(separator: "\n").allSatisfy(Limits.hasNoControls) : Limits.hasNoControls(text)) else { return }
        throw .parameter("\(name): must be a text without control characters\(hasLines ? ", except line feeds" : "")")
    }

    /// The value of a field; nil if it is absent or null.
    func value(_ name: String) -> JSONValue? { has(name) ? object[name] : nil }

    /// Texts, each of a number of bytes in `bytes`; nil if they are absent or null.
    func texts(_ name: String, bytes: ClosedRange<Int>, count: ClosedRange<Int>) throws(Problem) -> [String]? {
        guard let value = value(name) else { return nil }
        return try Self.texts(value, name, bytes: bytes, count: count)
    }

    /// Reads the texts of a value; `name` is for the error.
    static func texts(_ value: JSONValue, _ name: String, bytes: ClosedRange<Int>, count: ClosedRange<Int>) throws(Problem) -> [String] {
        guard case .array(let elements) = value else { throw .parameter("\(name): must be an array of strings") }
        guard count.contains(elements.count) else {
            throw .parameter("\(name): has \(elements.count) elements; \(count.lowerBound) to \(count.upperBound) are allowed")
        }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard case .string(let text) = element, bytes.contains(text.utf8.count) else {
                throw .parameter("\(name)[\(index)]: must be a string of \(bytes.lowerBound) to \(bytes.upperBound) bytes")
            }
            texts.append(text)
        }
        return texts
    }

    /// Objects, each read by `read`; nil if they are absent or null. An error names the element.
    func objects<Element>(
        _ name: String, count: ClosedRange<Int>, by read: (Fields) throws(Problem) -> Element
    ) throws(Problem) -> [Element]? {
        guard let value = value(name) else { return nil }
        guard case .array(let elements) = value else { throw .parameter("\(name): must be an array of objects") }
        guard count.contains(elements.count) else {
            throw .parameter("\(name): has \(elements.count) elements; \(count.lowerBound) to \(count.upperBound) are allowed", by: .batch)
        }
        var objects: [Element] = []
        for (index, element) in elements.enumerated() {
            guard case .object = element else { throw .parameter("\(name)[\(index)]: must be an object") }
            do throws(Problem) { objects.append(try read(Fields(object: element))) } catch {
                var problem = error
                problem.detail = "\(name)[\(index)].\(error.detail)"
                throw problem
            }
        }
        return objects
    }

    /// A whole number in `range`; nil if it is absent or null. `60.0` and `6e1` are whole too, because a JSON encoder may write them.
    func integer(_ name: String, in range: ClosedRange<Int64>, by rule: PolicyRule? = nil) throws(Problem) -> Int64? {
        switch object[name]?.withWholeNumber {
        case nil, .null: return nil
        case .integer(let value) where range.contains(value): return value
        case .integer(let value):
            throw .parameter("\(name): \(value) is not in \(range.lowerBound)...\(range.upperBound)", by: rule)
        default: throw .parameter("\(name): must be an integer in \(range.lowerBound)...\(range.upperBound)")
        }
    }

    /// A truth value; nil if it is absent or null.
    func bool(_ name: String) throws(Problem) -> Bool? {
        switch object[name] {
        case nil, .null: return nil
        case .bool(let value): return value
        default: throw .parameter("\(name): must be true or false")
        }
    }

    /// Whether a field is present, null or not.
    func names(_ name: String) -> Bool { object[name] != nil }

    /// Whether a field is present and not null.
    func has(_ name: String) -> Bool { (object[name] ?? .null) != .null }

    /// A list of users of `subject`'s app, each once, in order, and separately those with an invalid ID. Nil if it is absent or null.
    func users(_ name: String, besides subject: UserID, countMax: Int) throws(Problem) -> (users: [UserID], errors: [UserError])? {
        let elements: [JSONValue]
        switch object[name] {
        case nil, .null: return nil
        case .array(let array): elements = array
        default: throw .parameter("\(name): must be an array of user IDs")
        }
        guard elements.count <= countMax else {
            throw .parameter("\(name): has \(elements.count) users; at most \(countMax) are allowed in one call", by: .batch)
        }
        var users: [UserID] = []
        var errors: [UserError] = []
        var seen: Set<UserID> = []
        for (index, element) in elements.enumerated() {
            guard case .string(let id) = element else { throw .parameter("\(name)[\(index)]: must be a string") }
            guard Limits.isValidName(id) else {
                errors.append(UserError(userID: id, code: 7003, reason: Problem.userID("\(name)[\(index)]").detail))
                continue
            }
            let user = UserID(id, besides: subject)
            if elements.count == 1 || seen.insert(user).inserted { users.append(user) }
        }
        return (users, errors)
    }

    /// Like ``users(_:besides:countMax:)``, for a field that must be present and name a user.
    func requiredUsers(_ name: String, besides subject: UserID, countMax: Int) throws(Problem) -> (
        users: [UserID], errors: [UserError]
    ) {
        guard let found = try users(name, besides: subject, countMax: countMax) else {
            throw .parameter("\(name): is missing; it must be an array of 1 to \(countMax) user IDs")
        }
        guard !found.users.isEmpty || !found.errors.isEmpty else {
            throw .parameter("\(name): is empty; it must name 1 to \(countMax) users")
        }
        return found
    }
}

extension JSONError {
    /// The error, for the sender.
    var explanation: String {
        switch self {
        case .unexpected(let offset): "not JSON: unexpected byte at offset \(offset)"
        case .truncated: "not JSON: the text ends in the middle of a value"
        case .tooDeep(let limit): "nested deeper than \(limit)"
        case .duplicate(let name): "the field \"\(name)\" occurs twice"
        case .notUTF8(let offset): "not UTF-8 at offset \(offset)"
        case .tooManyMembers(let limit): "an object with more than \(limit) fields"
        }
    }
}
