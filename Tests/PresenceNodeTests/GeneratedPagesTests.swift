import Foundation
import Logging
import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

/// The pages of the documentation that are made from the code are up to date.
///
/// `make pages` writes them: it runs this suite with `ROLLCALL_TESTS=write-pages`.
@Suite(.timeLimit(.minutes(1))) struct GeneratedPagesTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let writes = ProcessInfo.processInfo.environment["ROLLCALL_TESTS"] == "write-pages"

    /// Compares a page with its file, or writes the file.
    private func check(_ page: String, isIn name: String) throws {
        let file = Self.root.appending(path: "Sources/PresenceCore/Docs.docc/\(name).md")
        if Self.writes { try page.write(to: file, atomically: true, encoding: .utf8) }
        let found = try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
        let expected = page.split(separator: "\n", omittingEmptySubsequences: false)
        let differences = expected.filter { !found.contains($0) } + found.filter { !expected.contains($0) }
        #expect(
            found == expected,
            "\(name).md is not what the code says; run `make pages` and commit the page. The first lines that differ: \(differences.prefix(4))"
        )
    }

    @Test("Configuration.md lists every setting as the code has it")
    func configuration() throws { try check(ConfigurationPage().text, isIn: "Configuration") }

    @Test("No value of a setting is missing from Configuration.md")
    func values() { #expect(!ConfigurationPage().text.contains("| ? |")) }

    @Test("Metrics.md lists every metric that a node exposes")
    func metrics() async throws {
        let folder = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let node = try await RollcallNode.start(.loopback(nodeID: "n", directory: folder, beside: []), logger: logger)
        let exposed = try await node.metricsText()
        try await node.stop()
        let page = MetricsPage(exposed).text
        #expect(!page.contains("| ? |"))
        try check(page, isIn: "Metrics")
    }

    /// The names of the properties of an object's schema, and of each of its alternatives.
    private func properties(of schema: JSONValue) -> [String] {
        var names: [String] = []
        if case .object(let properties) = schema["properties"] { names = properties.map(\.name) }
        if case .array(let alternatives) = schema["anyOf"] { names += alternatives.flatMap(properties) }
        return names
    }

    @Test("HTTPAPI.md names every operation, field, event and error code of the OpenAPI document")
    func api() throws {
        let file = Self.root.appending(path: "Sources/PresenceCore/Docs.docc/HTTPAPI.md")
        let page = try String(contentsOf: file, encoding: .utf8)
        let operations = OpenAPI.operations + OpenAPI.operatorOperations
        let events = OpenAPI.streamEvents
        var names = operations.map(\.name) + operations.flatMap { properties(of: $0.request) + properties(of: $0.answer) }
        names += events.map(\.name) + events.flatMap { properties(of: $0.data) }
        for schema in ["UserStatus", "Event", "Subscription", "UserError", "Problem", "ClusterMember"] {
            let found = try #require(OpenAPI.schemas.first { $0.name == schema }).value
            names += properties(of: found)
            guard schema == "Problem", case .string(let codes) = found["properties"]?["code"]?["description"] else { continue }
            names += codes.matches(of: /[0-9]{3,}/).map { String($0.0) }
        }
        #expect(names.count > 100)
        for name in Set(names) { #expect(page.contains(try Regex("\\b\(name)\\b")), "HTTPAPI.md does not name \(name)") }
    }

    @Test("client.js declares the members of a UserStatus and of its event that the OpenAPI document has")
    func declarations() throws {
        let text = try String(contentsOf: Self.root.appending(path: "Sources/WebClient/client.js"), encoding: .utf8)
        for (type, name) in [("UserStatus", "UserStatus"), ("PublishedEvent", "Event")] {
            let start = try #require(text.firstRange(of: "@typedef {Object} \(type)\n")).upperBound
            let end = try #require(text[start...].firstRange(of: "*/")).lowerBound
            let declared = text[start..<end].matches(of: /@property \{[^\n]*\} \[?(\w+)/).map { String($0.1) }
            let schema = try #require(OpenAPI.schemas.first { $0.name == name }).value
            #expect(declared == properties(of: schema))
        }
    }

    @Test("Every flag of `rollcall serve` is a setting, and every setting that has a flag is an option of the command")
    func flags() throws {
        let source = try String(contentsOf: Self.root.appending(path: "Sources/rollcall/ServeCommand.swift"), encoding: .utf8)
        let options = source.matches(of: /@(?:Option|Flag)\(help: "[^"]*"\) var (\w+)/).map { String($0.1) }
        let settings = KnownSettings.groups.flatMap(\.settings).filter(\.hasFlag).map(\.name)
        #expect(Set(options) == Set(settings).union(["config"]))
    }

    @Test("Every sentence about a setting ends with a period and has at most 25 words")
    func sentences() {
        let effects = KnownSettings.groups.flatMap(\.settings).map(\.effect) + Policy.settingDescriptions.map(\.effect)
        for effect in effects {
            #expect(effect.hasSuffix("."))
            for sentence in effect.split(separator: ". ") { #expect(sentence.split(separator: " ").count <= 25, "\(sentence)") }
        }
    }
}
