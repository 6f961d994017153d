import Foundation
import Testing

/// Every line of <doc:Requirements> that comes from the five documents.
@Suite struct RequirementsTests {
    static let requirements =
        (1...38).map { "T\($0)" } + (1...16).map { "R\($0)" } + (1...26).map { "N\($0)" } + (1...23).map { "Z\($0)" }
        + (1...45).map { "P\($0)" }
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The rules of the page, by requirement.
    static func rules() throws -> [String: String] {
        let page = try String(contentsOf: root.appending(path: "Sources/PresenceCore/Docs.docc/Requirements.md"), encoding: .utf8)
        var found: [String: String] = [:]
        for line in page.split(separator: "\n") {
            guard let row = line.wholeMatch(of: /\| ([TRNZP][0-9]+) \| (.+) \| (.+) \|/) else { continue }
            found[String(row.1)] = String(row.2)
        }
        return found
    }

    /// The sources of this target's tests, and of those of the documents' own clients.
    static func sources() throws -> [String] {
        var found: [String] = []
        for folder in ["ConformanceTests", "DialectTests"].map({ root.appending(path: "Tests/\($0)") }) {
            for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) where file.hasSuffix(".swift") {
                found.append(try String(contentsOf: folder.appending(path: file), encoding: .utf8))
            }
        }
        return found
    }

    /// The numbers and names that tests say, by the requirement with which their display names begin.
    ///
    /// A test says what stands between its display name and the next test. Each test of a file also says what stands before the first one,
    /// such as a delegate.
    static func said(in sources: [String]) -> [String: Set<String>] {
        var found: [String: Set<String>] = [:]
        for source in sources {
            let parts = source.split(separator: "@Test(", omittingEmptySubsequences: false)
            let shared = words(of: parts[0])
            for test in parts.dropFirst() {
                guard let name = test.prefixMatch(of: /\s*"((?:[TRNZPX][0-9]+ )+)/) else { continue }
                let said = words(of: test).union(shared)
                for id in name.1.split(separator: " ") where !id.hasPrefix("X") { found[String(id), default: []].formUnion(said) }
            }
        }
        return found
    }

    /// The names and numbers of a source text. `30_515` is 30515.
    private static func words(of text: Substring) -> Set<String> {
        let joined = text.replacing(/([0-9])_(?=[0-9])/) { match in match.1 }
        return Set(joined.matches(of: /[A-Za-z0-9_]+/).map { String($0.0) })
    }

    /// The words that tests must say to prove a rule: its numbers of two or more digits, and its names in backticks. `30,515` is 30515.
    static func required(by rule: String) -> [String] {
        rule.matches(of: /[0-9][0-9,]*[0-9]/).map { String($0.0.replacing(",", with: "")) }
            + rule.matches(of: /`([A-Za-z0-9_]+)`/).map { String($0.1) }
    }

    @Test("Every requirement has a test that enters by the door") func complete() throws {
        let tested = Set(try Self.said(in: Self.sources()).keys)
        #expect(Self.requirements.count == 148)
        #expect(Self.requirements.filter { !tested.contains($0) } == [], "no test")
        #expect(tested.subtracting(Self.requirements) == [], "no requirement")
    }

    @Test("The tests of a requirement have each number, code and API name of its rule") func wholeRules() throws {
        let (rules, said) = (try Self.rules(), Self.said(in: try Self.sources()))
        #expect(Set(rules.keys) == Set(Self.requirements))
        for id in Self.requirements {
            let missing = Self.required(by: rules[id] ?? "").filter { said[id]?.contains($0) != true }
            #expect(missing == [], "\(id): \(rules[id] ?? "")")
        }
    }

    @Test("A code that stands in a test of another requirement, or in part of a longer number, proves nothing")
    func otherTests() {
        // With escapes, because this file is among the sources.
        let source = """
            final class Delegate { func onSomething() {} }
            @Test(\"P14 One\") func one() { expect(30_516, 130_539) }
            @Test(
                \"P29 X2 Another\", arguments: [30_525])
            func another() { expect(30515) }
            @Test(\"What P14 says in the middle of a name\") func third() { expect(30_539) }
            """
        let said = Self.said(in: [source])
        let rule = "Codes of `onSomething` and `addFriend`: 0, 30,515, 30516, 30525, 30539."
        #expect(Set(said.keys) == ["P14", "P29"])
        #expect(Self.required(by: rule).filter { said["P14"]?.contains($0) != true } == ["30515", "30525", "30539", "addFriend"])
        #expect(Self.required(by: rule).filter { said["P29"]?.contains($0) != true } == ["30516", "30539", "addFriend"])
    }
}
