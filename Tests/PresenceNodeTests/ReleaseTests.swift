import Foundation
import PresenceNode
import PresenceWire
import Testing

@Suite struct ReleaseTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test("The newest section of CHANGELOG.md that has a version is that of Release.version")
    func changelogHasTheVersion() throws {
        let text = try String(contentsOf: Self.root.appending(path: "CHANGELOG.md"), encoding: .utf8)
        let versions = text.matches(of: /(?m)^## \[(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)\] - \d{4}-\d\d-\d\d$/).map(\.output.1)
        #expect(versions.first.map(String.init) == Release.version)
        #expect(text.contains("\n## [Unreleased]\n"))
    }

    @Test("CHANGELOG.md names one version of the cluster protocol for the next release: that of the code")
    func changelogHasTheProtocol() throws {
        let text = try String(contentsOf: Self.root.appending(path: "CHANGELOG.md"), encoding: .utf8)
        let unreleased = try #require(text.firstMatch(of: /\n## \[Unreleased\]\n([\s\S]*?)\n##\s/)).output.1
        let versions = unreleased.matches(of: /cluster\s+protocol\s+has\s+version\s+(\d+)/).map(\.output.1)
        #expect(versions.map(String.init) == ["\(Hello.protocolVersion)"])
    }

    @Test("`rollcall --version` prints the version and names the commit, or says that the build does not know it")
    func commandPrintsTheVersion() async throws {
        let ended = try await ServeTests.run(["--version"])
        let line = /rollcall (\S+) \((?:commit [0-9a-f]{7,40}(?:-dirty)?|unknown commit)\)\n/
        #expect(ended.status == 0)
        #expect(try line.wholeMatch(in: ended.output).map { String($0.output.1) } == Release.version, "\(ended.output)")
    }
}
