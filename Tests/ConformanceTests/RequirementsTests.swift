import Foundation
import Testing

/// Every line of <doc:Requirements> that comes from the four documents.
@Suite struct RequirementsTests {
    static let requirements =
        (1...38).map { "T\($0)" } + (1...16).map { "R\($0)" } + (1...26).map { "N\($0)" } + (1...23).map { "Z\($0)" }

    /// Those without a test here, and why. A test that proves one elsewhere is named as `Suite.function()`.
    static let reasons: [String: String] = [
        "T6":
            "400 s; proved with 2 s by `ClusterTests.silentClient()`, and 400 s as the default by `ClusterTests.firstEvent()`"
    ]

    /// The IDs in the display names of this target's tests.
    static func tested() throws -> Set<String> {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
        var found: Set<String> = []
        for file in files {
            let text = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
            for match in text.matches(of: /@Test\(\s*"([^"]*)"/) {
                found.formUnion(match.1.matches(of: /\b[TRNZ][0-9]+\b/).map { String($0.0) })
            }
        }
        return found
    }

    @Test("Every requirement has a test or a reason") func complete() throws {
        let tested = try Self.tested()
        #expect(Self.requirements.count == 103)
        #expect(Self.requirements.filter { !tested.contains($0) && Self.reasons[$0] == nil } == [], "neither a test nor a reason")
        #expect(Self.requirements.filter { tested.contains($0) && Self.reasons[$0] != nil } == [], "both a test and a reason")
        #expect(tested.union(Self.reasons.keys).subtracting(Self.requirements) == [], "no requirement")
    }

    @Test("Every test that a reason names exists") func existing() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        for (id, reason) in Self.reasons {
            for match in reason.matches(of: /`(\w+)\.(\w+)\(\)`/) {
                let (suite, function) = (String(match.1), String(match.2))
                let files = try #require(FileManager.default.enumerator(atPath: root.path)?.allObjects as? [String])
                let isThere = files.contains { file in
                    guard file.hasSuffix(".swift"), let text = try? String(contentsOf: root.appending(path: file), encoding: .utf8) else {
                        return false
                    }
                    return text.contains("struct \(suite) ") && text.contains("func \(function)(")
                }
                #expect(isThere, "\(id): \(suite).\(function)")
            }
        }
    }
}
