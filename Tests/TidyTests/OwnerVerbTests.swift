import Testing

/// Only `Owner.swift` sets a field of `Owner`, and only the folder `Owner` changes users and counters. All other files use its verbs.
///
/// Swift proves the first part: the setters are private to the file. It has no access level for a folder, so the second part is a list.
@Suite struct OwnerVerbTests {
    static let folder = "Sources/PresenceCore/Owner/"

    /// The functions of `Owner` that change users and counters as their caller says. Files of the folder alone use them.
    static let inside: Set<String> = ["modify", "modifyLists", "insert", "remove", "count", "noteBacklog"]

    /// The mutating functions of `Owner` that other files of the core use. The list only shrinks.
    static let verbs: Set<String> = [
        "accepts", "attach", "beginSync", "carryOut", "contactChanged", "detach", "distrustPositions", "dropUsers", "endSync",
        "expireTombstones", "index", "listsBecameComplete", "listsMayLackEntries", "load", "lose", "nextVersion", "observe", "observeAll",
        "peersDied", "reassign", "receive", "refresh", "removeBlank", "removeRegistration", "renewAlone", "restartConfirmations",
        "ringChanged", "shareFollowersCount", "tick", "unwatch", "watch", "write", "writeRenewed",
    ]

    private static let core = TidyTests.sources.filter { $0.path.hasPrefix("Sources/PresenceCore/") }

    /// The stored properties of `Owner` whose setters are not private to the file, as they are declared.
    static func openFields(of text: String) -> [String] {
        let lines = text.split(separator: "\n")
        guard let start = lines.firstIndex(where: { $0.hasPrefix("package struct Owner:") }) else { return ["no struct Owner"] }
        let body = lines[(start + 1)...].prefix { $0 != "}" }
        let fields = body.filter { $0.prefixMatch(of: #/    (?:(?:package|private|fileprivate|internal)(?:\(set\))? )*var /#) != nil }
        // A computed property has no setter of its own here.
        return fields.filter { !$0.contains("{") && !$0.contains("private") }.map { String($0.dropFirst(4)) }
    }

    /// The names of the mutating functions in the declarations of `Owner` in a source.
    static func mutatingFunctions(in source: TidyTests.Source) -> Set<String> {
        var lexer = SwiftLexer(source.text)
        let tokens = lexer.tokens().map(\.text)
        var names: Set<String> = []
        var (depth, isOwner) = (0, false)
        for (index, token) in tokens.enumerated() {
            if token == "Owner", depth == 0, index > 0, ["struct", "extension"].contains(tokens[index - 1]) { isOwner = true }
            if token == "{" { depth += 1 }
            if token == "}" { depth -= 1 }
            if token == "}", depth == 0 { isOwner = false }
            if isOwner, token == "func", tokens[index - 1] == "mutating" { names.insert(tokens[index + 1]) }
        }
        return names
    }

    /// The functions of an owner that a source calls, by name.
    static func calls(in source: TidyTests.Source) -> Set<String> {
        var lexer = SwiftLexer(source.text)
        let tokens = lexer.tokens().map(\.text)
        return Set(
            tokens.indices.dropLast(3).filter { index in
                tokens[index] == "owner" && tokens[index + 1] == "." && ["(", "{"].contains(tokens[index + 3])
            }.map { tokens[$0 + 2] })
    }

    @Test("Only Owner.swift sets the fields of Owner") func fields() throws {
        let source = try #require(Self.core.first { $0.path == "\(Self.folder)Owner.swift" })
        #expect(Self.openFields(of: source.text) == [])
    }

    @Test("Files outside the folder Owner change owners by the listed verbs alone") func calls() {
        let functions = Self.core.filter { $0.path.hasPrefix(Self.folder) }.reduce(into: Set<String>()) {
            $0.formUnion(Self.mutatingFunctions(in: $1))
        }
        #expect(Self.inside.subtracting(functions) == [])
        var used: Set<String> = []
        for source in Self.core where !source.path.hasPrefix(Self.folder) {
            let called = Self.calls(in: source).intersection(functions)
            #expect(called.intersection(Self.inside) == [], "\(source.path)")
            used.formUnion(called)
        }
        #expect(used.subtracting(Self.inside).sorted() == Self.verbs.sorted())
    }

    @Test("The rules find what they look for") func rules() {
        let text = """
            package struct Owner: ~Copyable {
                let settings: CoreSettings
                private(set) var clock: VersionClock
                package private(set) var isOpen = false
                var users: UserStore
                package internal(set) var count = 0
                var isCutOff: Bool { contact.isLost }
                mutating func attach() { var users = 1 }
            }
            extension Owner {
                @discardableResult
                mutating func modify(_ body: () -> Void) { body() }
                func list() {}
            }
            extension Other { mutating func drop() {} }
            """
        #expect(Self.openFields(of: text) == ["var users: UserStore", "package internal(set) var count = 0"])
        #expect(Self.mutatingFunctions(in: TidyTests.Source(path: "A.swift", text: text)) == ["attach", "modify"])
        let calling = "owner.count { $0.a += 1 }; machines.owner.modify(user) { $0 = 1 }; _ = owner.users[1]; other.remove(1)"
        #expect(Self.calls(in: TidyTests.Source(path: "A.swift", text: calling)) == ["count", "modify"])
    }
}
