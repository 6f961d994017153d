import NodeFixture
import Testing
import ZIMStatus

extension ConformanceTests.ZIMTests {
    @Test("Z9 Z13 Z16 100 users a call; the own user and invalid names are in a list of errors") func batches() async throws {
        let app = try await App("zim")
        try await app.register(many(0..<100) + ["ann", "bob", "carl", "dora"])
        for operation in ["subscribeUserStatus", "unsubscribeUserStatus"] {
            let more = operation == "subscribeUserStatus" ? Self.hour : ""
            #expect(try await app.call(operation, users(many(0..<100), more), node: 1).errors == [])
            let over = try await app.call(operation, users(many(0..<101), more), node: 1)
            #expect(over.code == 6017 && over.detail.contains("at most 100"))
        }
        #expect(try await app.followed() == [])
        let partly = try await app.call("subscribeUserStatus", #"{"userIDs":["bob","ann","bad\u0001","carl"],\#(Self.hour)}"#, node: 2)
        #expect(partly.status == 200 && partly.errors.sorted() == ["ann 6017", "bad\u{1} 7003"])
        #expect(try await app.followed() == ["bob", "carl"])
        let unsubscribed = try await app.call("unsubscribeUserStatus", #"{"userIDs":["bob","bad\u0001"]}"#, node: 1)
        #expect(unsubscribed.status == 200 && unsubscribed.errors == ["bad\u{1} 7003"])
        #expect(try await app.followed() == ["carl"])
        // The error as the document's SDK reports it.
        let zim = try ZIM(app.configuration(of: "ann"))
        let errors = try await zim.subscribeUsersStatus(["ann", "dora"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60))
        #expect(errors.map(\.userID) == ["ann"] && errors.map(\.reason) == [6017])
        await zim.client.close()
    }

    @Test("Z9 X10 An unregistered user is an error of that user, in each list, until it is imported or logs in") func registration()
        async throws
    {
        let app = try await App("zim")
        try await app.register(["ann", "bob"])
        for (node, operation) in ["subscribeUserStatus", "getUserStatus"].enumerated() {
            let answer = try await app.call(operation, users(["bob", "eve", "frank"], Self.hour), node: node)
            #expect(answer.status == 200 && answer.errors.sorted() == ["eve 70107", "frank 70107"])
        }
        #expect(try await app.followed() == ["bob"])
        let zim = try ZIM(app.configuration(of: "ann"))
        let errors = try await zim.subscribeUsersStatus(["eve"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60))
        #expect(errors.map(\.userID) == ["eve"] && errors.map(\.reason) == [70107])
        await zim.client.close()
        try await app.register(["eve"])
        let frank = try await app.login("frank", node: 2)
        for node in 0..<3 {
            #expect(try await app.call("subscribeUserStatus", users(["eve", "frank"], Self.hour), node: node).errors == [])
        }
        #expect(try await app.followed() == ["bob", "eve", "frank"])
        frank.close()
    }

    @Test("P44 X10 Nobody adds, blocks or unsubscribes from a user whom the app does not know, until that user is imported")
    func unknownTargets() async throws {
        let app = try await App("zim")
        try await app.register(["ann", "bob"])
        func results(_ answer: Answer) -> [String] {
            answer["resultList"].elements.map { "\($0["userID"]?.text ?? "?") \($0["resultCode"]?.number ?? -1)" }.sorted()
        }
        #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour)).errors == [])
        for node in 0..<3 {
            let added = try await app.call("addFriend", #"{"userID":"eve"}"#, node: node)
            #expect(added.status == 200 && added["resultCode"].number == 30_003, "\(added.json)")
            #expect(results(try await app.call("addBlackList", users(["eve"]), node: node)) == ["eve 30003"])
            #expect(try await app.call("unsubscribeUserStatus", users(["eve"]), node: node).errors == ["eve 70107"])
        }
        #expect(try await app.call("unsubscribeUserStatus", users(["bob", "eve"]), node: 1).errors == ["eve 70107"])
        #expect(try await app.followed() == [])
        let caller = try await app.call("addFriend", #"{"userID":"bob","asUser":"eve"}"#, as: "backend", isAdmin: true, node: 2)
        #expect(caller.status == 404 && caller.code == 70_107, "\(caller.json)")
        try await app.register(["eve"])
        #expect(try await app.call("addFriend", #"{"userID":"eve"}"#, node: 1)["resultCode"].number == 0)
        #expect(results(try await app.call("addBlackList", users(["eve", "zoe"]), node: 2)) == ["eve 0", "zoe 30003"])
        #expect(try await app.call("unsubscribeUserStatus", users(["eve"]), node: 0).errors == [])
    }

    @Test("Z10 1 to 43,200 minutes, required; changes are sent only inside them") func duration() async throws {
        let app = try await App("zim")
        try await app.register(["ann", "bob", "carl", "dora"])
        let zim = try ZIM(app.configuration(of: "ann"))
        for minutes in [1, 43_200] {
            #expect(try await zim.subscribeUsersStatus(["bob"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: minutes)) == [])
        }
        for minutes in [.min, 0, 43_201, .max] {
            let error = await #expect(throws: ZIMError.self) {
                try await zim.subscribeUsersStatus(["carl"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: minutes))
            }
            #expect(error?.code == 6017 && error?.message == "subscriptionDuration: \(minutes) minutes is not in 1...43200")
        }
        for (expiry, code) in [(60, 0), (59, 6017), (2_592_000, 0), (2_592_001, 6017)] {
            #expect(try await app.call("subscribeUserStatus", users(["carl"], "\"expiry\":\(expiry)"), node: 1).code == code)
        }
        #expect(try await app.call("subscribeUserStatus", users(["dora"]), node: 1).code == 6017)
        #expect(try await app.followed() == ["bob", "carl"])
        await zim.client.close()
        try await app.set(#"{"subscription.ttlMin":1}"#)
        let eve = try await app.login("eve", node: 0)
        let control = try await app.login("frank", node: 0)
        #expect(try await app.call("subscribeUserStatus", users(["bob"], #""expiry":3"#), as: "eve").code == 0)
        #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour), as: "frank").code == 0)
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"inside"}"#, as: "bob", node: 1).code == 0)
        try await eve.status(of: "bob") { $0.custom == "inside" }
        try await app.cluster.until("the subscription has ended") { try await app.followedCount(by: "eve") == 0 }
        #expect(try await app.setStatus("outside", of: "bob", node: 1).code == 0)
        try await control.status(of: "bob") { $0.custom == "outside" }
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"own"}"#, as: "eve", node: 1).code == 0)
        try await eve.status(of: "eve") { $0.custom == "own" }
        #expect(eve.statuses(of: "bob").last?.custom == "inside")
    }

    @Test("Z11 The 3,001st subscription overwrites the earliest") func quota() async throws {
        let app = try await App("zim")
        try await app.register(["ann", "first", "last"] + many(0..<2_999))
        #expect(try await app.call("subscribeUserStatus", users(["first"], Self.hour)).errors == [])
        for start in stride(from: 0, to: 2_999, by: 100) {
            let answer = try await app.call(
                "subscribeUserStatus", users(many(start..<min(start + 100, 2_999)), Self.hour), node: start / 100 % 3)
            #expect(answer.code == 0 && answer["evicted"].elements == [])
        }
        #expect(try await app.followedCount() == 3_000)
        let answer = try await app.call("subscribeUserStatus", users(["last"], Self.hour), node: 1)
        #expect(answer.code == 0 && answer.errors == [] && answer["evicted"].elements.map(\.text) == ["first"])
        #expect(try await app.followedCount() == 3_000)
    }

    @Test("Z12 Z15 A subscription survives logout, and the next login receives the changes made meanwhile") func relogin() async throws {
        let app = try await App("zim")
        try await app.register(["bob", "carl"])
        var ann = try await app.login("ann", node: 0)
        #expect(try await app.call("subscribeUserStatus", users(["bob", "carl"], Self.hour)).code == 0)
        #expect(try await app.call("logout", "{}", node: 1).code == 0)
        try await ann.until("the session has ended") { $0.last?.name == "ended" }
        for text in ["first", "last"] {
            #expect(try await app.setStatus(text, of: "bob", node: 2).code == 0)
        }
        let carl = try await app.login("carl", node: 1)
        #expect(try await app.call("logout", "{}", as: "carl", node: 1).code == 0)
        ann = try await app.login("ann", node: 2)
        #expect(try await app.followed() == ["bob", "carl"])
        #expect(ann.statuses(of: "bob").map(\.custom) == ["last"])
        #expect(ann.statuses(of: "carl").last?.general == "UNLOGINED" && ann.statuses(of: "carl").last?["lastUpdateTime"]?.number != 0)
        #expect(try await app.setStatus("now", of: "bob").code == 0)
        try await ann.status(of: "bob") { $0.custom == "now" }
        carl.close()
    }

    @Test("Z14 Z18 A status has seven fields; each time is that of the last change of what it is about") func fields() async throws {
        let app = try await App("zim")
        try await app.register(["bob"])
        let zim = try ZIM(app.configuration(of: "ann"))
        let handler = Handler()
        zim.setEventHandler(handler)
        try await zim.login()
        #expect(try await zim.subscribeUsersStatus(["bob"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60)) == [])
        let phone = try await app.login("bob", node: 1, query: "platform=ios")
        try await app.cluster.until("bob is online") { handler.newest("bob")?.onlineStatus == .online }
        let online = try #require(handler.newest("bob"))
        #expect(online.onlinePlatforms == ["ios"] && online.customStatus == "")
        #expect(online.lastUpdateTime == online.lastOnlineStatusUpdateTime && online.lastCustomStatusUpdateTime == 0)
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: "bob", node: 2).code == 0)
        try await app.cluster.until("bob is busy") { handler.newest("bob")?.customStatus == "busy" }
        let busy = try #require(handler.newest("bob"))
        #expect(busy.lastOnlineStatusUpdateTime == online.lastOnlineStatusUpdateTime)
        #expect(busy.lastCustomStatusUpdateTime == busy.lastUpdateTime && busy.lastUpdateTime >= online.lastUpdateTime)
        let desk = try await app.login("bob", node: 0, query: "platform=windows")
        try await app.cluster.until("both platforms are told") { handler.newest("bob")?.onlinePlatforms == ["ios", "windows"] }
        let second = try #require(handler.newest("bob"))
        #expect(second.lastOnlineStatusUpdateTime == online.lastOnlineStatusUpdateTime, "a platform that comes moves no online time")
        let queried = try await zim.queryUsersStatusByUserIDs(["bob"])
        let found = try #require(queried.userStatusList.first)
        #expect(found.userID == "bob" && found.onlineStatus == .online && found.onlinePlatforms == ["ios", "windows"])
        #expect(found.lastUpdateTime == online.lastOnlineStatusUpdateTime, "a text moves no time of the query")
        #expect(found.lastUpdateTime < second.lastUpdateTime && found.lastCustomStatusUpdateTime == busy.lastCustomStatusUpdateTime)
        #expect(queried.userStatusList.count == 1 && queried.errorUserList == [])
        try await zim.logout()
        for session in [phone, desk] { session.close() }
    }

    @Test("Z17 200 users a query without the own user; a list of statuses and a list of errors") func query() async throws {
        let app = try await App("zim")
        try await app.register(many(0..<200) + ["bob", "carl"])
        let edge = try await app.call("getUserStatus", users(many(0..<200)), node: 1)
        #expect(edge.statuses.count == 200 && edge.errors == [])
        let over = try await app.call("getUserStatus", users(many(0..<201)), node: 1)
        #expect(over.code == 6017 && over.detail.contains("at most 200"))
        let partly = try await app.call("getUserStatus", #"{"userIDs":["bob","ann","bad\u0001","carl"]}"#, node: 2)
        #expect(partly.status == 200 && partly.statuses.map(\.user) == ["bob", "carl"])
        #expect(partly.errors.sorted() == ["ann 6017", "bad\u{1} 7003"])
        #expect(try await app.call("getUserStatus", users(["ann"]), node: 2).errors == ["ann 6017"])
    }

    @Test("Z19 Z20 The whole table, or of up to 200 users those that are followed") func table() async throws {
        let app = try await App("zim")
        try await app.register(["ann", "bob", "carl"])
        let zim = try ZIM(app.configuration(of: "ann"))
        for (name, minutes) in [("bob", 1), ("carl", 43_200)] {
            let config = ZIMUserStatusSubscribeConfig(subscriptionDuration: minutes)
            #expect(try await zim.subscribeUsersStatus([name], config: config) == [])
        }
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: "carl", node: 1).code == 0)
        let all = try await zim.querySubscribedUserStatusList(ZIMSubscribedUserStatusQueryConfig())
        #expect(all.map(\.userStatus.userID) == ["bob", "carl"] && all.map(\.userStatus.customStatus) == ["", "busy"])
        let rows = try await app.call("getSubscribedUserStatus", "{}", node: 2)["subscriptions"].elements
        #expect(all.map(\.subscribeExpiredTime) == rows.compactMap { $0["expiresAt"]?.number })
        #expect(rows.map { ($0["expiresAt"]?.number ?? 0) - ($0["subscribedAt"]?.number ?? 0) } == [60_000, 2_592_000_000])
        let some = try await zim.querySubscribedUserStatusList(ZIMSubscribedUserStatusQueryConfig(userIDs: ["dora", "carl"]))
        #expect(some.map(\.userStatus.userID) == ["carl"])
        #expect(try await app.call("getSubscribedUserStatus", users(many(0..<200)), node: 1)["total"].number == 0)
        #expect(try await app.call("getSubscribedUserStatus", users(many(0..<201)), node: 1).code == 6017)
        await zim.client.close()
    }

    @Test("Z21 Z22 Z23 The user receives another platform's login as unknown at time 0; the connection shows the own one")
    func platformsOfOneself() async throws {
        let app = try await App("zim")
        let zim = try ZIM(app.configuration(of: "ann", nodes: [0]))
        let handler = Handler()
        zim.setEventHandler(handler)
        try await zim.login()
        try await app.cluster.until("the login is told") { handler.states == [.connecting, .connected] }
        let desk = try await app.login("ann", node: 2, query: "platform=windows")
        try await app.cluster.until("both platforms are told") { handler.newest("ann")?.onlinePlatforms == ["ios", "windows"] }
        let own = try #require(handler.newest("ann"))
        #expect(own.onlineStatus == .unknown && own.lastUpdateTime == 0)
        // The node says so itself, and to others the whole truth.
        try await desk.status(of: "ann") { $0.platforms == ["ios", "windows"] }
        #expect(desk.statuses(of: "ann").allSatisfy { $0.general == "UNKNOWN" && $0["lastUpdateTime"]?.number == 0 })
        let others = try await app.status(of: "ann")
        #expect(others.general == "ONLINE" && others["lastUpdateTime"]?.number ?? 0 > 0)
        try await app.set(#"{"self.reportStatus":"full"}"#)
        let tablet = try await app.login("ann", node: 1, query: "platform=tablet")
        try await tablet.status(of: "ann") { $0.general == "ONLINE" && $0["lastUpdateTime"]?.number ?? 0 > 0 }
        tablet.close()
        #expect(try await app.call("logout", "{}", node: 1).code == 0)
        try await app.cluster.until("the end is told") { handler.states == [.connecting, .connected, .disconnected] }
        desk.close()
    }
}
