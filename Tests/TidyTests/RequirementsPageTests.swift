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

    /// The tests of whole nodes by the ID with which their display names begin, as cells name them.
    static func proofs(in sources: [TidyTests.Source]) -> [String: [String]] {
        var found: [String: [String]] = [:]
        for source in sources where ["Tests/ConformanceTests/", "Tests/DialectTests/"].contains(where: source.path.hasPrefix) {
            let file = source.path.split(separator: "/").last ?? ""
            for test in source.text.split(separator: "@Test(", omittingEmptySubsequences: false).dropFirst() {
                guard let name = test.prefixMatch(of: /\s*"((?:[TRNZPX][0-9]+ )+)/), let function = test.firstMatch(of: /func (\w+)\(/)
                else { continue }
                for id in name.1.split(separator: " ") { found[String(id), default: []].append("`\(file)`: `\(function.1)()`") }
            }
        }
        return found
    }

    /// The cell of a row whose requirement has these proofs.
    ///
    /// Facts about the vendors' servers are not required. Their cells keep remarks, and tests of other targets that still exist.
    static func cell(of row: Row, proofs: [String]) -> String {
        guard row.id.hasPrefix("X") else { return proofs.joined(separator: "<br>") }
        let others = row.cell.split(separator: "<br>").map(String.init).filter { part in
            guard !proofs.contains(part), let match = part.wholeMatch(of: /`([\w+]+\.swift)`: `(\w+)\(\)`/) else {
                return !proofs.contains(part)
            }
            return exists(String(match.2), in: String(match.1))
        }
        return (proofs + others).joined(separator: "<br>")
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

    @Test("The page names the tests of whole nodes that cite a requirement, and no others")
    func current() throws {
        let proofs = Self.proofs(in: TidyTests.sources)
        #expect(proofs.count > 148)
        var text = try String(contentsOf: Self.page, encoding: .utf8)
        for row in try rows() {
            let cell = Self.cell(of: row, proofs: proofs[row.id] ?? [])
            text = text.replacing("| \(row.id) | \(row.rule) | \(row.cell) |", with: "| \(row.id) | \(row.rule) | \(cell) |")
        }
        if ProcessInfo.processInfo.environment["ROLLCALL_TESTS"] == "write-pages" {
            try text.write(to: Self.page, atomically: true, encoding: .utf8)
        }
        for row in try rows() {
            #expect(row.cell == Self.cell(of: row, proofs: proofs[row.id] ?? []), "\(row.id): run `make pages`")
        }
        #expect(proofs.keys.filter { !Self.ids.contains($0) } == [])
    }

    @Test("A test is found whatever its arguments are, and cites only the requirements with which its name begins")
    func scanning() {
        let text = """
            import Testing
            @Test(
                "P6 X10 One",
                arguments: [(#"{"userID":7}"#, { $0 })])
            func one(body: String) {}
            @Test("The samples run: P1–P8") func samples() {}
            @Test("P6 Three") func three() {}
            """
        let proofs = ["ConformanceTests", "DialectTests", "PresenceCoreTests"].flatMap { folder -> [String] in
            let source = TidyTests.Source(path: "Tests/\(folder)/\(folder.prefix(1)).swift", text: text)
            return Self.proofs(in: [source]).map { "\($0): \($1)" }.sorted()
        }
        #expect(
            proofs == [
                #"P6: ["`C.swift`: `one()`", "`C.swift`: `three()`"]"#, #"X10: ["`C.swift`: `one()`"]"#,
                #"P6: ["`D.swift`: `one()`", "`D.swift`: `three()`"]"#, #"X10: ["`D.swift`: `one()`"]"#,
            ])
    }
}
