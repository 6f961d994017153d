import Foundation
import NodeFixture
import RongCloudStatus
import Synchronization
import Testing

extension ConformanceTests {
    /// `documents/001…`, preset `rongcloud`.
    @Suite(.serialized) struct RongCloudTests {
        /// Keeps the calls of the document's delegate.
        final class Delegate: RCSubscribeEventDelegate {
            private struct Told {
                var calls: [[RCSubscribeInfoEvent]] = []
                var synced: [RCSubscribeType] = []
                var changed: [RCSubscribeEvent] = []
                var mainThreadCalls = 0
            }

            private let told = Mutex(Told())

            var calls: [[RCSubscribeInfoEvent]] { told.withLock { $0.calls } }
            var synced: [RCSubscribeType] { told.withLock { $0.synced } }
            /// The subscriptions that other devices have made (+) and ended (-).
            var changed: [String] {
                told.withLock { $0.changed.map { ($0.operationType == .subscribe ? "+" : "-") + $0.userId } }
            }
            var entries: [RCSubscribeEvent] { told.withLock { $0.changed } }
            var mainThreadCalls: Int { told.withLock { $0.mainThreadCalls } }

            func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent]) { note { $0.calls.append(subscribeEvents) } }
            func onSubscriptionSyncCompleted(_ type: RCSubscribeType) { note { $0.synced.append(type) } }
            func onSubscriptionChangedOnOtherDevices(_ subscribeEvents: [RCSubscribeEvent]) { note { $0.changed += subscribeEvents } }

            private func note(_ change: (inout Told) -> Void) {
                let isMain = Thread.isMainThread
                told.withLock { told in
                    change(&told)
                    if isMain { told.mainThreadCalls += 1 }
                }
            }
        }

        @Test("R1 The feature is switched on for one app and off for another") func perApp() async throws {
            let (on, off) = (try await App("rongcloud"), try await App("rongcloud", #"{"userStatus.enabled":false}"#))
            for node in 0..<3 {
                #expect(try await on.call("subscribeUserStatus", users(["bob"]), node: node).code == 0)
                #expect(try await off.call("subscribeUserStatus", users(["bob"]), node: node).code == 72001)
            }
            let core = try RCCoreClient(off.configuration(of: "ann"))
            let refused = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["bob"]))
            await core.client.close()
            #expect(refused.status == RCErrorCode(rawValue: 72001) && refused.failedUserIds == ["bob"])
        }

        @Test("R1 The plan covers the whole feature: with a smaller one a status is neither set nor followed", arguments: 0..<3)
        func plan(node: Int) async throws {
            let app = try await App("rongcloud", #"{"plan":"basic"}"#)
            for (operation, body) in [
                ("setSelfStatus", #"{"customStatus":"here"}"#), ("publishEvent", #"{"value":10000}"#),
                ("subscribeUserStatus", users(["bob"])), ("getUserStatus", users(["bob"])),
            ] {
                let answer = try await app.call(operation, body, node: node)
                #expect(answer.status == 403 && answer.code == 7013, "\(operation): \(answer.json)")
            }
        }

        @Test("R2 A request has a type, users and a validity in seconds") func request() async throws {
            let app = try await App("rongcloud")
            let body = users(["bob", "carl"], #""expiry":180000,"subscribeType":1"#)
            #expect(try await app.call("subscribeUserStatus", body, node: 2).code == 0)
            let rows = try await app.call("getSubscribedUserStatus", "{}")["subscriptions"].elements
            #expect(rows.map(\.user) == ["bob", "carl"])
            for row in rows {
                #expect((row["expiresAt"]?.number ?? 0) - (row["subscribedAt"]?.number ?? 0) == 180_000_000)
                #expect(row["subscribeType"]?.number == 1)
            }
        }

        @Test("R3 Types 1 and 2 follow any user, 3 and 4 friends: who is none is named; 2 and 4 are told of profiles")
        func types() async throws {
            let app = try await App("rongcloud")
            // The relationship chain says who is a friend: `FriendsTests.friendsOnly()`.
            let friends = try await app.call("subscribeUserStatus", users(["bob", "carl"], #""subscribeType":3"#), node: 1)
            #expect(friends.status == 200 && friends.errors == ["bob 31704", "carl 31704"])
            let core = try RCCoreClient(app.configuration(of: "ann"))
            let request = RCSubscribeEventRequest(subscribeType: .friendOnlineStatus, userIds: ["bob"], expiry: 3_600)
            let answer = await core.subscribeEvent(request)
            #expect(answer.status == RCErrorCode(rawValue: 31704) && answer.failedUserIds == ["bob"])
            #expect(try await app.followedCount() == 0)
            let session = try await app.login("ann", node: 1)
            _ = try await app.call("addFriend", #"{"userID":"dan"}"#, node: 2)
            let calls: [(type: Int, name: String, failed: [String])] = [(2, "bob", []), (4, "bob", ["bob 31704"]), (4, "dan", [])]
            for (type, name, failed) in calls {
                let profile = try await app.call("subscribeUserStatus", users([name], "\"subscribeType\":\(type)"), node: 2)
                #expect(profile.status == 200 && profile.errors == failed)
            }
            let sync = try await app.call("subscribeUserStatus", users(["bob"], #""subscribeType":2,"sync":true"#))
            #expect(sync.code == 6017 && sync.detail.hasPrefix("sync: "))
            for name in ["bob", "dan", "carl"] {
                _ = try await app.call("modifySelfProfile", #"{"values":{"Nick":"new"}}"#, as: name, node: 0)
            }
            try await session.until("the profiles of bob and dan") { events in
                events.filter { $0.name == "onUserProfileChanged" }.compactMap { $0.json["userID"]?.text }.sorted() == ["bob", "dan"]
            }
            for (type, name) in [(2, "bob"), (4, "dan")] {
                let rows = try await app.call("getSubscribedUserStatus", "{\"subscribeType\":\(type)}", node: 1)
                let profile = try await app.call("getUsersProfile", users([name]), node: 2)["profileList"].elements.first
                let row = rows["subscriptions"].elements.first
                #expect(rows["total"].number == 1 && row?["userID"]?.text == name && row?["userStatus"] == nil)
                #expect(row?["profileVersion"] == profile?["version"] && profile?["nick"]?.text == "new")
            }
            #expect(try await app.call("unsubscribeUserStatus", users(["bob"], #""subscribeType":2"#)).errors == [])
            _ = try await app.call("deleteFriends", #"{"userIDs":["dan"],"delType":1}"#, node: 0)
            #expect(try await app.followedCount() == 0)
            await core.client.close()
        }

        @Test("R4 200 users a subscribe request; one more is refused") func batch() async throws {
            let app = try await App("rongcloud")
            #expect(try await app.call("subscribeUserStatus", users(many(0..<200)), node: 1).code == 0)
            #expect(try await app.followedCount() == 200)
            let over = try await app.call("subscribeUserStatus", users(many(1_000..<1_201)), node: 1)
            #expect(over.code == 6017 && over.detail.contains("at most 200"))
            #expect(try await app.followedCount() == 200)
        }

        @Test("R5 R7 The 1,001st user is refused by name, and no subscription is evicted") func quota() async throws {
            let app = try await App("rongcloud")
            for batch in 0..<5 {
                let names = many(batch * 200..<min(batch * 200 + 200, 999))
                #expect(try await app.call("subscribeUserStatus", users(names), node: batch % 3).errors == [])
            }
            let edge = try await app.call("subscribeUserStatus", users(["x", "y"], #""sync":true"#), node: 1)
            #expect(edge.status == 200 && edge.errors == ["y 6017"] && edge["evicted"].elements == [])
            #expect(edge["userStatusList"].elements.compactMap { $0["userID"]?.text } == ["x"])
            #expect(try await app.followedCount() == 1_000)
            // As the document's SDK completes: a code, and who failed; one who is followed already is not one more.
            let core = try RCCoreClient(app.configuration(of: "ann"))
            let over = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["x", "z"], expiry: 60))
            #expect(over.status == RCErrorCode(rawValue: 6017) && over.failedUserIds == ["z"])
            let again = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["x"], expiry: 60))
            #expect(again.status == RC_SUCCESS && again.failedUserIds == nil)
            await core.client.close()
        }

        @Test("R6 One more than may follow a user is refused by name, whichever node is asked") func followers() async throws {
            // 5,000 themselves are `FollowersTests.fiveThousand()`.
            let app = try await App("rongcloud")
            #expect(try await app.policy()["settings"]["subscription.maxPerTarget"]?.number == 5_000)
            try await app.set(#"{"subscription.maxPerTarget":40}"#)
            for fan in 0..<40 {
                let answer = try await app.call("subscribeUserStatus", users(["star"]), as: "fan\(fan)", node: fan % 3)
                #expect(answer.status == 200 && answer.errors == [])
            }
            for node in 0..<3 {
                let late = try await app.call("subscribeUserStatus", users(["star", "bob"]), as: "late\(node)", node: node)
                #expect(late.status == 200 && late.errors == ["star 6017"])
            }
            #expect(try await app.call("subscribeUserStatus", users(["star"]), as: "fan7", node: 2).errors == [])
        }

        @Test("R8 R9 Unsubscribe completes like subscribe, and a query returns the followed users") func unsubscribe() async throws {
            let app = try await App("rongcloud")
            let core = try RCCoreClient(app.configuration(of: "ann"))
            var request = RCSubscribeEventRequest(userIds: ["bob", "carl", "dora"], expiry: 3_600)
            #expect(await core.subscribeEvent(request).status == RC_SUCCESS)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"here"}"#, as: "carl", node: 1).code == 0)
            request.userIds = ["carl", "dora", "nobody"]
            let found = await core.querySubscribeEvent(request)
            #expect(found.status == RC_SUCCESS && found.subscribeEvents?.map(\.userId) == ["carl", "dora"])
            #expect(found.subscribeEvents?.map(\.expiry) == [3_600, 3_600])
            #expect(found.subscribeEvents?.first?.userStatus?.customStatus == "here")
            request.userIds = ["bob", "carl", "bad\u{1}"]
            let ended = await core.unSubscribeEvent(request)
            #expect(ended.status == RCErrorCode(rawValue: 7003) && ended.failedUserIds == ["bad\u{1}"])
            #expect(try await app.followed(node: 2) == ["dora"])
            request.userIds = ["dora"]
            // There is no subscription of another type.
            for type in [RCSubscribeType.friendOnlineStatus, .userProfile, .friendUserProfile] {
                request.subscribeType = type
                #expect(await core.unSubscribeEvent(request).status == RC_SUCCESS)
                let found = await core.querySubscribeEvent(request)
                #expect(found.status == RC_SUCCESS && found.subscribeEvents?.count == 0)
            }
            request.subscribeType = .onlineStatus
            #expect(try await app.followed(node: 2) == ["dora"])
            let last = await core.unSubscribeEvent(request)
            #expect(last.status == RC_SUCCESS && last.failedUserIds == nil)
            #expect(try await app.followed(node: 2) == [])
            await core.client.close()
        }

        @Test("R10 Pages of 1 to 200, from the count of rows already returned") func pages() async throws {
            let app = try await App("rongcloud")
            let names = many(0..<450)
            for start in [0, 200, 400] {
                let batch = names[start..<min(start + 200, 450)]
                #expect(try await app.call("subscribeUserStatus", users(batch), node: 1).code == 0)
            }
            for size in [1, 200, 20, 7] {
                var rows: [String] = []
                var node = 0
                while true {
                    let body = "{\"offset\":\(size == 1 ? rows.count + 445 : rows.count),\"limit\":\(size)}"
                    let page = try await app.call("getSubscribedUserStatus", body, node: node % 3)["subscriptions"].elements
                    if page.isEmpty { break }
                    #expect(page.count <= size)
                    rows += page.compactMap(\.user)
                    node += 1
                }
                #expect(rows == (size == 1 ? Array(names[445...]) : names), "pages of \(size)")
            }
            for limit in [0, 201] {
                let refused = try await app.call("getSubscribedUserStatus", "{\"limit\":\(limit)}")
                #expect(refused.code == 6017 && refused.detail.hasPrefix("limit:"))
            }
        }

        @Test("R10 The document's loop reads 60 subscriptions in pages of 2 and of 20", arguments: [2, 20]) func loop(pageSize: Int)
            async throws
        {
            let app = try await App("rongcloud")
            #expect(try await app.call("subscribeUserStatus", users(many(0..<60)), node: 1).errors == [])
            var rows: [String] = []
            for page in 0..<60 / pageSize {
                let answer = try await app.call("getSubscribedUserStatus", "{\"offset\":\(rows.count),\"limit\":\(pageSize)}", node: 1)
                #expect(answer.code == 0, "page \(page): \(answer.json)")
                rows += answer["subscriptions"].elements.compactMap(\.user)
            }
            #expect(rows == many(0..<60))
        }

        @Test("R11 R13 R15 R16 A delegate receives the statuses of a first login in few calls, and all changes until its removal")
        func delegates() async throws {
            let app = try await App("rongcloud")
            let (staying, leaving) = (Delegate(), Delegate())
            let core = try RCCoreClient(app.configuration(of: "ann", nodes: [0]))
            core.addSubscribeEventDelegate(staying)
            core.addSubscribeEventDelegate(leaving)
            let names = many(0..<60)
            #expect(try await app.call("subscribeUserStatus", users(names)).code == 0)
            for (number, name) in names.enumerated() {
                #expect(try await app.call("setSelfStatus", #"{"customStatus":"1"}"#, as: name, node: number % 3).code == 0)
            }
            // No other session of the user is open: the node asks all three owners for the statuses.
            #expect(await core.connect() == (RC_SUCCESS, "ann"))
            try await app.cluster.until("the subscriptions are synced") { staying.synced == [.onlineStatus] }
            // All followed users have been sent by then.
            for delegate in [staying, leaving] {
                let told = delegate.calls.joined()
                #expect(Set(told.map(\.userId)) == Set(names) && told.allSatisfy { $0.subscribeType == .onlineStatus })
            }
            #expect(staying.calls.count < 30, "several events come in one call: \(staying.calls.map(\.count))")
            core.removeSubscribeEventDelegate(leaving)
            let before = leaving.calls.count
            for (number, name) in names.prefix(6).enumerated() {
                #expect(try await app.call("setSelfStatus", #"{"customStatus":"2"}"#, as: name, node: number % 3).code == 0)
            }
            try await app.cluster.until("who stays is told of the changes") {
                Set(staying.calls.joined().filter { $0.userStatus?.customStatus == "2" }.map(\.userId)) == Set(names.prefix(6))
            }
            #expect(leaving.calls.count == before)
            #expect(staying.mainThreadCalls == 0 && leaving.mainThreadCalls == 0)
            #expect(await core.logout() == RC_SUCCESS)
        }

        @Test("R14 The user's other devices receive the subscriptions that one device makes and ends", arguments: [[1, 2], [1, 1]])
        func otherDevices(nodes: [Int]) async throws {
            let app = try await App("rongcloud")
            let delegates = [Delegate(), Delegate()]
            var devices: [RCCoreClient] = []
            for (node, delegate) in zip(nodes, delegates) {
                let device = try RCCoreClient(app.configuration(of: "ann", nodes: [node]))
                device.addSubscribeEventDelegate(delegate)
                #expect(await device.connect().status == RC_SUCCESS)
                devices.append(device)
            }
            try await app.cluster.until("both are synced") { delegates.allSatisfy { $0.synced == [.onlineStatus] } }
            let request = RCSubscribeEventRequest(userIds: ["bob", "carl"], expiry: 60)
            #expect(await devices[0].subscribeEvent(request).status == RC_SUCCESS)
            try await app.cluster.until("the other is told of both") { delegates[1].changed == ["+bob", "+carl"] }
            let ended = await devices[1].unSubscribeEvent(RCSubscribeEventRequest(userIds: ["bob"]))
            #expect(ended.status == RC_SUCCESS)
            try await app.cluster.until("the first is told of the end") { delegates[0].changed == ["-bob"] }
            // The calling session receives nothing of its own call.
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"after"}"#, as: "carl").code == 0)
            try await app.cluster.until("both are told what came after") {
                delegates.allSatisfy { $0.calls.joined().contains { $0.userStatus?.customStatus == "after" } }
            }
            #expect(delegates.map(\.changed) == [["-bob"], ["+bob", "+carl"]])
            let rows = try await app.call("getSubscribedUserStatus", users(["carl"]))["subscriptions"].elements
            let told = delegates[1].entries.filter { $0.operationType == .subscribe }
            #expect(told.allSatisfy { $0.subscribeType == .onlineStatus })
            #expect(told.last?.expiresAt == rows.first?["expiresAt"]?.number && told.last?.expiresAt != 0)
            for device in devices { #expect(await device.logout() == RC_SUCCESS) }
        }

        @Test("R12 No notice is sent of an expired subscription, and no later change") func silentExpiry() async throws {
            let app = try await App("rongcloud", #"{"subscription.ttlMin":1}"#)
            let ann = try await app.login("ann", node: 0)
            let control = try await app.login("eve", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"], #""expiry":1"#)).code == 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"]), as: "eve").code == 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"while it lasts"}"#, as: "bob", node: 1).code == 0)
            try await ann.status(of: "bob") { $0.custom == "while it lasts" }
            let told = ann.events.count
            try await app.cluster.until("the subscription has ended") { try await app.followedCount() == 0 }
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"too late"}"#, as: "bob", node: 2).code == 0)
            try await control.status(of: "bob") { $0.custom == "too late" }
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"own"}"#, node: 1).code == 0)
            try await ann.status(of: "ann") { $0.custom == "own" }
            #expect(ann.events.count == told + 1, "only the own change")
            #expect(try await app.followed(by: "eve") == ["bob"])
        }
    }
}
