import PresenceWire
import Testing

@testable import PresenceCore

/// The groups of friends (P32–P37) and the changes of a friend (P11) on three nodes. Ann has three friends.
@Suite struct FriendGroupsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let friends: [String]
    let stranger: String

    init() {
        ann = cluster.user(ownedBy: 0)
        let cluster = cluster
        friends = (0..<3).map { cluster.user(ownedBy: 2, number: $0) }
        stranger = cluster.user(ownedBy: 1)
        set(#"{"friends.customFields":{"Blood":"integer","Team":"string","Raw":"bytes"}}"#)
        for name in friends { add(name) }
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    @discardableResult
    private mutating func add(_ target: String, group: String? = nil, on node: Int = 2) -> ChainCode? {
        cluster.call(.chain(.add(user(target), SentRequest(addTime: 0), isTwoWay: true, group: group)), by: ann, on: node)
        cluster.advance(.milliseconds(50))
        guard case .owner(.chained(let outcomes)) = cluster.lastAnswer(on: node) else { return nil }
        return outcomes.first?.code
    }

    @discardableResult
    private mutating func perform(_ call: FriendCall, on node: Int = 2) -> FriendCallResult? {
        cluster.call(.friendCall(call), by: ann, on: node)
        cluster.advance(.milliseconds(50))
        guard case .owner(.friendCalled(let result)) = cluster.lastAnswer(on: node) else { return nil }
        return result
    }

    /// The groups and their users, as each node reads them.
    private mutating func groups(_ names: [String]? = nil, on node: Int = 1) throws -> [String: [String]] {
        let json = try JSONReader.read(try #require(perform(.groups(names), on: node)).json)
        return Dictionary(
            uniqueKeysWithValues: json["groupList"]!.elements.map { ($0["name"]!.textValue, $0["userIDs"]!.elements.map(\.textValue)) })
    }

    private mutating func friendList(_ query: FriendQuery = FriendQuery()) throws -> JSONValue {
        guard case .owner(.listed(let json)) = cluster.call(.getFriendList(query), by: ann, on: 1) else { return .null }
        return try JSONReader.read(json)
    }

    /// The friend in the list of ann.
    private mutating func friend(_ name: String) throws -> JSONValue? {
        try friendList()["friendList"]?.elements.first { $0["userID"]?.textValue == name }
    }

    @Test("Groups are created with friends; a stranger has 32216 (P32, P37)") mutating func creating() throws {
        let result = perform(.createGroups(["work", "chess"], users: [user(friends[0]), user(stranger), user(friends[1])]))
        #expect(result?.code == .done && result?.users.map(\.code) == [.done, .noFriendOfNewGroup, .done])
        for node in 0..<3 {
            #expect(try groups(on: node) == ["work": Array(friends[..<2]), "chess": Array(friends[..<2])])
            #expect(try groups(["chess", "none"], on: node) == ["chess": Array(friends[..<2])])
            #expect(try groups([], on: node) == [:])
        }
        #expect(try friend(friends[0])?["groups"]?.elements.map(\.textValue) == ["work", "chess"])
        #expect(try friend(friends[2])?["groups"]?.elements == [])
    }

    @Test("A name that is taken refuses the whole call with 30001") mutating func taken() throws {
        #expect(perform(.createGroups(["work", "work"], users: []))?.code == .done)
        #expect(perform(.createGroups(["chess", "work"], users: [user(friends[0])])) == FriendCallResult(code: .wrongGroup))
        #expect(try groups() == ["work": []])
    }

    @Test("A group without friends moves no sequence of friends, whatever its name, and a deleted one with friends does (P33)")
    mutating func sequenceOfFriends() throws {
        perform(.createGroups(["empty", "full"], users: []))
        perform(.addToGroup("full", [user(friends[0])]))
        let sequence = try friendList()["seq"]
        perform(.renameGroup("empty", to: "still empty"))
        perform(.deleteGroups(["still empty"]))
        #expect(try friendList()["seq"] == sequence)
        perform(.deleteGroups(["full"]))
        let changed = try friendList(FriendQuery(since: sequence?.textValue))
        #expect(changed["seq"] != sequence && changed["isFull"] == .bool(true))
        #expect(changed["friendList"]?.elements.allSatisfy { $0["groups"]?.elements == [] } == true)
    }

    @Test("The sequence of the groups moves with their names and their friends, and with nothing else, and all nodes hold it")
    mutating func sequence() {
        perform(.createGroups(["work", "home"], users: [user(friends[0])]))
        let steps: [(call: FriendCall, moves: Bool)] = [
            (.renameGroup("home", to: "chess"), true), (.addToGroup("work", [user(friends[1])]), true),
            (.addToGroup("work", [user(friends[1])]), false), (.removeFromGroup("work", [user(friends[0])]), true),
            (.importFriends([FriendImport(user: user(stranger))]), false), (.deleteGroups(["chess"]), true),
        ]
        for (call, moves) in steps {
            let before = states().map(\.groups)
            perform(call)
            let after = states().map(\.groups)
            #expect(Set(after).count == 1 && (after != before) == moves, "\(call)")
        }
    }

    /// The newest versions of ann's lists on each node.
    private func states() -> [RelationshipState] { cluster.processes.map { $0.node.machines.owner.relationship(of: user(ann)) } }

    @Test("Names are compared byte by byte") mutating func unicode() throws {
        let (composed, decomposed) = ("Caf\u{E9}", "Cafe\u{301}")
        #expect(perform(.createGroups([composed, decomposed], users: []))?.code == .done)
        #expect(perform(.deleteGroups([composed]))?.code == .done)
        let json = try JSONReader.read(try #require(perform(.groups(nil))).json)
        #expect(json["groupList"]?.elements.map { Array($0["name"]!.textValue.utf8) } == [Array(decomposed.utf8)])
    }

    @Test("A user has at most friends.groupsMax groups: one more is 30011", arguments: [1, 32]) mutating func full(most: Int) throws {
        set(#"{"friends.groupsMax":\#(most)}"#)
        #expect(perform(.createGroups((0..<most).map { "g\($0)" }, users: [user(friends[0])]))?.code == .done)
        #expect(perform(.createGroups(["more"], users: []))?.code == .groupsFull)
        #expect(try groups().count == most)
        #expect(try friend(friends[0])?["groups"]?.elements.count == most)
        #expect(perform(.deleteGroups(["g0"]))?.code == .done)
        #expect(perform(.createGroups(["more"], users: [user(friends[0])]))?.users.map(\.code) == [.done])
        #expect(try friend(friends[0])?["groups"]?.elements.count == most)
    }

    @Test("Friends join and leave a group, each with a code (P34, P35)") mutating func members() throws {
        perform(.createGroups(["work"], users: [user(friends[0])]))
        let joined = perform(.addToGroup("work", [user(friends[0]), user(friends[1]), user(stranger)]))
        #expect(joined?.users.map(\.code) == [.alreadyInGroup, .done, .noFriendOfGroup])
        #expect(try groups() == ["work": Array(friends[..<2])])
        let left = perform(.removeFromGroup("work", [user(friends[0]), user(friends[2]), user(stranger)]))
        #expect(left?.users.map(\.code) == [.done, .notInGroup, .noFriendOfGroup])
        #expect(try groups() == ["work": [friends[1]]])
        for call in [FriendCall.addToGroup("none", [user(friends[0])]), .removeFromGroup("none", [user(friends[0])])] {
            #expect(perform(call) == FriendCallResult(code: .wrongGroup))
        }
    }

    @Test("A new name of a group moves the sequence of its friends, and a client reads the new name (P36)") mutating func renaming() throws
    {
        perform(.createGroups(["work", "chess"], users: [user(friends[0])]))
        let sequence = try friendList()["seq"]
        #expect(perform(.renameGroup("work", to: "office"))?.code == .done)
        #expect(perform(.renameGroup("office", to: "office"))?.code == .done)
        #expect(try groups() == ["office": [friends[0]], "chess": [friends[0]]])
        #expect(try friend(friends[0])?["groups"]?.elements.map(\.textValue) == ["office", "chess"])
        let changed = try friendList(FriendQuery(since: sequence?.textValue))
        #expect(changed["seq"] != sequence && changed["isFull"] == .bool(true))
        #expect(
            changed["friendList"]?.elements.first { $0["userID"]?.textValue == friends[0] }?["groups"]?.elements.map(\.textValue) == [
                "office", "chess",
            ])
        for (old, new) in [("work", "x"), ("office", "chess"), ("work", "chess")] {
            #expect(perform(.renameGroup(old, to: new))?.code == .wrongGroup)
        }
        #expect(try groups().count == 2)
    }

    @Test("A deleted group leaves its friends in the list, and its number is not used again (P33)") mutating func deleting() throws {
        perform(.createGroups(["work", "chess"], users: [user(friends[0])]))
        #expect(perform(.deleteGroups(["chess", "none"]))?.code == .done)
        #expect(perform(.createGroups(["new"], users: []))?.code == .done)
        #expect(try groups() == ["work": [friends[0]], "new": []])
        #expect(try friendList()["total"]?.number == 3)
        // The tombstone of the deleted group expires.
        perform(.deleteGroups(["new"]))
        cluster.advance(.seconds(8 * 86_400), step: .seconds(3_600))
        perform(.createGroups(["newer"], users: []))
        #expect(try groups() == ["work": [friends[0]], "newer": []])
    }

    @Test("A friend that is deleted leaves its groups") mutating func deletedFriend() throws {
        perform(.createGroups(["work"], users: [user(friends[0])]))
        cluster.call(.chain(.delete([user(friends[0])], isTwoWay: true)), by: ann, on: 2)
        cluster.advance(.milliseconds(50))
        #expect(try groups() == ["work": []])
        #expect(add(friends[0]) == .done)
        #expect(try groups() == ["work": []])
    }

    @Test("addFriend names a group of the caller; without such a group nothing happens (P12)") mutating func addToGroup() throws {
        perform(.createGroups(["work"], users: []))
        #expect(add(stranger, group: "none") == .wrongGroup)
        #expect(try friendList()["total"]?.number == 3)
        #expect(add(stranger, group: "work") == .done)
        #expect(try groups() == ["work": [stranger]])
    }

    @Test("A request keeps its group until the approval") mutating func approval() throws {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        perform(.createGroups(["work"], users: []))
        #expect(add(stranger, group: "work") == .pending)
        perform(.renameGroup("work", to: "office"))
        cluster.call(.chain(.respond(user(ann), .accept(remark: "", isTwoWay: true))), by: stranger, on: 2)
        cluster.advance(.milliseconds(50))
        #expect(try groups() == ["office": [stranger]])
    }

    @Test("Remark, groups and custom fields change together, and what is not named stays (P11)") mutating func modifying() throws {
        perform(.createGroups(["work", "chess"], users: []))
        var change = FriendChange()
        (change.remark, change.groups) = ("Benny", ["chess", "work"])
        change.fields = [CustomField(name: "Team", value: .text("red")), CustomField(name: "Blood", value: .integer(3))]
        let result = try #require(perform(.modifyFriend(user(friends[0]), change)))
        let changed = try JSONReader.read(result.json)
        #expect(result.code == .done && changed["remark"]?.textValue == "Benny")
        #expect(try friend(friends[0]) == changed)
        #expect(changed["groups"]?.elements.map(\.textValue) == ["work", "chess"])
        #expect(changed["custom"] == ["Blood": 3, "Team": "red"])
        var second = FriendChange()
        second.fields = [CustomField(name: "Team", value: .bytes([])), CustomField(name: "Raw", value: .bytes([0xFF]))]
        perform(.modifyFriend(user(friends[0]), second))
        #expect(try friend(friends[0])?["custom"] == ["Blood": 3, "Raw": ["base64": "/w=="]])
        #expect(try friend(friends[0])?["remark"]?.textValue == "Benny")
        var third = FriendChange()
        (third.remark, third.groups) = ("", [])
        perform(.modifyFriend(user(friends[0]), third))
        #expect(try friend(friends[0])?["remark"]?.textValue == "" && friend(friends[0])?["groups"]?.elements == [])
    }

    @Test("A change of a friend is in the changes since a sequence, and an empty change is none") mutating func changes() throws {
        let sequence = try friendList()["seq"]!.textValue
        perform(.modifyFriend(user(friends[1]), FriendChange()))
        #expect(try friendList()["seq"]?.textValue == sequence)
        var change = FriendChange()
        change.remark = "B"
        perform(.modifyFriend(user(friends[1]), change))
        let changes = try friendList(FriendQuery(since: sequence))
        #expect(changes["friendList"]?.elements.map { $0["userID"]!.textValue } == [friends[1]])
    }

    @Test("A stranger cannot be modified (31704), and an unknown group changes nothing (30001)") mutating func wrong() throws {
        var change = FriendChange()
        change.remark = "x"
        #expect(perform(.modifyFriend(user(stranger), change))?.code == .noFriend)
        change.groups = ["none"]
        #expect(perform(.modifyFriend(user(friends[0]), change))?.code == .wrongGroup)
        #expect(try friend(friends[0])?["remark"]?.textValue == "")
    }

    /// Performs a call whose first answer is lost with the owner. The next owner answers the second attempt.
    private mutating func retried(_ call: FriendCall) -> FriendCallResult? {
        // The first answer is lost, and the next owner has the rows.
        cluster.losing = [(0, 2)]
        cluster.call(.friendCall(call), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        cluster.kill(0)
        cluster.losing = []
        cluster.advance(.seconds(8))
        guard case .owner(.friendCalled(let result)) = cluster.lastAnswer(on: 2) else { return nil }
        return result
    }

    @Test("A call that arrives twice has the result of the first attempt", arguments: 0..<7) mutating func twice(number: Int) throws {
        perform(.createGroups(["work", "chess"], users: [user(friends[0])]))
        var change = FriendChange()
        change.remark = "Benny"
        let calls: [(FriendCall, [ChainCode])] = [
            (.createGroups(["go", "tennis"], users: [user(friends[1]), user(stranger)]), [.done, .noFriendOfNewGroup]),
            (.deleteGroups(["work"]), []), (.renameGroup("work", to: "office"), []), (.addToGroup("work", [user(friends[1])]), [.done]),
            (.removeFromGroup("work", [user(friends[0])]), [.done]), (.modifyFriend(user(friends[0]), change), [.done]),
            (.addToGroup("work", [user(friends[0])]), [.alreadyInGroup]),
        ]
        let (call, codes) = calls[number]
        let result = try #require(retried(call))
        #expect(result.code == .done && result.users.map(\.code) == codes)
    }

    @Test("A change that only one disk has is refused, and the second call writes it again") mutating func oneDisk() throws {
        perform(.createGroups(["work"], users: [user(friends[0])]))
        var change = FriendChange()
        change.remark = "Benny"
        for call in [
            FriendCall.deleteGroups(["work"]), .createGroups(["go"], users: []), .modifyFriend(user(friends[0]), change),
            .addToGroup("go", [user(friends[0])]),
        ] {
            cluster.fullDisks = [1, 2]
            #expect(perform(call) == nil)
            cluster.fullDisks = []
            cluster.advance(.seconds(1))
            _ = perform(call)
        }
        cluster.kill(0)
        cluster.advance(.seconds(8))
        #expect(try groups() == ["go": [friends[0]]])
        #expect(try friend(friends[0])?["remark"]?.textValue == "Benny")
    }

    @Test("Groups and changes outlive their owner") mutating func owners() throws {
        perform(.createGroups(["work", "chess"], users: [user(friends[0])]))
        perform(.renameGroup("chess", to: "go"))
        perform(.removeFromGroup("work", [user(friends[0])]))
        cluster.kill(0)
        cluster.advance(.seconds(8))
        #expect(try groups() == ["work": [], "go": [friends[0]]])
    }

    @Test("A page of long friends ends early and continues, and too many long changes are a whole list") mutating func longPages() throws {
        let names = (0..<20).map { "F\($0)" }
        set("{\"friends.customFields\":{\(names.map { "\"\($0)\":\"string\"" }.joined(separator: ","))}}")
        let many = (3..<40).map { cluster.user(ownedBy: 2, number: $0) }
        for name in many {
            #expect(add(name) == .done)
            cluster.keepPace()
        }
        let sequence = try friendList()["seq"]!.textValue
        // JSON has six bytes for each control character.
        var change = FriendChange()
        change.fields = names.map { CustomField(name: $0, value: .text(String(repeating: "\u{1}", count: 500))) }
        for name in many {
            #expect(perform(.modifyFriend(user(name), change))?.code == .done)
            cluster.keepPace()
        }
        #expect(try friendList(FriendQuery(since: sequence))["isFull"] == .bool(true))
        var (found, cursor, pagesCount) = ([String](), FriendQuery.Cursor?.none, 0)
        repeat {
            let page = try friendList(FriendQuery(cursor: cursor))
            found += page["friendList"]!.elements.map { $0["userID"]!.textValue }
            cursor = page["cursor"].flatMap { FriendQuery.Cursor(text: $0.textValue) }
            pagesCount += 1
        } while cursor != nil && pagesCount < 20
        #expect(found == (friends + many).sorted())
        #expect(pagesCount > 2)
    }
}
