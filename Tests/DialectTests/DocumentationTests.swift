import CommsEaseStatus
import Foundation
import NodeFixture
import PresenceClient
import RongCloudStatus
import TencentStatus
import Testing
import ZIMStatus

/// The code of the pages in Sources/PresenceClient/Docs.docc compiles and runs: it stands in DocumentedCode.swift, line by line.
@Suite(.timeLimit(.minutes(1))) struct DocumentationTests {
    private final class Delegate: RCSubscribeEventDelegate, NIMEventSubscribeManagerDelegate, ZIMEventHandler {
        func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent]) {}
    }

    @Test func theContactListShowsWhoIsThere() async throws {
        let fixture = try await Fixture.start()
        let list = try ContactList(try await fixture.configuration(of: "ann"), contacts: ["bob", "carl"])
        let shown = Box<[String]>()
        async let running: Void = list.run { lines in shown.add([lines]) }
        try await fixture.until("the list is shown") { shown.all.last == ["○ bob", "○ carl"] }
        let carl = try PresenceClient(try await fixture.configuration(of: "carl"))
        try await carl.login(customStatus: "in a meeting")
        try await fixture.until("carl is online") { shown.all.last == ["● carl: in a meeting (ios)", "○ bob"] }
        try await carl.logout()
        try await fixture.until("carl has left") { shown.all.last == ["○ bob", "○ carl"] }
        try await list.setStatus(String(repeating: "x", count: 257))
        try await list.setStatus("here")
        try await list.logout()
        try await running
        try await fixture.stop()
    }

    @Test func theCodeOfTheOtherPagesRuns() async throws {
        let fixture = try await Fixture.start()
        let configuration = try await fixture.configuration(of: "ann")
        let delegate = Delegate()
        try await tencent(configuration, TencentListener())
        try await rongCloud(configuration, delegate)
        try await commsEase(configuration, delegate)
        try await zim(configuration, delegate)
        try await fixture.stop()
    }

    @Test func everySnippetIsCompiled() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let compiled = Self.lines(try String(contentsOf: folder.appending(path: "DocumentedCode.swift"), encoding: .utf8))
        let pages = folder.appending(path: "../../Sources/PresenceClient/Docs.docc")
        var count = 0
        for file in try FileManager.default.contentsOfDirectory(atPath: pages.path) where file.hasSuffix(".md") {
            let page = try String(contentsOf: pages.appending(path: file), encoding: .utf8)
            for block in page.components(separatedBy: "```swift\n").dropFirst() {
                let snippet = Self.lines(block.components(separatedBy: "```")[0])
                let isThere = compiled.indices.contains { compiled[$0...].starts(with: snippet) }
                #expect(isThere, "\(file): \(snippet.first ?? "")")
                count += 1
            }
        }
        #expect(count >= 7)
    }

    /// Lines that are not blank, without their indentation.
    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }
}
