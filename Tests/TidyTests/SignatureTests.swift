import Testing

/// The state that a function of the core may change stands in its signature: two machines at most.
@Suite struct SignatureTests {
    /// The types of the core with state of their own: the machines of a node, the parts of them that functions receive alone, and the
    /// places for outputs.
    static let machines: Set<String> = [
        "Calls", "Chain", "Cluster", "DiskHealth", "Edge", "FactSlot", "FanOut", "FollowedQuestions", "Gateway", "Handoff", "Link", "Links",
        "LocalSessions", "Composition", "Membership", "Node", "Outbox", "Owner", "Ownership", "Peers", "PendingCalls", "PendingWrites",
        "RateLimits", "RelayTree", "ReplicaRepair", "Replication", "Reports", "SharedFacts", "Terms", "Turn", "UnresolvedDecisions",
        "UserStore", "ViewComparison", "Webhooks",
    ]
    /// Most machines that a function may receive as `inout`.
    static let machinesMax = 2

    /// The functions over the limit, by file and name, with the number of their machines. The list only shrinks.
    static let exceptions: [String: Int] = [:]

    /// The functions of a source with more machines than the limit, by file and name, with the largest number of machines.
    static func excess(in source: TidyTests.Source) -> [String: Int] {
        guard source.path.hasPrefix("Sources/PresenceCore/") else { return [:] }
        var lexer = SwiftLexer(source.text)
        let tokens = lexer.tokens().map(\.text)
        var found: [String: Int] = [:]
        for start in tokens.indices.dropLast() where ["func", "init", "subscript"].contains(tokens[start]) {
            guard start == 0 || tokens[start - 1] != "." else { continue }
            let parameters = Self.parameters(tokens[(start + 1)...])
            let count = zip(parameters, parameters.dropFirst()).count { $0 == "inout" && machines.contains($1) }
            guard count > machinesMax else { continue }
            let name = "\(source.path.split(separator: "/").last ?? "").\(tokens[start] == "func" ? tokens[start + 1] : tokens[start])"
            found[name] = max(found[name] ?? 0, count)
        }
        return found
    }

    /// The tokens of the first parentheses.
    private static func parameters(_ tokens: ArraySlice<String>) -> ArraySlice<String> {
        guard let open = tokens.firstIndex(of: "(") else { return [] }
        var depth = 0
        for index in tokens[open...].indices {
            if tokens[index] == "(" { depth += 1 }
            if tokens[index] == ")" { depth -= 1 }
            if depth == 0 { return tokens[open...index] }
        }
        return tokens[open...]
    }

    @Test("No function of the core changes more than two machines") func machines() {
        var measured: [String: Int] = [:]
        for source in TidyTests.sources { measured.merge(Self.excess(in: source), uniquingKeysWith: max) }
        #expect(StructureTests.excess(measured, over: Self.machinesMax, except: Self.exceptions) == [])
    }

    @Test("Every machine of the list is a type of the core") func names() {
        let texts = TidyTests.sources.filter { $0.path.hasPrefix("Sources/PresenceCore/") }.map(\.text)
        let missing = Self.machines.filter { name in !texts.contains { $0.contains("struct \(name) ") || $0.contains("struct \(name):") } }
        #expect(missing.sorted() == [])
    }

    @Test("The rule finds what it looks for") func rule() {
        let text = """
            struct A {
                /// A sentence (of a comment).
                func two(_ owner: inout Owner, _ edge: borrowing Edge, _ cluster: inout Cluster, at now: Now) {}
                mutating func three<Body: Sequence>(
                    _ body: Body, owner: inout Owner, _ edge: inout Edge,
                    _ cluster: inout Cluster
                ) -> (inout Outbox) -> Void { owner.init() }
                init(_ body: (inout Owner) -> Void, _ cluster: inout Cluster, _ outbox: inout Outbox, _ count: inout Int) {}
            }
            """
        let path = "Sources/PresenceCore/Node/A.swift"
        #expect(Self.excess(in: TidyTests.Source(path: path, text: text)) == ["A.swift.three": 3, "A.swift.init": 3])
        #expect(Self.excess(in: TidyTests.Source(path: "Sources/HTTP2/A.swift", text: text)) == [:])
    }
}
