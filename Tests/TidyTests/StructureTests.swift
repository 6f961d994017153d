import Foundation
import Testing

/// Limits on types, and rules of comments and pages. The exceptions are types that are over a limit today: a list may only shrink.
@Suite struct StructureTests {
    /// A type of a target: its lines of code in all its extensions, its stored properties and those of them that are booleans.
    struct Shape: Equatable {
        var lines = 0
        var properties = 0
        var booleans = 0
    }

    static let linesMax = 600
    static let propertiesMax = 20
    static let booleansMax = 3

    static let linesExceptions = ["PresenceCore.Membership": 665]
    static let propertiesExceptions = [
        "HTTP2.HTTP2Session": 30,
        "LoadSimulator.SimulationReport": 29, "PresenceClient.PresenceClient": 25, "PresenceCore.Membership": 26,
        "PresenceCore.Membership.Settings": 24, "PresenceCore.NodeStatistics": 25,
        "PresenceNode.NodeConfiguration": 27, "PresenceNode.OutgoingLink": 23, "PresenceNode.Shell": 24, "PresenceWire.Policy": 37,
    ]
    static let booleansExceptions = [
        "ClusterSimulation.PolicyTruth": 6,
        "PresenceNode.OutgoingLink": 4, "PresenceNode.Shell": 5, "PresenceWire.ListUpdate": 4, "PresenceWire.Policy": 10,
        "cluster-simulation.ClusterSimulationCommand": 6,
    ]

    /// The most stored booleans of all types of `HTTP2` together. It may only become smaller: a phase says more than a boolean.
    static let booleansOfHTTP2Max = 23

    /// The most lines of the core that trap. It may only become smaller: a type that cannot have the case needs no trap.
    static let trapsOfCoreMax = 7

    /// The types of all targets, by target and name.
    static func shapes(of sources: [TidyTests.Source]) -> [String: Shape] {
        var shapes: [String: Shape] = [:]
        for source in sources where source.isProduct {
            measure(source) { type, change in change(&shapes["\(source.target).\(type)", default: Shape()]) }
        }
        return shapes
    }

    /// Those of the repository. Three rules look at them.
    private static let shapes = shapes(of: TidyTests.sources)

    nonisolated(unsafe) private static let declaration =
        /^\s*(?:@\w+(?:\([^)]*\))? )*(?:(?:open|public|package|private|fileprivate|final|indirect|nonisolated)(?:\(set\))? )*(struct|class|enum|actor|extension|protocol) ([\w.]+)/
    nonisolated(unsafe) private static let property =
        /^\s*(?:@\w+(?:\([^)]*\))? )*(?:(?:public|package|private|fileprivate|internal|final|weak|unowned|lazy|nonisolated)(?:\((?:set|unsafe)\))? )*(?:let|var) \w+(.*)/

    private static func measure(_ source: TidyTests.Source, _ note: (String, (inout Shape) -> Void) -> Void) {
        var types: [(name: String, depth: Int, isStoring: Bool)] = []
        var depth = 0
        for line in source.lines {
            let code = Self.code(of: line)
            if code.contains("{"), let match = code.firstMatch(of: declaration) {
                let name = match.2.split(separator: ".").last.map(String.init) ?? ""
                types.append((name, depth, ["struct", "class", "actor"].contains(match.1)))
            }
            if let outermost = types.first, !code.allSatisfy(\.isWhitespace) { note(outermost.name) { $0.lines += 1 } }
            if let type = types.last, type.isStoring, depth == type.depth + 1, code.contains("let ") || code.contains("var "),
                let match = code.firstMatch(of: property)
            {
                let rest = match.1
                let isStored = !rest.contains("{") || rest.firstMatch(of: /^[^{]*=.*\{|didSet|willSet/) != nil
                let name = types.map(\.name).joined(separator: ".")
                if isStored { note(name) { $0.properties += 1 } }
                if isStored, rest.firstMatch(of: /:\s*Bool\b(?!\])|=\s*(true|false)\b/) != nil { note(name) { $0.booleans += 1 } }
            }
            depth += code.count { $0 == "{" } - code.count { $0 == "}" }
            while let type = types.last, depth <= type.depth { types.removeLast() }
        }
    }

    /// A line without its strings and its comment.
    private static func code(of line: Substring) -> String {
        guard line.utf8.contains(UInt8(ascii: "\"")) || line.utf8.contains(UInt8(ascii: "/")) else { return String(line) }
        let text = line.replacing(/"(?:\\.|[^"\\])*"/, with: "\"\"")
        return String(text.split(separator: "//", maxSplits: 1, omittingEmptySubsequences: false)[0])
    }

    /// The types over a limit that are no exceptions, and the exceptions that are looser than they need be, or not needed at all.
    static func excess(_ measured: [String: Int], over limit: Int, except exceptions: [String: Int]) -> [String] {
        let large = measured.filter { $0.value > limit }
        let unlisted = large.filter { $0.value > exceptions[$0.key] ?? limit }.map { "\($0.key) has \($0.value), \(limit) at most" }
        let loose = exceptions.filter { measured[$0.key] ?? 0 < $0.value }.map { "\($0.key) is listed with \($0.value): lower it" }
        let needless = exceptions.filter { $0.value <= limit }.map { "\($0.key) is listed with \($0.value): remove it" }
        return (unlisted + loose + needless).sorted()
    }

    @Test("No type has more than 600 lines of code in all its extensions") func lines() {
        let lines = Self.shapes.mapValues(\.lines)
        #expect(Self.excess(lines, over: Self.linesMax, except: Self.linesExceptions) == [])
    }

    @Test("No type has more than 20 stored properties") func properties() {
        let properties = Self.shapes.mapValues(\.properties)
        #expect(Self.excess(properties, over: Self.propertiesMax, except: Self.propertiesExceptions) == [])
    }

    @Test("No type has more than three stored booleans") func booleans() {
        let booleans = Self.shapes.mapValues(\.booleans)
        #expect(Self.excess(booleans, over: Self.booleansMax, except: Self.booleansExceptions) == [])
    }

    @Test("The types of HTTP2 do not get more stored booleans than they have") func booleansOfHTTP2() {
        let count = Self.shapes.filter { $0.key.hasPrefix("HTTP2.") }.map(\.value.booleans).reduce(0, +)
        #expect(count == Self.booleansOfHTTP2Max, "if there are fewer, lower the limit")
    }

    /// The lines of a source of the core that trap without a condition.
    static func traps(in source: TidyTests.Source) -> [String] {
        guard source.path.hasPrefix("Sources/PresenceCore/") else { return [] }
        return source.lines.enumerated().filter { code(of: $0.element).contains("preconditionFailure(") }
            .map { "\(source.path):\($0.offset + 1)" }
    }

    @Test("The core does not get more lines that trap than it has") func traps() {
        let traps = TidyTests.sources.flatMap(Self.traps)
        #expect(traps.count == Self.trapsOfCoreMax, "if there are fewer, lower the limit: \(traps)")
    }

    /// The words by which a check would make an exception that is no row of the tables of exceptions.
    nonisolated(unsafe) private static let doubts = /\.(faults|isBusy|isCertain|hasHidden|excusedUntil|crippledAt|manyKilledAt)\b/

    @Test("Checks of the simulator make only the exceptions of the tables") func exceptions() {
        let checks = TidyTests.sources.filter { $0.path.contains("ClusterSimulation/Checks/") && !$0.path.hasSuffix("Exception.swift") }
        let found = checks.flatMap { source in
            source.lines.filter { $0.contains(Self.doubts) && !$0.contains("excusedUntil = ") }.map { "\(source.path): \($0)" }
        }
        #expect(checks.count > 10)
        #expect(found == [])
    }

    @Test("Only the folder Node extends Node") func extensionsOfNode() {
        let outside = TidyTests.sources.filter { source in
            source.path.hasPrefix("Sources") && !source.path.contains("PresenceCore/Node/")
                && source.lines.contains { $0.hasPrefix("extension Node ") || $0.hasPrefix("extension Node:") }
        }
        #expect(outside.map(\.path) == [])
    }

    @Test("No two folders of the core use each other") func edges() throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", TidyTests.root.appending(path: "Tests/TidyTests/edges").path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(text.contains("Node -> Cluster"))
        #expect(process.terminationStatus == 0, "\(text)")
    }

    @Test("No two source files have one name") func fileNames() {
        let names = TidyTests.sources.filter(\.isProduct).map { $0.path.split(separator: "/").last ?? "" }
        let doubled = Dictionary(grouping: names, by: \.self).filter { $0.value.count > 1 }
        #expect(doubled.map(\.key).sorted() == [])
    }

    // MARK: Comments

    /// The comments of a source that break a rule.
    static func comments(_ source: TidyTests.Source) -> [String] {
        source.lines.enumerated().flatMap { number, line -> [String] in
            // A look at each byte costs a tenth of an expression.
            guard line.utf8.contains(UInt8(ascii: "/")), let start = line.firstRange(of: #/(?:^|\s)//+ /#) else { return [] }
            let comment = line[start.upperBound...]
            var broken: [String] = []
            if comment.firstMatch(of: /[Ss]eed \d{3,}|[Ii]ssue \d|(?:contract|design) §/) != nil { broken.append("cites history") }
            if line.count > 140 { broken.append("has more than 140 columns") }
            if comment.firstMatch(of: /(?:^|\. |: )(?:Who|What|Whom|Where|Whoever|Whatever) [^?]*$/) != nil {
                broken.append("begins a sentence with a clause without a noun")
            }
            return broken.map { "\(source.path):\(number + 1): \($0)" }
        }
    }

    @Test("Comments name the thing that acts, fit into 140 columns and cite no seed and no issue") func comments() {
        #expect(TidyTests.sources.filter { !$0.path.contains("TidyTests") }.flatMap(Self.comments) == [])
    }

    // MARK: Pages

    private static let headless: Set = ["Who", "What", "Whom", "Where", "Whoever", "Whatever"]

    /// The sentences of a page: those of its paragraphs and lists, without headings, tables and code.
    static func sentences(of page: LinkTests.Page) -> [String] {
        var sentences: [String] = []
        var words: [Substring] = []
        func end() {
            if !words.isEmpty { sentences.append(words.joined(separator: " ")) }
            words = []
        }
        for line in page.prose.split(separator: "\n", omittingEmptySubsequences: false) {
            let text = line.drop { $0 == " " }
            let item = text.prefixMatch(of: #/(?:[-*+>]|\d+\.) /#)
            if text.isEmpty || item != nil || text.hasPrefix("#") || text.hasPrefix("|") { end() }
            if text.hasPrefix("#") || text.hasPrefix("|") { continue }
            for word in text[(item?.range.upperBound ?? text.startIndex)...].split(separator: " ") {
                words.append(word)
                if word.last(where: { !"*_)\"".contains($0) }).map({ ".!?:".contains($0) }) == true { end() }
            }
        }
        end()
        return sentences
    }

    /// The sentences of a page that break a rule of comments. Questions may begin with any word.
    static func sentencesToMend(_ page: LinkTests.Page) -> [String] {
        sentences(of: page).flatMap { sentence -> [String] in
            var broken: [String] = []
            let first = sentence.drop { "*_([\"".contains($0) }.prefix { $0.isLetter }
            if headless.contains(String(first)), !sentence.contains("?") { broken.append("begins with a clause without a noun") }
            if sentence.firstMatch(of: /[Ss]eeds? \d|[Ii]ssue #?\d|(?:contract|design)(?:\.md)? §/) != nil {
                broken.append("cites history")
            }
            return broken.map { "\(page.path): \($0): \(sentence)" }
        }
    }

    @Test("Sentences of pages name the thing that acts, and cite no seed and no issue") func pages() {
        #expect(LinkTests.pages.flatMap(Self.sentencesToMend) == [])
        let text = """
            # Who may see it
            Where nothing acts, a sentence is hard. What
            does it say? It says what a reader knows: *What* comes next is wrong.
            - Whom nobody knows is in a list. See seed 7.
            | Who | is in a table |
            ```
            Where code is
            ```
            """
        #expect(Self.sentencesToMend(LinkTests.Page(path: "Planted.md", text: text)).count == 4)
    }

    @Test("The rules find what they look for") func rules() {
        let text = """
            struct A {
                let a: Bool, b = 1
                var isB = true { didSet { note() } }
                var c: Int { 1 }
                var isC: Bool { if case 1 = c { true } else { false } }
                struct B { let d = "{" }
            }
            extension A {
                // \("Where") nothing acts, this sentence is hard.
                func f() {}
            }
            """
        let planted = TidyTests.Source(path: "Sources/X/A.swift", text: text)
        let shapes = Self.shapes(of: [planted])
        #expect(shapes["X.A"] == Shape(lines: 10, properties: 2, booleans: 2))
        #expect(Self.comments(planted).count == 1)
        let trap = "// preconditionFailure(a)\nguard let a else { preconditionFailure(\"no a\") }"
        #expect(Self.traps(in: TidyTests.Source(path: "Sources/PresenceCore/A.swift", text: trap)) == ["Sources/PresenceCore/A.swift:2"])
        #expect(Self.traps(in: TidyTests.Source(path: "Sources/X/A.swift", text: trap)) == [])
        #expect(Self.comments(TidyTests.Source(path: "Sources/X/B.swift", text: "// See seed 1234.")).count == 1)
        #expect(Self.excess(["X.A": 9], over: 8, except: [:]).count == 1)
        #expect(Self.excess(["X.A": 9], over: 8, except: ["X.A": 10]).count == 1)
        #expect(Self.excess(["X.A": 9], over: 8, except: ["X.A": 9]) == [])
        #expect(Self.excess(["X.A": 8], over: 8, except: ["X.A": 8]).count == 1)
        #expect(Self.excess([:], over: 8, except: ["X.A": 9]).count == 1)
    }
}
