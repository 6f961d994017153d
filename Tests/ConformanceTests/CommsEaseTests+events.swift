import CommsEaseStatus
import Foundation
import NodeFixture
import Testing

extension ConformanceTests.CommsEaseTests {
    @Test("N11 An event has the server's name, author and time, what its author said, and the online info") func fields() async throws {
        let app = try await App("commsease")
        let (ann, received) = try await Self.login("ann", app, node: 0)
        try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
        let (bob, _) = try await Self.login("bob", app, node: 2)
        let before = Date().timeIntervalSince1970
        var event = NIMSubscribeEvent(value: 10_001, expiry: 3_600, ext: "busy \"until\" 5 — ça va")
        event.sendToOnlineUsersOnly = false
        event.syncEnabled = false
        let published = try await bob.publishEvent(event)
        #expect(published.eventId != "" && published.from == "bob" && published.timestamp >= before - 1)
        #expect(published.value == 10_001 && published.ext == event.ext && published.expiry == 3_600)
        #expect(published.subscribeInfo?.onlinePlatforms == ["ios"])
        try await app.cluster.until("it is received") { received.values(from: "bob").last == 10_001 }
        let told = try #require(received.events(from: "bob").last)
        #expect(told == published && told.type == 1)
        // Each event has a name of its own.
        let next = try await bob.publishEvent(NIMSubscribeEvent(value: 10_001))
        #expect(next.eventId != published.eventId)
        let long = String(repeating: "é", count: 512)
        #expect(try await app.call("publishEvent", "{\"value\":10001,\"ext\":\"\(long)\"}", as: "bob", node: 1).code == 0)
        #expect(try await app.call("publishEvent", "{\"value\":10001,\"ext\":\"\(long)x\"}", as: "bob", node: 1).code == 6017)
        try await ann.logout()
        try await bob.logout()
    }

    @Test("N11 N13 An event is the same at each later login, and after other changes of its author") func identity() async throws {
        let app = try await App("commsease")
        #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour)).code == 0)
        let (bob, _) = try await Self.login("bob", app, node: 2)
        var event = NIMSubscribeEvent(value: 10_001, expiry: 3_600)
        event.sendToOnlineUsersOnly = false
        let published = try await bob.publishEvent(event)
        for node in 0..<3 {
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(node)\"}", as: "bob", node: node).code == 0)
            let (ann, received) = try await Self.login("ann", app, node: node)
            try await app.cluster.until("login \(node) tells of it") { received.values(from: "bob").contains(10_001) }
            let told = try #require(received.events(from: "bob").last)
            #expect(told.eventId == published.eventId && told.timestamp == published.timestamp && told.expiry == 3_600)
            #expect(!told.sendToOnlineUsersOnly && told.syncEnabled)
            try await ann.logout()
        }
        try await bob.logout()
    }

    @Test("N13 A later event for those who are online does not take the place of an earlier one for everybody") func kept() async throws {
        let app = try await App("commsease")
        #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour), as: "eve").code == 0)
        let (bob, _) = try await Self.login("bob", app, node: 2)
        let (eve, online) = try await Self.login("eve", app, node: 1)
        #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour)).code == 0)
        var event = NIMSubscribeEvent(value: 10_001)
        event.sendToOnlineUsersOnly = false
        let forAll = try await bob.publishEvent(event)
        try await bob.publishEvent(NIMSubscribeEvent(value: 10_002))
        try await app.cluster.until("who is online is told both") { online.values(from: "bob").suffix(2) == [10_001, 10_002] }
        let (ann, received) = try await Self.login("ann", app, node: 0)
        try await app.cluster.until("the login tells of the first") { received.values(from: "bob").contains(10_001) }
        try await bob.publishEvent(NIMSubscribeEvent(value: 10_003))
        try await app.cluster.until("the next is told to both") {
            received.values(from: "bob").contains(10_003) && online.values(from: "bob").contains(10_003)
        }
        #expect(received.values(from: "bob") == [1, 10_001, 10_003])
        #expect(received.events(from: "bob").first { $0.value == 10_001 }?.eventId == forAll.eventId)
        // Each receives it once.
        #expect(online.values(from: "bob").filter { $0 > 9_999 } == [10_001, 10_002, 10_003])
        for manager in [ann, bob, eve] { try await manager.logout() }
    }

    @Test("N12 60 s to 7 days, 7 days if nothing is said") func eventValidity() async throws {
        let app = try await App("commsease")
        for (expiry, code) in [(59, 6017), (604_801, 6017), (0, 6017), (60, 0), (604_800, 0)] {
            let answer = try await app.call("publishEvent", "{\"value\":10001,\"expiry\":\(expiry)}", node: 1)
            #expect(answer.code == code, "\(expiry) s: \(answer.json)")
            guard code == 0 else {
                #expect(answer.detail.hasPrefix("expiry:"))
                continue
            }
            #expect(Self.seconds(answer["userStatus"]) == Int64(expiry))
        }
        #expect(Self.seconds(try await app.call("publishEvent", #"{"value":10002}"#, node: 2)["userStatus"]) == 604_800)
        #expect(Self.seconds(try await app.status(of: "ann")) == 604_800)
        #expect(NIMSubscribeEvent(value: 10_000).expiry == 604_800)
        let manager = try NIMEventSubscribeManager(app.configuration(of: "ann"))
        for expiry in [59, 604_801] {
            let error = await #expect(throws: NIMError.self) {
                try await manager.publishEvent(NIMSubscribeEvent(value: 10_001, expiry: expiry))
            }
            #expect(error?.code == 6017 && error?.message.hasPrefix("expiry:") == true)
        }
        await manager.client.close()
    }

    /// For how long a status's event lasts from its publication.
    private static func seconds(_ status: JSON) -> Int64 {
        ((status["event"]?["expiresAt"]?.number ?? 0) - (status["lastUpdateTime"]?.number ?? 0)) / 1_000
    }

    @Test("N13 By default only those who are online receive it; otherwise also those who log in later, whether its author is online or not")
    func latecomers() async throws {
        let app = try await App("commsease")
        #expect(try await app.call("subscribeUserStatus", users(["bob", "carl", "dora", "emil"], Self.hour)).code == 0)
        #expect(NIMSubscribeEvent(value: 10_000).sendToOnlineUsersOnly)
        var sessions: [Session] = []
        for (number, name) in ["bob", "carl"].enumerated() { sessions.append(try await app.login(name, node: number + 1)) }
        let forAll = #"{"value":10001,"sendToOnlineUsersOnly":false}"#
        let forThoseHere = #"{"value":10002}"#
        for (name, body) in [("bob", forAll), ("carl", forThoseHere), ("dora", forAll), ("emil", forThoseHere)] {
            #expect(try await app.call("publishEvent", body, as: name, node: 1).code == 0)
        }
        let (ann, received) = try await Self.login("ann", app, node: 0)
        try await app.cluster.until("what bob and dora published is received") {
            received.values(from: "bob").contains(10_001) && received.values(from: "dora").contains(10_001)
        }
        // Later events come after it, and no other change brings it.
        for name in ["carl", "emil"] {
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: name, node: 2).code == 0)
            #expect(try await app.call("publishEvent", #"{"value":10003}"#, as: name, node: 2).code == 0)
            try await app.cluster.until("\(name)'s next is received") { received.values(from: name).contains(10_003) }
            #expect(!received.values(from: name).contains(10_002))
        }
        try await ann.logout()
        for session in sessions { session.close() }
    }

    @Test("N14 By default the author's other clients receive it, too; without syncEnabled they do not") func syncToOneself() async throws {
        let app = try await App("commsease")
        let (phone, _) = try await Self.login("bob", app, node: 0)
        let (desk, deskReceived) = try await Self.login("bob", app, node: 1)
        let (ann, annReceived) = try await Self.login("ann", app, node: 1)
        try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
        var event = NIMSubscribeEvent(value: 10_001)
        #expect(event.syncEnabled)
        try await phone.publishEvent(event)
        try await app.cluster.until("the desk receives it") { deskReceived.values(from: "bob").contains(10_001) }
        event.value = 10_002
        event.syncEnabled = false
        try await phone.publishEvent(event)
        try await app.cluster.until("a subscriber on the same node receives it") { annReceived.values(from: "bob").contains(10_002) }
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: "bob", node: 2).code == 0)
        event.value = 10_003
        event.syncEnabled = true
        try await phone.publishEvent(event)
        try await app.cluster.until("the desk receives the next") { deskReceived.values(from: "bob").contains(10_003) }
        #expect(!deskReceived.values(from: "bob").contains(10_002))
        // The record reaches the desk all the same: it is state.
        event.value = 10_004
        event.syncEnabled = false
        try await phone.publishEvent(event)
        try await app.cluster.until("the desk knows of it") { await desk.client.status(of: "bob")?.event?.value == 10_004 }
        #expect(try await app.call("setSelfStatus", #"{"customStatus":"here"}"#, as: "bob", node: 2).code == 0)
        try await app.cluster.until("the desk knows the text") { await desk.client.status(of: "bob")?.customStatus == "here" }
        #expect(await desk.client.status(of: "bob")?.event?.value == 10_004)
        #expect(!deskReceived.values(from: "bob").contains(10_004))
        for manager in [phone, desk, ann] { try await manager.logout() }
    }

    @Test("N21 A login brings the events of those who are online, and nothing of the others") func onlineOnly() async throws {
        let app = try await App("commsease")
        let names = ["online", "offline", "loggedout", "never"]
        #expect(try await app.call("subscribeUserStatus", users(names, Self.hour)).code == 0)
        let online = try await app.login("online", node: 1)
        let offline = try await app.login("offline", node: 2)
        let gone = try await app.login("loggedout", node: 0)
        offline.close()
        #expect(try await app.call("logout", "{}", as: "loggedout", node: 1).code == 0)
        try await app.until("offline", is: "OFFLINE")
        let ann = try await app.login("ann", node: 0)
        #expect(Set(ann.statuses.compactMap(\.user)) == ["ann", "online"])
        #expect(ann.statuses(of: "online").last?.general == "ONLINE")
        for session in [online, gone] { session.close() }
    }

    @Test("N19 N20 A user whom vendor push reaches does not go OFFLINE, unless the setting is off or push does not reach")
    func push() async throws {
        let app = try await App("commsease")
        #expect(try await app.call("subscribeUserStatus", users(["bob", "carl", "dora"], Self.hour)).code == 0)
        let (ann, received) = try await Self.login("ann", app, node: 0)
        func lose(_ name: String, _ query: String) async throws {
            let session = try await app.login(name, node: 1, query: query)
            try await app.cluster.until("\(name) is there") { received.values(from: name).last == 1 }
            session.close()
        }
        try await lose("bob", "platform=ios&deviceID=b&pushReachable=true")
        try await lose("carl", "platform=ios&deviceID=c&pushReachable=false")
        try await app.cluster.until("carl's loss is told") { received.values(from: "carl").last == 3 }
        #expect(received.values(from: "bob") == [1])
        #expect(try await app.status(of: "bob").general == "ONLINE")
        #expect(try await app.call("logout", "{}", as: "bob", node: 2).code == 0)
        try await app.cluster.until("bob's logout is told") { received.values(from: "bob").last == 2 }
        try await app.set(#"{"state.pushReachableStaysOnline":false}"#)
        try await lose("dora", "platform=ios&deviceID=d&pushReachable=true")
        try await app.cluster.until("dora's loss is told") { received.values(from: "dora").last == 3 }
        try await ann.logout()
    }
}
