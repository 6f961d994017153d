import InProcessFixture
import PresenceNode
import Testing

@testable import PresenceClient

/// Profiles, friends, requests, blocklist and groups, against real nodes in this process.
@Suite(.serialized, .timeLimit(.minutes(3))) struct RelationshipTests {
    private func start(_ settings: String) async throws -> Fixture {
        let fixture = try await Fixture.start(nodes: 3)
        try await fixture.setPolicy(settings)
        return fixture
    }

    private func client(_ user: String, _ node: Int, of fixture: Fixture) async throws -> PresenceClient {
        try await fixture.client(user, nodes: [node]) { $0.keepsRelationships = true }
    }

    @Test("The state of two devices follows every change of the lists, and is right after an interruption") func state() async throws {
        let fixture = try await start(
            #"{"profile.defaultAllowType":"confirm","friends.customFields":{"Blood":"string"}}"#)
        let phone = try await client("ann", 0, of: fixture)
        let tablet = try await client("ann", 1, of: fixture)
        let bob = try await client("bob", 2, of: fixture)
        let changes = tablet.friendship.changes
        for client in [phone, tablet, bob] { try await client.login() }
        #expect(
            try await phone.friendship.addFriend("bob", remark: "Bobby", addWording: "hi", addSource: "AddSource_Type_x").resultCode
                == 30_539)
        try await fixture.until("bob has the request") { bob.friendship.relationships.requests.map(\.addWording) == ["hi"] }
        #expect(bob.friendship.relationships.unreadCount == 1)
        #expect(try await bob.friendship.doResponse(to: "ann", .agreeAndAdd, remark: "Annie").resultCode == 0)
        for client in [phone, tablet] {
            try await fixture.until("ann has a friend") { client.friendship.relationships.friends.map(\.remark) == ["Bobby"] }
            try await fixture.until("no request waits") { client.friendship.relationships.requests == [] }
        }
        var iterator = changes.makeAsyncIterator()
        while let change = await iterator.next() {
            if case .friendsAdded(let friends) = change, friends.map(\.userID) == ["bob"] { break }
        }
        try await phone.friendship.createFriendGroup(["work"], userIDs: ["bob"])
        try await phone.friendship.modifyFriend("bob", remark: "Rob", custom: ["Blood": .text("A")])
        try await fixture.until("the tablet has the group and the remark") {
            let state = tablet.friendship.relationships
            return state.groups == [FriendGroup(name: "work", userCnt: 1, userIDs: ["bob"])]
                && state.friends.first?.remark == "Rob" && state.friends.first?.groups == ["work"]
                && state.friends.first?.custom == ["Blood": .text("A")]
        }
        // The tablet sleeps while the lists change.
        await tablet.loseStream()
        #expect(try await phone.friendship.deleteFriends(["bob", "zoe"], isTwoWay: true).map(\.resultCode) == [0, 31_704])
        #expect(try await phone.friendship.addBlackList(["cid"]).map(\.resultCode) == [0])
        try await fixture.until("the tablet is right again") {
            let state = tablet.friendship.relationships
            return state.friends == [] && state.blocked == ["cid"]
        }
        try await fixture.until("bob has no friend") { bob.friendship.relationships.friends == [] }
        for client in [phone, tablet, bob] { try await client.logout() }
        #expect(tablet.friendship.relationships == Relationships())
        try await fixture.stop()
    }

    @Test("A profile is fetched once, and again after it has changed or on request") func profiles() async throws {
        let fixture = try await start(#"{"profile.customFields":{"Level":"integer","Raw":"bytes"}}"#)
        let ann = try await client("ann", 0, of: fixture)
        let bob = try await client("bob", 2, of: fixture)
        try await ann.login()
        let set = try await bob.friendship.modifySelfProfile([
            "Nick": .text("Bob"), "AllowType": .text("DENY"), "Gender": .integer(1), "SelfSignature": .bytes([0xFF, 0x00]),
            "Custom_Level": .integer(7), "Custom_Raw": .bytes([0xFE]),
        ])
        #expect(set.nick == "Bob" && set.allowType == .deny && set.gender == 1 && set.selfSignature == .bytes([0xFF, 0x00]))
        #expect(set.custom == ["Level": .integer(7), "Raw": .bytes([0xFE])])
        #expect(try await bob.friendship.getSelfProfile() == set)
        #expect(try await ann.friendship.getUsersProfile(["bob"]).profileList == [set])
        try await bob.friendship.modifySelfProfile(["Nick": .text("Robert")])
        #expect(try await ann.friendship.getUsersProfile(["bob"]).profileList == [set], "from the cache")
        #expect(try await ann.friendship.getUsersProfile(["bob"], forceUpdate: true).profileList.map(\.nick) == ["Robert"])
        // The app follows the profile, so the cache hears of its change.
        try await ann.subscribeUserStatus(["bob"], subscribeType: .userProfile)
        let changes = ann.friendship.changes
        try await bob.friendship.modifySelfProfile(["Nick": .text("Bob")])
        var iterator = changes.makeAsyncIterator()
        while let change = await iterator.next(), change != .profileChanged("bob") {}
        #expect(try await ann.friendship.getUsersProfile(["bob"]).profileList.map(\.nick) == ["Bob"])
        let refused = await #expect(throws: PresenceError.self) { try await bob.friendship.modifySelfProfile(["Nickname": .text("x")]) }
        #expect(refused?.code == .badParameter && refused?.detail.contains("Nickname") == true)
        try await ann.logout()
        try await fixture.stop()
    }

    @Test("Every call about friends answers for each user, and names the group that is wrong") func calls() async throws {
        let fixture = try await start("{}")
        let ann = try await client("ann", 1, of: fixture)
        #expect(try await ann.friendship.addFriend("bob", isOneWay: true).resultCode == 0)
        #expect(try await ann.friendship.addFriend("cid").resultCode == 0)
        #expect(
            try await ann.friendship.checkFriends(["bob", "cid", "dan"], isTwoWay: true).map(\.resultType) == [.ownFriend, .both, .none])
        #expect(try await ann.friendship.createFriendGroup(["work"], userIDs: ["bob", "zoe"]).map(\.resultCode) == [0, 32_216])
        let taken = await #expect(throws: PresenceError.self) { try await ann.friendship.createFriendGroup(["work"]) }
        #expect(taken?.code.rawValue == 30_001)
        try await ann.friendship.renameFriendGroup("work", to: "office")
        #expect(try await ann.friendship.addFriendsToFriendGroup("office", ["bob", "cid"]).map(\.resultCode) == [32_519, 0])
        #expect(try await ann.friendship.delFriendsFromFriendGroup("office", ["bob"]).map(\.resultCode) == [0])
        #expect(try await ann.friendship.getFriendGroups() == [FriendGroup(name: "office", userCnt: 1, userIDs: ["cid"])])
        try await ann.friendship.deleteFriendGroup(["office"])
        #expect(try await ann.friendship.getFriendGroups() == [])
        #expect(try await ann.friendship.doResponse(to: "bob", .reject).resultCode == 30_614)
        #expect(try await ann.friendship.deletePendency(["bob"], .received).map(\.code.rawValue) == [30_614])
        #expect(try await ann.friendship.pendencyReport(upTo: 1) == 0)
        let many = (0..<250).map { "user\($0)" }
        #expect(try await ann.friendship.addBlackList(many).map(\.resultCode) == many.map { _ in 0 })
        #expect(try await ann.friendship.getBlackList() == many.sorted())
        #expect(try await ann.friendship.deleteBlackList(["user0", "zoe"]).map(\.resultCode) == [0, 31_503])
        await ann.close()
        try await fixture.stop()
    }
}
