import Foundation
import Testing

/// `Requirements.md` has every requirement and names the tests that prove it.
@Suite struct RequirementsPageTests {
    private static let page = TidyTests.root.appending(path: "Sources/PresenceCore/Docs.docc/Requirements.md")
    private static let ids: [String] = [("T", 38), ("R", 16), ("N", 26), ("Z", 23), ("P", 45), ("X", 12)].flatMap { letter, count in
        (1...count).map { "\(letter)\($0)" }
    }

    /// A line of a table: an ID, its rule, and the cell with tests and remarks.
    struct Row: Equatable {
        let id: String
        let rule: String
        let cell: String

        init?(_ line: Substring) {
            guard let match = line.wholeMatch(of: /\| ([TRNZPX][0-9]+) \| (.+) \| (.+) \|/) else { return nil }
            (id, rule, cell) = (String(match.1), String(match.2), String(match.3))
        }

        /// `File.swift`: `function()`.
        var tests: [(file: String, function: String)] {
            cell.matches(of: /`([\w+]+\.swift)`: `(\w+)\(\)`/).map { (String($0.1), String($0.2)) }
        }
    }

    /// The conformance tests by ID, as cells name them.
    static func conformance(in sources: [TidyTests.Source]) -> [String: [String]] {
        var found: [String: [String]] = [:]
        for source in sources where source.path.hasPrefix("Tests/ConformanceTests/") {
            let file = source.path.split(separator: "/").last ?? ""
            for match in source.text.matches(of: /@Test\(\s*"([^"]*)"[^{]*?func (\w+)\(/) {
                for id in match.1.matches(of: /\b[TRNZPX][0-9]+\b/) { found[String(id.0), default: []].append("`\(file)`: `\(match.2)()`") }
            }
        }
        return found
    }

    /// A cell with these conformance tests, and with all else that the old cell has except tests that are gone.
    static func cell(_ old: String, conformance: [String]) -> String {
        let others = old.split(separator: "<br>").map(String.init).filter { part in
            guard !conformance.contains(part), let match = part.wholeMatch(of: /`([\w+]+\.swift)`: `(\w+)\(\)`/) else {
                return !conformance.contains(part)
            }
            return exists(String(match.2), in: String(match.1))
        }
        return (conformance + others).joined(separator: "<br>")
    }

    private static func exists(_ function: String, in file: String) -> Bool {
        TidyTests.sources.contains {
            $0.path.hasPrefix("Tests/") && $0.path.hasSuffix("/\(file)") && $0.text.contains("func \(function)(")
        }
    }

    private func rows() throws -> [Row] {
        try String(contentsOf: Self.page, encoding: .utf8).split(separator: "\n").compactMap(Row.init)
    }

    @Test("Each requirement is in the page, in order and once")
    func complete() throws { #expect(try rows().map(\.id) == Self.ids) }

    @Test("Each test that the page names exists")
    func existing() throws {
        for row in try rows() {
            for test in row.tests {
                #expect(
                    Self.exists(test.function, in: test.file),
                    "\(row.id): \(test.file) has no \(test.function)(); run `make pages` or correct the page")
            }
            #expect(!row.tests.isEmpty || row.cell.contains("not "), "\(row.id) has neither a test nor a reason")
        }
    }

    @Test("The page names each conformance test that cites a requirement")
    func current() throws {
        let conformance = Self.conformance(in: TidyTests.sources)
        #expect(conformance.count > 90)
        var text = try String(contentsOf: Self.page, encoding: .utf8)
        for row in try rows() {
            let cell = Self.cell(row.cell, conformance: conformance[row.id] ?? [])
            text = text.replacing("| \(row.id) | \(row.rule) | \(row.cell) |", with: "| \(row.id) | \(row.rule) | \(cell) |")
        }
        if ProcessInfo.processInfo.environment["ROLLCALL_TESTS"] == "write-pages" {
            try text.write(to: Self.page, atomically: true, encoding: .utf8)
        }
        for row in try rows() {
            #expect(row.cell == Self.cell(row.cell, conformance: conformance[row.id] ?? []), "\(row.id): run `make pages`")
        }
        #expect(conformance.keys.filter { !Self.ids.contains($0) } == [])
    }
}
