import Foundation
import Testing

/// Every line of <doc:Requirements> that comes from the five documents.
@Suite struct RequirementsTests {
    static let requirements =
        (1...38).map { "T\($0)" } + (1...16).map { "R\($0)" } + (1...26).map { "N\($0)" } + (1...23).map { "Z\($0)" }
        + (1...45).map { "P\($0)" }

    /// The IDs in the display names of this target's tests, and of those of the documents' own clients.
    static func tested() throws -> Set<String> {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        var found: Set<String> = []
        for folder in ["ConformanceTests", "DialectTests"].map({ tests.appending(path: $0) }) {
            for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) where file.hasSuffix(".swift") {
                let text = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
                for match in text.matches(of: /@Test\(\s*"([^"]*)"/) {
                    found.formUnion(match.1.matches(of: /\b[TRNZP][0-9]+\b/).map { String($0.0) })
                }
            }
        }
        return found
    }

    @Test("Every requirement has a test that enters by the door") func complete() throws {
        let tested = try Self.tested()
        #expect(Self.requirements.count == 148)
        #expect(Self.requirements.filter { !tested.contains($0) } == [], "no test")
        #expect(tested.subtracting(Self.requirements) == [], "no requirement")
    }
}
