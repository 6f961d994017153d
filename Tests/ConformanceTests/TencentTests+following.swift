import NodeFixture
import TencentStatus
import Testing

extension ConformanceTests.TencentTests {
    @Test("T25 Unsubscribe removes those it names, or everybody") func unsubscribe() async throws {
        let app = try await App("tencent")
        let ann = try await app.login("ann", node: 0)
        let control = try await app.login("eve", node: 0)
        for user in ["ann", "eve"] {
            #expect(try await app.call("subscribeUserStatus", users(["bob", "carl", "dora"]), as: user, node: 1).code == 0)
        }
        #expect(try await app.call("unsubscribeUserStatus", users(["bob"]), node: 2).code == 0)
        #expect(try await app.followed() == ["carl", "dora"])
        try await expectUntold(ann, of: "bob", control: control, app)
        let carl = try await app.login("carl", node: 1)
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"still told"}"#, as: "carl", node: 1).code == 0)
        try await ann.status(of: "carl") { $0.custom == "still told" }
        #expect(try await app.call("unsubscribeUserStatus", #"{"all":true}"#, node: 1).code == 0)
        #expect(try await app.followed(node: 2) == [])
        try await expectUntold(ann, of: "carl", control: control, app)
        carl.close()
    }

    @Test("T26 T37 No user subscribes to itself: the whole call fails with a list of users, and nothing is changed")
    func wholeCallErrors() async throws {
        let app = try await App("tencent")
        let own = try await app.call("subscribeUserStatus", users(["bob", "ann"]))
        #expect(own.code == 6017 && own.status == 400 && own.errors == ["ann 6017"])
        let bad = try await app.call("subscribeUserStatus", #"{"userIDs":["bob","bad\u0001","",7]}"#)
        #expect(bad.code == 6017, "7 is no user at all")
        let names = try await app.call("subscribeUserStatus", #"{"userIDs":["bob","bad\u0001",""]}"#)
        #expect(names.code == 7003 && names.errors == ["bad\u{1} 7003", " 7003"])
        #expect(try await app.followed() == [])
        let query = try await app.call("getUserStatus", #"{"userIDs":["bob","bad\u0001"]}"#)
        #expect(query.code == 7003 && query.statuses.isEmpty && query.errors == ["bad\u{1} 7003"])
        // The error as the document's SDK reports it: a code and a text.
        let manager = try V2TIMManager(app.configuration(of: "ann"))
        let error = await #expect(throws: V2TIMError.self) { try await manager.subscribeUserStatus(["bob", "ann"]) }
        #expect(error?.code == 6017 && error?.desc.isEmpty == false)
        try await manager.subscribeUserStatus(["bob"])
        #expect(try await app.followed() == ["bob"])
        await manager.client.close()
    }

    @Test("T31 T32 Only subscribers receive both statuses of a stranger") func strangers() async throws {
        let app = try await App("tencent")
        let ann = try await app.login("ann", node: 0)
        let stranger = try await app.login("zoe", node: 0)
        #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
        let bob = try await app.login("bob", node: 2)
        try await ann.status(of: "bob") { $0.general == "ONLINE" && $0.custom == "" }
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"on the call"}"#, as: "bob", node: 1).code == 0)
        try await ann.status(of: "bob") { $0.general == "ONLINE" && $0.custom == "on the call" }
        #expect(try await app.call("logout", "{}", as: "bob", node: 2).code == 0)
        try await ann.status(of: "bob") { $0.general == "UNLOGINED" }
        try await expectUntold(stranger, of: "bob", control: ann, app)
        #expect(stranger.statuses(of: "bob").isEmpty)
        bob.close()
    }

    @Test("T35 The subscriptions of a user who stays away for long end; those of a user who comes back in time stay")
    func awayForLong()
        async throws
    {
        let app = try await App("tencent")
        #expect(try await app.policy()["settings"]["subscription.dropAfterOffline"]?.number == 86_400)
        #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
        let ann = try await app.login("ann", node: 1)
        try await app.set(#"{"subscription.dropAfterOffline":1}"#)
        ann.close()
        try await app.until("ann", is: "OFFLINE")
        try await app.cluster.until("the subscription has ended") { try await app.followedCount() == 0 }
        // With a day to go nothing ends.
        try await app.set(#"{"subscription.dropAfterOffline":86400}"#)
        #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
        let back = try await app.login("ann", node: 2)
        #expect(try await app.followed() == ["bob"])
        back.close()
    }

    @Test("T38 Quota, rates and batches are settings: another number moves the edge") func defaults() async throws {
        let app = try await App("tencent")
        try await app.set(
            #"{"subscription.maxPerSubscriber":2,"subscription.batchMax":3,"rate.query":{"calls":2,"seconds":3600}}"#, node: 1)
        #expect(try await app.call("subscribeUserStatus", users(many(0..<4))).code == 6017)
        #expect(try await app.call("subscribeUserStatus", users(["a"]), node: 2).code == 0)
        let evicting = try await app.call("subscribeUserStatus", users(["b", "c"]), node: 1)
        #expect(evicting["evicted"].elements.map(\.text) == ["a"])
        for node in 0..<2 { #expect(try await app.call("getUserStatus", users(["b"]), node: node).code == 0) }
        let third = try await app.call("getUserStatus", users(["b"]), node: 2)
        #expect(third.code == 7008 && (3_590...3_600).contains(third["retryAfter"].number ?? 0))
        try await app.set(#"{"rate.query":false}"#, node: 2)
        #expect(try await app.call("getUserStatus", users(["b"]), node: 1).code == 0)
    }

    /// Changes the status of `user`: `control`, on the same node, is told, and `session` is not.
    private func expectUntold(_ session: Session, of user: String, control: Session, _ app: App) async throws {
        let login = try await app.login(user, node: 2)
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"not for all"}"#, as: user, node: 2).code == 0)
        try await control.status(of: user) { $0.custom == "not for all" }
        let own = try #require(session.events.first { $0.name == "onConnected" }?.json["userID"]?.text)
        #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"after \(user)\"}", as: own, node: 2).code == 0)
        try await session.status(of: own) { $0.custom == "after \(user)" }
        #expect(session.statuses(of: user).allSatisfy { $0.custom != "not for all" })
        login.close()
    }
}
