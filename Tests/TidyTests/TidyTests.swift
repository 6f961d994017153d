import Foundation
import Testing

/// The rules of the project's style that a machine can check. Each rule is a function of a source text, and is itself tested.
@Suite struct TidyTests {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    struct Source {
        let path: String
        let text: String
        var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }
        /// The folder below `Sources` or `Tests`.
        var target: String {
            let folders = path.split(separator: "/")
            return String(folders[folders.firstIndex { $0 == "Sources" || $0 == "Tests" }.map { $0 + 1 } ?? 0])
        }
        /// Whether it is part of the product: of the node, or of the SDK.
        var isProduct: Bool { path.hasPrefix("Sources/") || path.hasPrefix(TidyTests.sdk + "/") }
    }

    /// The sources of the SDK, a package of its own.
    static let sdk = "Clients/swift/Sources"

    static let sources: [Source] = {
        var found: [Source] = []
        for folder in ["Sources", sdk, "Tests"] {
            let files = FileManager.default.enumerator(atPath: root.appending(path: folder).path)
            while let file = files?.nextObject() as? String {
                guard file.hasSuffix(".swift"),
                    let text = try? String(contentsOf: root.appending(path: "\(folder)/\(file)"), encoding: .utf8)
                else { continue }
                found.append(Source(path: "\(folder)/\(file)", text: text))
            }
        }
        return found.sorted { $0.path < $1.path }
    }()

    /// The modules that each target may import.
    static let allowedImports: [String: Set<String>] = [
        "PresenceWire": [], "PresenceCore": ["PresenceWire", "DequeModule", "HeapModule"],
        "ClusterSimulation": ["PresenceWire", "PresenceCore", "HeapModule"],
        "HTTP2": ["CNGHTTP2", "CZlib", "NIOConcurrencyHelpers", "NIOCore", "NIOPosix", "NIOSSL", "Synchronization", "Glibc", "Darwin"],
        "FriendImport": ["PresenceWire", "AsyncHTTPClient", "NIOCore", "NIOSSL", "Foundation"],
        "PresenceClient": ["AsyncHTTPClient", "NIOSSL", "FoundationEssentials", "FoundationNetworking", "Foundation"],
        "TencentStatus": ["PresenceClient"], "TencentFriendship": ["PresenceClient"], "RongCloudStatus": ["PresenceClient"],
        "CommsEaseStatus": ["PresenceClient"], "ZIMStatus": ["PresenceClient"],
    ]

    static func imports(_ source: Source) -> [String] {
        guard source.isProduct, let allowed = allowedImports[source.target] else { return [] }
        return source.lines.compactMap { line in
            guard let name = line.trimmingCharacters(in: .whitespaces).split(separator: " ").dropFirst().first, line.contains("import "),
                line.trimmingCharacters(in: .whitespaces).hasPrefix("import ")
            else { return nil }
            return allowed.contains(String(name)) ? nil : "\(source.path): imports \(name)"
        }
    }

    static let pure: Set<String> = ["PresenceWire", "PresenceCore", "ClusterSimulation"]
    static let impure = [
        "async ", "await ", "Task ", ".now()", "ContinuousClock", "SystemRandomNumberGenerator", ".shuffled()", ".randomElement()",
        "clock_gettime",
    ]

    static func impurities(_ source: Source) -> [String] {
        guard source.isProduct, pure.contains(source.target) else { return [] }
        return source.lines.enumerated().flatMap { number, line -> [String] in
            let code = line.components(separatedBy: "//")[0]
            var found = impure.filter { code.contains($0) }
            if code.contains(".random(in:"), !code.contains("using:") { found.append(".random(in:") }
            if code.contains(".keys") || code.contains(".values"), !code.contains("sorted"),
                number == 0 || !source.lines[number - 1].contains("order does not matter")
            {
                found.append(".keys or .values without an order")
            }
            return found.map { "\(source.path):\(number + 1): \($0)" }
        }
    }

    static func lengths(_ source: Source) -> [String] {
        var found: [String] = []
        if source.lines.count > 600 { found.append("\(source.path): \(source.lines.count) lines, at most 600") }
        let findings = FunctionScanner.findings(in: source.text)
        if !findings.areBracketsMatched { found.append("\(source.path): FunctionScanner finds brackets that do not match") }
        return found
            + findings.functions.filter { $0.length > 70 }.map { function in
                "\(source.path):\(function.line): \(function.name) has \(function.length) lines, at most 70"
            }
    }

    static func bans(_ source: Source) -> [String] {
        guard !source.path.hasSuffix("TidyTests.swift") else { return [] }
        var banned = ["fatalError()", "TO" + "DO", "FIX" + "ME", "class Manager", "class Helper", "struct Util", "try!"]
        if source.path.hasPrefix("Tests") { banned = ["Task.sleep", "Task.yield", "Thread.sleep", "usleep("] }
        if source.isProduct, source.target != "rollcall", source.target != "cluster-simulation" { banned += [" print("] }
        return source.lines.enumerated().flatMap { number, line in
            banned.filter { line.contains($0) }.map { "\(source.path):\(number + 1): \($0)" }
        }
    }

    static func undocumented(_ source: Source) -> [String] {
        guard source.isProduct, allowedImports[source.target] != nil else { return [] }
        return source.lines.enumerated().compactMap { number, line in
            let code = line.trimmingCharacters(in: .whitespaces)
            guard
                code.hasPrefix("public struct") || code.hasPrefix("public enum") || code.hasPrefix("public final class")
                    || code.hasPrefix("public protocol"),
                !code.contains("extension")
            else { return nil }
            var before = number - 1
            while before >= 0, source.lines[before].trimmingCharacters(in: .whitespaces).hasPrefix("@") { before -= 1 }
            let isDocumented = before >= 0 && source.lines[before].trimmingCharacters(in: .whitespaces).hasPrefix("///")
            return isDocumented ? nil : "\(source.path):\(number + 1): \(code) has no doc comment"
        }
    }

    @Test("Targets import only what they may") func allowedImports() { #expect(Self.sources.flatMap(Self.imports) == []) }
    @Test("The core reads no clock, draws no random number and starts no task") func purity() {
        #expect(Self.sources.flatMap(Self.impurities) == [])
    }
    @Test("Files and functions are short") func shortFiles() { #expect(Self.sources.flatMap(Self.lengths) == []) }
    @Test("No source has a banned word or call") func bannedWords() { #expect(Self.sources.flatMap(Self.bans) == []) }
    @Test("Public types are documented") func documentation() { #expect(Self.sources.flatMap(Self.undocumented) == []) }

    @Test("The top level has only the agreed files") func topLevel() throws {
        let agreed: Set = [
            "Package.swift", "Sources", "Clients", "Tests", "Benchmarks", "deploy", "docker-compose.yml", "README.md", "CHANGELOG.md",
            "CONTRIBUTING.md", "SECURITY.md", "Makefile", "LICENSE", "rollcall-data", "Package.resolved", ".git", ".ci", ".github",
            ".gitignore", ".dockerignore", ".editorconfig", ".swift-format", ".swiftpm", ".rollcall",
        ]
        let found = try FileManager.default.contentsOfDirectory(atPath: Self.root.path).filter {
            !$0.hasPrefix(".build") && !agreed.contains($0)
        }
        #expect(found == [])
    }

    @Test("The rules find what they look for") func rules() {
        let planted = { (text: String) in Source(path: "Sources/PresenceCore/Planted.swift", text: text) }
        #expect(Self.imports(planted("import Foundation")).count == 1)
        #expect(Self.impurities(planted("let a = Int.random(in: 0...1)")).count == 1)
        #expect(Self.impurities(planted("let a = await b")).count == 1)
        #expect(Self.impurities(planted("for x in dictionary.keys {")).count == 1)
        #expect(Self.lengths(planted("func f() {\n" + String(repeating: "    x\n", count: 80) + "}")).count == 1)
        #expect(Self.lengths(planted("func f(\n    a: Int\n) {\n" + String(repeating: "    x\n", count: 67) + "}")) == [])
        #expect(Self.lengths(planted("func f(\n    a: Int\n) {\n" + String(repeating: "    x\n", count: 68) + "}")).count == 1)
        #expect(Self.bans(planted("fatalError()")).count == 1)
        #expect(Self.bans(Source(path: "Tests/A/Planted.swift", text: "while !isOver { await Task.yield() }")).count == 1)
        #expect(Self.undocumented(planted("public struct A {}")).count == 1)
    }
}
