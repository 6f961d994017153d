import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

/// The description against the code. `Tests/Fuzz/api` compares it with what a node answers.
@Suite struct OpenAPITests {
    let document: JSONValue
    let admin = Caller(user: UserID(app: "default", id: "ann"), isAdmin: true, expiresAt: .max)

    init() throws { document = try JSONReader.read(Array(OpenAPI.text.bytes.readableBytesView)) }

    @Test("Every operation of the code is described, and no other") func operations() {
        #expect(OpenAPI.operations.map(\.name).sorted() == API.Operation.allCases.map(\.name).sorted())
        #expect(
            (OpenAPI.operatorOperations.map(\.name) + ["backup", "export"]).sorted() == AdminAPI.Operation.allCases.map(\.rawValue).sorted()
        )
        for operation in API.Operation.allCases {
            #expect(document["paths"]?["/v1/\(operation.name)"]?["post"]?["operationId"] == .string(operation.name))
        }
        #expect(document["paths"]?["/v1/events"]?["get"] != nil)
    }

    /// Each bound of a request's field is the one that the code keeps: the edge is taken, one past it is not.
    @Test("The limits are those of the code") func limits() throws {
        var bounds = 0
        for operation in API.Operation.allCases {
            let schema = try #require(OpenAPI.operations.first { $0.name == operation.name }?.request)
            for alternative in schema.alternatives {
                for field in alternative["properties"]?.members ?? [] {
                    for probe in field.value.probes {
                        let body = alternative.example(with: field.name, probe.value)
                        let isAccepted = accepts(operation, body)
                        #expect(isAccepted == probe.isAllowed, "\(operation.name): \(field.name)")
                        bounds += 1
                    }
                }
            }
        }
        #expect(bounds > 40)
    }

    private func accepts(_ operation: API.Operation, _ body: JSONValue) -> Bool {
        var json = JSONWriter()
        json.value(body)
        return json.bytes.withUnsafeBufferPointer { bytes in
            do throws(Problem) { _ = try API.parse(operation, body: bytes, caller: admin, policy: SharedPolicy(Policy())) } catch {
                return false
            }
            return true
        }
    }

    @Test("A UserStatus has the described fields") func userStatus() throws {
        var record = Record(blank: UserID(app: "default", id: "bob"))
        record.events = PublishedEvents(
            newest: PublishedEvent(value: 10_001, ext: "x", expiresAt: 5, session: SessionID(stamp: 9, node: 2)),
            forLogins: PublishedEvent(value: 10_002, ext: "", expiresAt: 9, isForOnlineOnly: false))
        var json = JSONWriter()
        json.userStatus(record, isOwn: true, isUnsure: true)
        let written = try JSONReader.read(json.bytes)
        let schemas = try #require(document["components"]?["schemas"])
        #expect(written.members.map(\.name) == schemas["UserStatus"]?["properties"]?.members.map(\.name))
        #expect(written["event"]?.members.map(\.name) == schemas["Event"]?["properties"]?.members.map(\.name))
    }

    @Test("The list of subscriptions has the fields that are described, also where an owner is unreachable") func subscriptions() throws {
        let bob = UserID(app: "default", id: "bob")
        let page = [Subscription(target: bob, subscribedAt: 5, expiresAt: 9, version: .zero)]
        for records in [[nil], [Record(blank: bob)]] {
            var json = JSONWriter()
            try API.write(
                .subscriptions(page, records: records, total: 1), to: .getSubscribedUserStatus, of: bob, errors: [],
                policy: SharedPolicy(Policy()),
                into: &json)
            let answer = try JSONReader.read(json.bytes)
            let described = try #require(OpenAPI.operations.first { $0.name == "getSubscribedUserStatus" }?.answer)
            #expect(answer.members.map(\.name) == described["properties"]?.members.map(\.name))
            let row = try #require(document["components"]?["schemas"]?["Subscription"])
            let written = answer["subscriptions"]?.elements.first?.members.map(\.name) ?? []
            #expect(written.contains("userStatus") == (records[0] != nil))
            let fields = row["properties"]?.members.map(\.name) ?? []
            let required = row["required"]?.elements.compactMap(\.string) ?? []
            #expect(Set(written).isSubset(of: fields) && Set(required).isSubset(of: written))
        }
    }

    /// Generators of clients leave out what has values and no type.
    @Test("Every list of values has a type") func valuesHaveTypes() {
        let untyped = document.objects.filter { ($0["enum"] != nil || $0["const"] != nil) && $0["type"] == nil }
        #expect(untyped.isEmpty)
    }

    @Test("Every setting is described") func settings() {
        let settings = document["components"]?["schemas"]?["AppPolicy"]?["properties"]?["settings"]
        #expect(settings?["properties"]?.members.map(\.name) == Policy.settingNames)
    }

    // MARK: OpenAPI 3.1

    @Test("The document is OpenAPI") func format() throws {
        #expect(document["openapi"] == "3.1.0")
        #expect(document["info"]?["title"] != nil)
        #expect(document["info"]?["version"] != nil)
        var ids: Set<String> = []
        for path in document["paths"]?.members ?? [] {
            #expect(path.name.hasPrefix("/"))
            for (method, operation) in path.value.members.map({ ($0.name, $0.value) }) where method != "servers" {
                #expect(["get", "post"].contains(method))
                let id = try #require(operation["operationId"]?.string)
                #expect(ids.insert(id).inserted, "\(id) occurs twice")
                let responses = try #require(operation["responses"]).members
                #expect(responses.map(\.name).contains("200"))
                for response in responses {
                    let status = try #require(Int(response.name))
                    #expect((100...599).contains(status))
                    let isDescribed = response.value["$ref"] != nil || response.value["description"] != nil
                    #expect(isDescribed, "\(id) \(response.name)")
                }
                for parameter in operation["parameters"]?.elements ?? [] {
                    let place = try #require(parameter["in"]?.string)
                    #expect(["query", "header"].contains(place))
                    #expect(parameter["name"] != nil)
                    #expect(parameter["schema"] != nil)
                }
            }
        }
    }

    @Test("Every reference resolves") func resolution() {
        let references = document.references
        #expect(references.count > 50)
        for reference in references {
            var place: JSONValue? = document
            for name in reference.split(separator: "/").dropFirst() { place = place?[String(name)] }
            #expect(reference.hasPrefix("#/"))
            #expect(place != nil, "\(reference)")
        }
    }

    @Test("The served bytes are the document") func bytes() { #expect(document == OpenAPI.document) }
}

extension JSONValue {
    fileprivate var members: [Member] { if case .object(let members) = self { members } else { [] } }
    fileprivate var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    fileprivate var string: String? { if case .string(let text) = self { text } else { nil } }
    fileprivate var integer: Int64? { if case .integer(let number) = self { number } else { nil } }

    fileprivate var references: [String] {
        switch self {
        case .object(let members): members.flatMap { $0.name == "$ref" ? [$0.value.string ?? "?"] : $0.value.references }
        case .array(let elements): elements.flatMap(\.references)
        default: []
        }
    }

    /// All objects in it, itself included.
    fileprivate var objects: [JSONValue] {
        switch self {
        case .object(let members): [self] + members.flatMap(\.value.objects)
        case .array(let elements): elements.flatMap(\.objects)
        default: []
        }
    }

    /// The objects that a request's schema allows.
    fileprivate var alternatives: [JSONValue] { self["anyOf"]?.elements ?? [self] }

    /// Values at the edges of a schema, and one past them.
    fileprivate var probes: [(value: JSONValue, isAllowed: Bool)] {
        var probes: [(JSONValue, Bool)] = []
        if self["$ref"]?.string == "#/components/schemas/UserID" { probes += [(.string("u"), true), (.string(""), false)] }
        if let min = self["minimum"]?.integer { probes += [(.integer(min), true), (.integer(min - 1), false)] }
        if let max = self["maximum"]?.integer { probes += [(.integer(max), true), (.integer(max + 1), false)] }
        if let max = self["x-utf8BytesMax"]?.integer {
            // A pattern begins with the text that it wants first, or with a version.
            let pattern = self["pattern"]?.string ?? ""
            let isVersion = pattern.hasPrefix("^[0-9a-f]{24}:")
            let letters = pattern.drop { !$0.isLetter }.prefix { $0.isLetter || $0 == "_" }
            let prefix = isVersion ? Version.zero.text + ":" : String(letters)
            let rest = Int(max) - prefix.utf8.count
            let longest = prefix + String(repeating: "é", count: rest / 2) + (rest % 2 == 1 ? "x" : "")
            probes += [(.string(longest), true), (.string(longest + "x"), false)]
        }
        if let max = self["maxItems"]?.integer { probes += [(items(max), true), (items(max + 1), false)] }
        if let min = self["minItems"]?.integer { probes += [(items(min), true)] + (min > 0 ? [(items(min - 1), false)] : []) }
        if self["type"]?.elements.contains("null") == true { probes.append((.null, true)) }
        return probes
    }

    /// Users, or objects about them.
    private func items(_ count: Int64) -> JSONValue {
        let users = (0..<count).map { JSONValue.string("u\($0)") }
        guard let item = self["items"], item["properties"] != nil else { return .array(users) }
        return .array(users.map { item.example(with: "userID", $0) })
    }

    /// A body with one field as given, and of the others those that must be there.
    fileprivate func example(with name: String, _ value: JSONValue) -> JSONValue {
        let required = (self["required"]?.elements ?? []).compactMap(\.string).filter { $0 != name }
        let others = required.map { name -> Member in
            let schema = self["properties"]?[name]
            let example =
                schema?["const"] ?? schema?.probes.first { $0.isAllowed }?.value
                ?? (schema?["type"] == .string("object") ? .object([]) : .null)
            return Member(name: name, value: example)
        }
        return .object(others + [Member(name: name, value: value)])
    }
}
