import Testing

@testable import PresenceWire

/// The calls about a user's own lists, as nodes send them.
@Suite struct FriendCallTests {
    private func written(_ call: FriendCall) -> [UInt8] {
        var wire = WireWriter()
        wire.operation(.friendCall(call))
        return wire.bytes
    }

    private func read(_ bytes: [UInt8]) throws(DecodeError) -> OwnerOperation {
        let operation: Result<OwnerOperation, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            do throws(DecodeError) {
                let operation = try reader.operation()
                try reader.expectEnd()
                return .success(operation)
            } catch { return .failure(error) }
        }
        return try operation.get()
    }

    private static let change: FriendChange = {
        var change = FriendChange()
        (change.remark, change.groups) = ("", [])
        change.fields = [
            CustomField(name: "A", value: .integer(-1)),
            CustomField(name: "B1234567", value: .bytes(Array(repeating: 0xFF, count: Limits.fieldBytesMax))),
        ]
        return change
    }()

    private static let imported: FriendImport = {
        var friend = FriendImport(user: user)
        (friend.change, friend.addWording, friend.addSource, friend.addTime) = (change, "hi", "AddSource_Type_x", 1)
        return friend
    }()

    private static let user = UserID(app: "default", id: "ann")

    private static let calls: [FriendCall] = [
        .blocked(after: nil, limit: 1), .requests(RequestQuery()),
        .requests(RequestQuery(kind: .sent, since: String(repeating: "x", count: 64), after: 1, limit: 1)),
        .deleteRequests([user], .received), .readRequests(upTo: Limits.times.upperBound), .modifyFriend(user, change),
        .modifyFriend(user, FriendChange()), .createGroups((0..<32).map { "g\($0)" }, users: [user]),
        .deleteGroups([String(repeating: "x", count: 30)]), .renameGroup("old", to: "new"), .groups(nil), .groups([]),
        .addToGroup("g", [user]), .removeFromGroup("g", [user]), .profile, .modifyProfile([]),
        .modifyProfile([
            .init(name: "Nick", value: .text("Ann")), .init(name: "Gender", value: .integer(2)),
            .init(name: "Custom_A", value: .bytes([0xFF])),
        ]), .importFriends([]), .importFriends([imported, FriendImport(user: user)]),
    ]

    @Test("Each call is read as it was written, and each shorter text is refused", arguments: calls) func roundTrip(call: FriendCall) throws
    {
        let bytes = written(call)
        #expect(try read(bytes) == .friendCall(call))
        for count in 0..<bytes.count { #expect(throws: DecodeError.self) { try read(Array(bytes[..<count])) } }
    }

    @Test(
        "A call beyond a limit is refused",
        arguments: [
            FriendCall.requests(RequestQuery(limit: 0)), .requests(RequestQuery(limit: 101)), .requests(RequestQuery(after: .max)),
            .createGroups([""], users: []), .createGroups([String(repeating: "x", count: 31)], users: []),
            .createGroups((0..<33).map { "g\($0)" }, users: []), .renameGroup("", to: "x"), .addToGroup("", []),
            .modifyProfile([.init(name: "Name", value: .text("Ann"))]), .modifyProfile([.init(name: "Gender", value: .integer(3))]),
            .modifyProfile([.init(name: "Nick", value: .bytes(Array(repeating: 65, count: 501)))]),
            .modifyProfile((0..<31).map { _ in .init(name: "Level", value: .integer(1)) }),
            .importFriends(Array(repeating: FriendImport(user: user), count: 101)),
        ])
    func limits(call: FriendCall) { #expect(throws: DecodeError.self) { try read(written(call)) } }

    @Test(
        "A question about friends is read as it was written, and each shorter text is refused",
        arguments: [RelationCheck.Side.own([]), .own([user, UserID(app: "default", id: "ben")]), .others([user], other: user)],
        RelationCheck.List.allCases)
    func checks(side: RelationCheck.Side, list: RelationCheck.List) throws {
        let check = RelationCheck(side, in: list)
        var wire = WireWriter()
        wire.operation(.checkRelations(check))
        let bytes = wire.bytes
        #expect(try read(bytes) == .checkRelations(check))
        for count in 0..<bytes.count { #expect(throws: DecodeError.self) { try read(Array(bytes[..<count])) } }
    }

    private static let forced: SentRequest = {
        var request = SentRequest(addTime: 1)
        (request.isForced, request.remark, request.groupID) = (true, "r", 7)
        return request
    }()

    @Test(
        "A call about other users is read as it was written, and each shorter text is refused",
        arguments: [
            ChainCall.add(user, forced, isTwoWay: false, group: "g"), .add(user, forced, isTwoWay: true),
            .add(user, SentRequest(addTime: 1), isTwoWay: true), .add(user, SentRequest(addTime: 1), isTwoWay: false),
            .respond(user, .accept(remark: "", isTwoWay: true)), .respond(user, .add(forced, isTwoWay: true)), .respond(user, .reject),
            .delete([user], isTwoWay: true), .setBlocked([user], false), .deleteAll(isTwoWay: true), .deleteAll(isTwoWay: false),
        ])
    func chainCalls(call: ChainCall) throws {
        var wire = WireWriter()
        wire.operation(.chain(call))
        let bytes = wire.bytes
        #expect(try read(bytes) == .chain(call))
        for count in 0..<bytes.count { #expect(throws: DecodeError.self) { try read(Array(bytes[..<count])) } }
    }

    @Test("A question whether a decision counts, and its answer, are read as they were written") func verifying() throws {
        let pair = ChainPair(user: Self.user, other: UserID(app: "default", id: "ben"))
        for verdict in [ChainVerify.Verdict.asked, .holds, .isVoid, .isDone, .isPending, .isUnresolved] {
            let message = Message.chainVerify(
                ChainVerify(pair: pair, version: Version(milliseconds: 7, counter: 8, node: 9), verdict: verdict))
            var wire = WireWriter()
            wire.message(message)
            let read = wire.bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return try? reader.message()
            }
            #expect(read == message)
        }
    }

    @Test("A result is read as it was written") func result() throws {
        let result = FriendCallResult(
            code: .groupsFull, users: [ChainOutcome(user: Self.user, code: .notInGroup)], json: Array(#"{"x":1}"#.utf8))
        var wire = WireWriter()
        wire.answer(.friendCalled(result))
        let answer = wire.bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try? reader.answer()
        }
        #expect(answer == .friendCalled(result))
    }

    @Test("Profiles in an answer are read as they were written") func profiles() throws {
        let profiles = [
            AnsweredProfile(user: Self.user, isKnown: true, json: Array(#"{"nick":"Ann"}"#.utf8)),
            AnsweredProfile(user: UserID(app: "default", id: "bob"), isKnown: false, json: Array("{}".utf8)),
        ]
        var wire = WireWriter()
        wire.answer(.profiles(profiles))
        let answer = wire.bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try? reader.answer()
        }
        #expect(answer == .profiles(profiles))
        #expect(OwnerOperation.profiles([Self.user]).isAnswered(by: .profiles(profiles)))
    }

    @Test("A refusal of any length is read, with as much of its text as fits") func refusals() {
        let long = String(repeating: "name, ", count: 2_000) + "é"
        for detail in ["", "short", String(long.prefix(Limits.detailBytesMax)), long, String(repeating: "é", count: 5_000)] {
            var wire = WireWriter()
            wire.answer(.refused(Refusal(code: 6017, detail: detail)))
            let answer = wire.bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return try? reader.answer()
            }
            guard case .refused(let refusal) = answer else {
                Issue.record("\(detail.utf8.count) bytes are not read")
                continue
            }
            #expect(detail.hasPrefix(refusal.detail) && refusal.detail.utf8.count >= min(detail.utf8.count, Limits.detailBytesMax - 1))
        }
    }

    @Test("Only calls that change something wait for two disks") func durability() {
        let reads = Self.calls.filter { !OwnerOperation.friendCall($0).isDurable }
        #expect(reads.count == 6)
        #expect(OwnerOperation.friendCall(.groups(nil)).isAnswered(by: .friendCalled(FriendCallResult())))
        #expect(!OwnerOperation.friendCall(.groups(nil)).isAnswered(by: .done))
    }

    @Test("Custom fields are declared by name and type, and read back") func declarations() throws {
        let json = #"{"settings":{"friends.customFields":{"Team":"string","Blood":"integer","Raw":"bytes"}}}"#
        let policy = try AppPolicy().changed(by: try JSONReader.read(Array(json.utf8)))
        #expect(policy.policy.chain.friendFields.map(\.name) == ["Blood", "Raw", "Team"])
        #expect(try AppPolicy(try JSONReader.read(policy.json)).policy == policy.policy)
        for wrong in [
            #"[]"#, #"{"":"string"}"#, #"{"Too_long":"string"}"#, #"{"Toolong12":"string"}"#, #"{"X":"text"}"#, #"{"X":1}"#,
            "{\((0..<21).map { "\"F\($0)\":\"bytes\"" }.joined(separator: ","))}",
        ] {
            let change = Array("{\"settings\":{\"friends.customFields\":\(wrong)}}".utf8)
            #expect(throws: PolicyError.self) { try policy.changed(by: try JSONReader.read(change)) }
        }
    }

    @Test("A value must have the type of its field") func values() throws {
        let fields = try CustomFieldDeclaration.read(["A": "integer", "B": "string", "C": "bytes"], of: "x")
        let base64: JSONValue = ["base64": "/w=="]
        #expect(fields.map { $0.value(3) } == [.integer(3), nil, nil])
        #expect(fields.map { $0.value("x") } == [nil, .text("x"), .text("x")])
        #expect(fields.map { $0.value(base64) } == [nil, nil, .bytes([0xFF])])
        #expect(fields.map { $0.value(.number(60)) } == [.integer(60), nil, nil])
        #expect(fields[0].value(.integer(1 << 53)) == .integer(1 << 53) && fields[0].value(.integer(1 << 53 + 1)) == nil)
        for wrong: JSONValue in [.null, true, [], .number(1.5), ["base64": "?"]] { #expect(fields.allSatisfy { $0.value(wrong) == nil }) }
    }

    @Test("A query of the friend list names the list of the page before, and its last friend") func cursor() throws {
        let version = Version(milliseconds: 1_790_000_000_000, counter: 1, node: 7)
        for key in ["ben", "ben:2", ":"] {
            let cursor = FriendQuery.Cursor(version: version, key: key)
            #expect(FriendQuery.Cursor(text: cursor.text) == cursor)
            let operation = OwnerOperation.friends(FriendQuery(cursor: cursor, limit: 3))
            var wire = WireWriter()
            wire.operation(operation)
            #expect(try read(wire.bytes) == operation)
        }
        for text in ["", "ben", "\(version.text)", "\(version.text):", "\(version.text.dropLast()):ben", "\(version.text):a\u{1}"] {
            #expect(FriendQuery.Cursor(text: text) == nil)
        }
    }
}
