import Foundation
import Testing

/// Links of the documentation lead somewhere: `<doc:Page#Heading>` and `[text](path#heading)`.
@Suite struct LinkTests {
    struct Page {
        /// Below the top of the repository.
        let path: String
        let text: String

        var name: String { String((path.split(separator: "/").last ?? "").dropLast(3)) }
        var catalog: Substring? { path.firstRange(of: ".docc/").map { path[..<$0.upperBound] } }

        /// The text without code blocks and code spans.
        var prose: String {
            var isCode = false
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
                if line.drop(while: { $0 == " " }).hasPrefix("```") {
                    isCode.toggle()
                    return false
                }
                return !isCode
            }
            return lines.joined(separator: "\n").replacing(/``?[^`\n]+``?/, with: "")
        }

        /// Headings, without their marks.
        var headings: [String] {
            var isCode = false
            return text.split(separator: "\n").compactMap { line in
                if line.hasPrefix("```") { isCode.toggle() }
                guard !isCode, let match = line.wholeMatch(of: /#{2,6} (.+)/) else { return nil }
                return String(match.1).replacing("`", with: "")
            }
        }
    }

    static let pages: [Page] = {
        var paths = ["README.md", "Benchmarks/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "Tests/README.md"]
        for folder in ["Sources", "Clients/swift"] {
            for file in FileManager.default.enumerator(atPath: TidyTests.root.appending(path: folder).path)?.allObjects as? [String] ?? []
            where file.hasSuffix(".md") { paths.append("\(folder)/\(file)") }
        }
        return paths.sorted().compactMap { path in
            (try? String(contentsOf: TidyTests.root.appending(path: path), encoding: .utf8)).map { Page(path: path, text: $0) }
        }
    }()

    /// The anchor of a heading as DocC writes it: punctuation goes, spaces become hyphens.
    static func doccAnchor(_ heading: String) -> String {
        heading.replacing(/[^\p{L}\p{N}_ .\/-]/, with: "").replacing(/[ ]+/, with: "-")
    }

    /// The anchor as GitHub writes it.
    static func githubAnchor(_ heading: String) -> String {
        heading.lowercased().replacing(/[^\p{L}\p{N}_ -]/, with: "").replacing(" ", with: "-")
    }

    /// The links of a page that lead nowhere.
    static func dead(_ page: Page, among pages: [Page]) -> [String] {
        var dead: [String] = []
        for match in page.prose.matches(of: /<doc:([^>#]*)(?:#([^>]+))?>/) {
            let target = match.1.isEmpty ? page : pages.first { $0.name == match.1 && $0.catalog == page.catalog }
            let isThere = target.map { target in match.2.map { anchor in target.headings.contains { doccAnchor($0) == anchor } } ?? true }
            if isThere != true { dead.append("\(page.path): \(match.0)") }
        }
        for match in page.prose.matches(of: /\]\(([^)#]*)(?:#([^)]+))?\)/) where !match.1.hasPrefix("http") {
            let folder = page.path.split(separator: "/").dropLast().joined(separator: "/")
            let path = match.1.isEmpty ? page.path : (folder.isEmpty ? "" : folder + "/") + match.1
            let url = TidyTests.root.appending(path: path).standardizedFileURL
            guard FileManager.default.fileExists(atPath: url.path) else {
                dead.append("\(page.path): \(match.1)")
                continue
            }
            guard let anchor = match.2 else { continue }
            let target = pages.first { TidyTests.root.appending(path: $0.path).standardizedFileURL == url }
            if target?.headings.contains(where: { githubAnchor($0) == anchor }) != true { dead.append("\(page.path): \(match.0)") }
        }
        return dead
    }

    /// Files that a page names and that are not there: paths from the top of the repository, and names of Swift files.
    static func missingFiles(_ page: Page) -> [String] {
        let manager = FileManager.default
        let paths = page.text.matches(of: /`((?:Tests|Sources|Clients|Benchmarks|deploy)\/[\w.\/+-]+)/).map { String($0.1) }
        let names = page.text.matches(of: /`([\w+]+\.swift)`/).map { String($0.1) }
        return paths.filter { !manager.fileExists(atPath: TidyTests.root.appending(path: $0).path) }
            + names.filter { name in !TidyTests.sources.contains { $0.path.hasSuffix("/\(name)") } }
    }

    @Test("Every file that the documentation names is there")
    func files() {
        for page in Self.pages { #expect(Self.missingFiles(page) == [], "\(page.path)") }
        #expect(Self.missingFiles(Page(path: "A.md", text: "`Tests/Nowhere/run` and `Nothing.swift`, but `Tests/TidyTests`")).count == 2)
    }

    @Test("Every link of the documentation resolves")
    func links() {
        #expect(Self.pages.count > 10)
        #expect(Self.pages.flatMap { Self.dead($0, among: Self.pages) } == [])
    }

    @Test("The root page of a catalog lists every page of it")
    func topics() {
        for catalog in Set(Self.pages.compactMap(\.catalog)) {
            let pages = Self.pages.filter { $0.catalog == catalog }
            let root = pages.first { $0.text.hasPrefix("# ``") }
            for page in pages where page.name != root?.name {
                #expect(root?.text.contains("- <doc:\(page.name)>") == true, "\(page.path) is in no topic")
            }
        }
    }

    @Test("Each document that a comment cites as <doc:…> is there")
    func citations() {
        for source in TidyTests.sources where !source.path.hasPrefix("Tests/TidyTests") {
            for match in source.text.matches(of: /<doc:([A-Za-z-]+)(?:#([^>]+))?>/) {
                let target = Self.pages.first { $0.name == match.1 }
                let isThere =
                    match.2.map { anchor in target?.headings.contains { Self.doccAnchor($0) == anchor } == true } ?? (target != nil)
                #expect(isThere, "\(source.path): \(match.0)")
            }
        }
    }

    @Test("The check finds links that lead nowhere")
    func planted() {
        let there = Page(path: "A.docc/There.md", text: "# There\n\n## A heading, here\n")
        let page = Page(
            path: "A.docc/Planted.md",
            text:
                "<doc:There> <doc:There#A-heading-here> <doc:Nowhere> <doc:There#Nothing> [a](nowhere.md) `<doc:Code>`\n```\n<doc:Block>\n```\n"
        )
        #expect(Self.dead(page, among: [there, page]).count == 3)
    }
}
