import Testing

@testable import PresenceClient

/// The own relationship chain as the client keeps it, from events and answers.
@Suite struct RelationshipMirrorTests {
    private var mirror = RelationshipMirror()

    private func friend(_ id: String, remark: String = "") -> Friend {
        Friend(userID: id, remark: remark, groups: [], addWording: "", addSource: "", addTime: 1, custom: [:])
    }

    private func request(_ id: String, _ type: FriendRequest.Kind = .received) -> FriendRequest {
        FriendRequest(userID: id, addTime: 1, addSource: "", addWording: "", nickname: "", type: type)
    }

    private func step(_ from: String, _ to: String) -> RelationshipNews.Step { .init(from: from, to: to) }

    private func state(
        _ friends: String = "f1", _ requests: String = "r1", groups: String = "g1", blocked: String = "b1", unreadCount: Int = 0
    ) -> RelationshipNews {
        .state(.init(friends: friends, requests: requests, groups: groups, blocked: blocked), unreadCount: unreadCount)
    }

    /// A login after which the client has fetched everything.
    private mutating func synced() {
        #expect(mirror.receive(state()) == [.friends, .requests, .blocked, .groups])
        #expect(mirror.fetchedFriends([friend("ann"), friend("bob")], deleted: [], isFull: true, sequence: "f1") == [])
        #expect(mirror.fetchedRequests([], unreadCount: 0, sequence: "r1") == [])
        #expect(mirror.fetchedBlocked(["zoe"], sequence: "b1") == [] && !mirror.state.isComplete)
        #expect(mirror.fetchedGroups([], sequence: "g1") == [] && mirror.state.isComplete)
    }

    @Test("A login fetches all lists once, and the same state again none") mutating func login() {
        synced()
        #expect(mirror.state.friends.map(\.userID) == ["ann", "bob"] && mirror.state.blocked == ["zoe"])
        #expect(mirror.receive(state(unreadCount: 3)) == [])
        #expect(mirror.state.unreadCount == 3)
    }

    @Test("Events that follow the state are applied without a query") mutating func events() {
        synced()
        #expect(mirror.receive(.friendsAdded([friend("abe")], step("f1", "f2"))) == [])
        #expect(mirror.receive(.friendsChanged([friend("bob", remark: "B")], step("f2", "f3"))) == [])
        #expect(mirror.receive(.friendsDeleted(["ann"], step("f3", "f4"))) == [])
        #expect(mirror.state.friends == [friend("abe"), friend("bob", remark: "B")] && mirror.held(.friends) == "f4")
        #expect(mirror.receive(.requestsAdded([request("cid"), request("dan", .sent)], step("r1", "r2"), unreadCount: 1)) == [])
        #expect(mirror.receive(.requestsDeleted(["cid"], .sent, step("r2", "r3"), unreadCount: 1)) == [])
        #expect(mirror.state.requests == [request("cid"), request("dan", .sent)])
        #expect(mirror.receive(.requestsDeleted(["cid"], .received, step("r3", "r4"), unreadCount: 0)) == [])
        #expect(mirror.state.requests == [request("dan", .sent)] && mirror.state.unreadCount == 0)
        #expect(mirror.receive(.blocked(["abe"], step("b1", "b2"))) == [] && mirror.receive(.unblocked(["zoe"], step("b2", "b3"))) == [])
        #expect(mirror.state.blocked == ["abe"])
    }

    @Test("An event after a gap changes nothing, and the changes since the held sequence are fetched") mutating func gap() {
        synced()
        #expect(mirror.receive(.friendsAdded([friend("dan")], step("f2", "f3"))) == [.friends])
        #expect(mirror.state.friends.map(\.userID) == ["ann", "bob"] && mirror.held(.friends) == "f1")
        #expect(mirror.fetchedFriends([friend("cid"), friend("dan")], deleted: ["ann"], isFull: false, sequence: "f3") == [])
        #expect(mirror.state.friends.map(\.userID) == ["bob", "cid", "dan"])
        // An event that the answer has told already.
        #expect(mirror.receive(.friendsAdded([friend("dan")], step("f2", "f3"))) == [])
        #expect(mirror.receive(.friendsAdded([friend("eve")], step("f3", "f4"))) == [])
        #expect(mirror.held(.friends) == "f4")
    }

    @Test("An event during a query causes another one, unless the answer has told it", arguments: ["f2", "f3"])
    mutating func overlap(answered: String) {
        synced()
        #expect(mirror.receive(state("f2")) == [.friends])
        #expect(mirror.receive(.friendsAdded([friend("dan")], step("f2", "f3"))) == [])
        let again = mirror.fetchedFriends([friend("cid")], deleted: [], isFull: false, sequence: answered)
        #expect(again == (answered == "f3" ? [] : [.friends]))
    }

    @Test("After an own call a list is current again once a node confirms its sequence") mutating func ownCall() {
        synced()
        mirror.ownCallEnded([.friends])
        #expect(!mirror.isCurrent(.friends) && mirror.isCurrent(.requests) && mirror.state.isComplete)
        #expect(mirror.friends(with: [friend("cid")], without: ["ann"]).map(\.userID) == ["bob", "cid"])
        mirror.confirm(.friends, "f2")
        #expect(!mirror.isCurrent(.friends))
        #expect(mirror.receive(.friendsAdded([friend("cid")], step("f1", "f2"))) == [])
        mirror.confirm(.friends, "f2")
        #expect(mirror.isCurrent(.friends) && mirror.state.friends.map(\.userID) == ["ann", "bob", "cid"])
        #expect(mirror.takeMissed() == [])
    }

    @Test("An own call during the first query causes another one, and the friends of both are not told as new") mutating func firstQuery() {
        #expect(mirror.receive(state()) == [.friends, .requests, .blocked, .groups])
        mirror.ownCallEnded([.friends])
        #expect(mirror.fetchedFriends([friend("ann")], deleted: [], isFull: true, sequence: "f1") == [.friends])
        #expect(!mirror.isCurrent(.friends))
        #expect(mirror.fetchedFriends([friend("bob")], deleted: [], isFull: false, sequence: "f2") == [])
        #expect(mirror.isCurrent(.friends) && mirror.takeMissed() == [])
    }

    @Test("A failed query is repeated by the next event or the next session, and meanwhile the state stays") mutating func failure() {
        synced()
        #expect(mirror.receive(state("f2")) == [.friends])
        mirror.failed(.friends)
        #expect(mirror.state.friends.count == 2)
        #expect(mirror.due() == [.friends])
        mirror.failed(.friends)
        #expect(mirror.receive(.profile(userID: "bob")) == [.friends])
    }

    @Test("A new session fetches the lists whose sequences have moved, and no other") mutating func resumed() {
        synced()
        #expect(mirror.receive(state()) == [])
        #expect(mirror.receive(state("f1", "r2", blocked: "b2")) == [.requests, .blocked])
        #expect(mirror.receive(.blocked(["ann"], step("b2", "b3"))) == [])
        // The answer is older than the block.
        #expect(mirror.fetchedBlocked(["zoe"], sequence: "b2") == [.blocked])
        #expect(mirror.receive(state("f1", "r2", groups: "g2", blocked: "b3")) == [.groups])
        #expect(mirror.fetchedBlocked(["ann", "zoe"], sequence: "b3") == [])
        mirror.reset()
        #expect(mirror.state == Relationships() && mirror.held(.friends) == nil)
    }

    @Test("Groups without their users are fetched") mutating func groups() {
        synced()
        #expect(mirror.receive(.groups([FriendGroup(name: "work", userCnt: 1, userIDs: ["ann"])], sequence: "g2")) == [])
        #expect(mirror.receive(.groups([FriendGroup(name: "work", userCnt: 2_000, userIDs: nil)], sequence: "g3")) == [.groups])
    }
}

/// The cache of profiles (P3, P4).
@Suite struct ProfileCacheTests {
    private func profile(_ user: String) -> UserProfile {
        UserProfile(
            userID: user, nick: "", allowType: nil, faceURL: "", selfSignature: .text(""), gender: 0, birthday: 0, location: .text(""),
            language: 0, level: 0, role: 0, custom: [:], version: "")
    }

    @Test("A profile is used again until its expiry, or until it changes") func expiry() {
        var cache = ProfileCache(usersMax: 10, expiry: .seconds(60))
        cache.store([profile("ann"), profile("bob")], at: .seconds(5))
        #expect(cache.profile(of: "ann", at: .seconds(64.9)) == profile("ann"))
        #expect(cache.profile(of: "ann", at: .seconds(65)) == nil)
        cache.remove("bob")
        #expect(cache.profile(of: "bob", at: .seconds(6)) == nil)
    }

    @Test("Beyond its bound the cache drops the profiles that were fetched earliest") func bound() {
        var cache = ProfileCache(usersMax: 16, expiry: .seconds(60))
        for number in 0..<17 { cache.store([profile("user\(number)")], at: .seconds(number)) }
        #expect(cache.count == 14)
        #expect(cache.profile(of: "user2", at: .seconds(17)) == nil && cache.profile(of: "user3", at: .seconds(17)) != nil)
    }
}
