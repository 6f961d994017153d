import Foundation
import Testing

/// The page "A change, file by file" names files that exist.
@Suite struct FileByFileTests {
    /// The files that a page names by a path below `Sources` and that are not there, each with the place of a file of that name.
    static func moved(in text: String, among paths: [String]) -> [String] {
        let named = text.matches(of: /`([\w+-]+(?:\/[\w+-]+)*\/[\w+-]+\.swift)`/).map { String($0.1) }
        return Set(named).sorted().filter { !paths.contains("Sources/\($0)") }.map { path in
            let name = path.split(separator: "/").last ?? ""
            let places = paths.filter { $0.hasPrefix("Sources/") && $0.hasSuffix("/\(name)") }.map { $0.dropFirst("Sources/".count) }
            return places.isEmpty ? "\(path) is gone, and no file has its name" : "\(path) is now \(places.joined(separator: " or "))"
        }
    }

    @Test("Each file of the page is there") func files() throws {
        let page = try #require(LinkTests.pages.first { $0.name == "FileByFile" })
        #expect(page.text.matches(of: /\.swift`/).count > 30)
        #expect(Self.moved(in: page.text, among: TidyTests.sources.map(\.path)) == [])
    }

    @Test("The rule names the new place of a file") func rule() {
        let paths = ["Sources/A/B.swift", "Sources/A/New/C.swift", "Tests/A/D.swift"]
        let text = "`A/B.swift`, `A/Old/C.swift`, `A/D.swift` and `E.swift`"
        #expect(
            Self.moved(in: text, among: paths) == ["A/D.swift is gone, and no file has its name", "A/Old/C.swift is now A/New/C.swift"])
    }
}
