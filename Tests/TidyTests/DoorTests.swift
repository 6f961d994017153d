import Foundation
import Testing

/// Suites of whole nodes use only what a user of Rollcall has: the HTTP API, the SDKs and the command `rollcall`.
///
/// Their target dependencies in `Package.swift` are the second proof.
@Suite struct DoorTests {
    /// Folders whose tests reach nodes from outside, and that of their fixture.
    static let folders = ["ConformanceTests", "DialectTests", "ClusterTests", "Journeys", "NodeFixture"].map { "Tests/\($0)/" }
    static let insides: Set<String> = ["PresenceCore", "PresenceWire", "PresenceNode", "ClusterSimulation"]

    nonisolated(unsafe) private static let importing =
        /^\s*((?:@\w+(?:\([^)]*\))?\s+)*)(?:(?:public|package|internal|fileprivate|private)\s+)?import\s+(?:(?:struct|class|enum|protocol|typealias|func|let|var|actor)\s+)?(\w+)/

    /// The imports of a source that lead inside a node.
    static func insideImports(_ source: TidyTests.Source) -> [String] {
        guard folders.contains(where: source.path.hasPrefix) else { return [] }
        return source.lines.enumerated().flatMap { number, line -> [String] in
            guard let match = String(line).prefixMatch(of: importing) else { return [] }
            let place = "\(source.path):\(number + 1)"
            let testable = match.1.contains("@testable") ? ["\(place): @testable"] : []
            return testable + (insides.contains(String(match.2)) ? ["\(place): imports \(match.2)"] : [])
        }
    }

    @Test("Suites of whole nodes import nothing from inside a node") func door() {
        #expect(TidyTests.sources.flatMap(Self.insideImports) == [])
        for folder in ["ConformanceTests", "DialectTests", "ClusterTests", "NodeFixture"] {
            #expect(TidyTests.sources.contains { $0.path.hasPrefix("Tests/\(folder)/") }, "\(folder)")
        }
    }

    @Test(
        "The rule finds each form of an import",
        arguments: [
            ("import PresenceCore", 1), ("import PresenceWire", 1), ("import PresenceNode", 1), ("import ClusterSimulation", 1),
            ("    import PresenceWire", 1), ("import struct PresenceWire.SplitMix64", 1), ("private import PresenceNode", 1),
            ("@_spi(Inside) import PresenceCore", 1), ("@testable import PresenceClient", 1), ("@testable import PresenceNode", 2),
            ("import PresenceClient", 0), ("import NodeFixture", 0), ("// import PresenceCore", 0),
            ("let text = \"import PresenceCore\"", 0),
        ])
    func forms(line: String, count: Int) {
        let text = "import Foundation\n\(line)\n"
        for folder in Self.folders {
            let planted = TidyTests.Source(path: "\(folder)Deep/Planted.swift", text: text)
            #expect(Self.insideImports(planted).count == count, "\(folder): \(line)")
        }
        #expect(Self.insideImports(TidyTests.Source(path: "Tests/PresenceNodeTests/Planted.swift", text: text)) == [])
    }
}
