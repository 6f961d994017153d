import Foundation
import Glibc
import NodeFixture
import TencentStatus
import Testing

extension ConformanceTests {
    /// `documents/000…`, preset `tencent`.
    @Suite(.serialized) struct TencentTests {
        @Test("T1 A user has a general status, which no call sets, and a custom status") func twoStatuses() async throws {
            let app = try await App("tencent")
            let session = try await app.login("ann", node: 1)
            let answer = try await app.call("setSelfStatus", #"{"customStatus":"on the call","statusType":"OFFLINE"}"#, node: 2)
            #expect(answer["userStatus"].general == "ONLINE" && answer["userStatus"].custom == "on the call")
            let seen = try await app.status(of: "ann")
            #expect(seen.general == "ONLINE" && seen.custom == "on the call")
            session.close()
        }

        @Test("T2 T3 T5 T7 UNLOGINED before the first login and after logout, OFFLINE at once after a lost connection")
        func generalStatuses() async throws {
            let app = try await App("tencent")
            #expect(try await app.status(of: "bob").general == "UNLOGINED")
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
            var bob = try await app.login("bob", node: 2)
            try await ann.status(of: "bob") { $0.general == "ONLINE" }
            let lostAt = Int64(Date().timeIntervalSince1970 * 1_000)
            bob.close()
            let lost = try await ann.status(of: "bob") { $0.general == "OFFLINE" }
            // Without a grace: a preset with one would wait 2 s.
            #expect((lost["lastOnlineStatusUpdateTime"]?.number ?? .max) - lostAt < 1_500)
            bob = try await app.login("bob", node: 1)
            #expect(try await app.call("logout", "{}", as: "bob", node: 2).code == 0)
            try await ann.status(of: "bob") { $0.general == "UNLOGINED" }
            #expect(ann.statuses(of: "bob").compactMap(\.general).filter { $0 == "OFFLINE" }.count == 1)
            #expect(try await app.status(of: "bob", node: 1).general == "UNLOGINED")
        }

        @Test("T4 A process that is stopped but alive stays ONLINE, one that is killed is OFFLINE") func inTheBackground() async throws {
            let app = try await App("tencent")
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            let url = "http://127.0.0.1:\(app.cluster.nodes[1].ports.client)/v1/events?platform=android"
            process.arguments = ["curl", "-s", "-N", "-H", "Authorization: Bearer \(try app.token("ann"))", url]
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            try await app.until("ann", is: "ONLINE")
            kill(process.processIdentifier, SIGSTOP)
            #expect(try await app.status(of: "ann", node: 2).general == "ONLINE")
            kill(process.processIdentifier, SIGKILL)
            try await app.until("ann", is: "OFFLINE", node: 2)
        }

        @Test("T8 The status is the user's: no device shows, and one that comes or goes beside others causes no notice and moves no time")
        func statusOfTheUser() async throws {
            let app = try await App("tencent")
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob").code == 0)
            let bob = try await app.login("bob", node: 1)
            let phone = try await app.login("ann", node: 0, query: "platform=ios&deviceID=phone")
            try await bob.status(of: "ann") { $0.general == "ONLINE" }
            let before = try await app.status(of: "ann", as: "bob", node: 1)
            #expect(before.platforms == [] && before["deviceID"] == nil)
            let desk = try await app.login("ann", node: 2, query: "platform=windows&deviceID=desk")
            phone.close()
            // Only the back end can see that the phone is gone.
            try await app.cluster.until("the phone is gone") { try await app.platforms(of: "ann", node: 1) == ["windows"] }
            let after = try await app.status(of: "ann", as: "bob", node: 1)
            for field in ["statusType", "lastUpdateTime", "lastOnlineStatusUpdateTime", "lastCustomStatusUpdateTime", "lastSeenTime"] {
                #expect(after[field] == before[field], "\(field)")
            }
            // A later change of the same user is told behind all earlier ones: nothing was told between.
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"later"}"#, node: 0).code == 0)
            try await bob.status(of: "ann") { $0.custom == "later" }
            #expect(bob.statuses(of: "ann").drop { $0.general != "ONLINE" }.map(\.custom) == ["", "later"])
            desk.close()
            try await app.until("ann", is: "OFFLINE")
        }

        @Test("T9 T10 T33 T34 Setting and clearing reach the own listener, on all own clients, with whole statuses")
        func ownListener() async throws {
            let app = try await App("tencent")
            let sessions = [try await app.login("ann", node: 0), try await app.login("ann", node: 1), try await app.login("ann", node: 2)]
            // Between two statuses a session may be told of the others.
            let isTold = { @Sendable (events: [Session.Event], text: String) in
                events.last { $0.name == "onUserStatusChanged" }?.custom("ann") == text
            }
            for (text, node) in [("listening to music", 0), ("", 1), ("again", 2)] {
                #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", node: node).code == 0)
                for session in sessions { try await session.until("\"\(text)\" is told") { isTold($0, text) } }
            }
            #expect(try await app.call("setSelfStatus", #"{"customStatus":null}"#).code == 0)
            for session in sessions { try await session.until("null is told") { isTold($0, "") } }
            #expect(sessions.allSatisfy { $0.statuses(of: "ann").last?.general == "ONLINE" })
            #expect(try await app.status(of: "ann", node: 1).custom == "")
        }

        @Test("T11 OFFLINE clears the custom status, and the notice says so") func offlineClears() async throws {
            let app = try await App("tencent")
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: "bob", node: 2).code == 0)
            try await ann.status(of: "bob") { $0.custom == "busy" }
            bob.close()
            let lost = try await ann.status(of: "bob") { $0.general == "OFFLINE" }
            #expect(lost.custom == "")
            #expect(try await app.status(of: "bob", node: 2).custom == "")
            // No stream is open. The next one has the record; the façade tells its listener at once (`TencentStatusTests`).
            let again = try await app.login("bob", node: 2)
            let own = try await again.status(of: "bob") { $0.general == "ONLINE" }
            #expect(own.custom == "" && own["lastCustomStatusUpdateTime"] == lost["lastCustomStatusUpdateTime"])
        }

        @Test("T11 Without a session no custom status is set: 6014") func customStatusNeedsSession() async throws {
            let app = try await App("tencent")
            for node in 0..<3 {
                let refused = try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, node: node)
                #expect(refused.status == 401 && refused.code == 6014, "\(refused.json)")
            }
            let ann = try await app.login("ann", node: 1)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, node: 2).code == 0)
            ann.close()
            try await app.until("ann", is: "OFFLINE")
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, node: 0).code == 6014)
            #expect(try await app.status(of: "ann").custom == "")
        }

        @Test("T2 A kick gives OFFLINE at once, because the user has not logged out") func kicked() async throws {
            let app = try await App("tencent")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let ann = try await app.login("ann", node: 0)
            try await bob.status(of: "ann") { $0.general == "ONLINE" }
            #expect(try await app.admin("kick", #"{"userID":"ann"}"#, node: 2).code == 0)
            try await ann.until("the session has ended") { $0.contains { $0.name == "onKickedOffline" } }
            try await bob.status(of: "ann") { $0.general == "OFFLINE" }
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "bob", node: node).general == "OFFLINE") }
            let count = bob.statuses(of: "ann").count { $0.general == "UNLOGINED" }
            #expect(try await app.call("logout", "{}", node: 2).code == 0)
            try await bob.until("the logout is told") { events in
                let lists = events.filter { $0.name == "onUserStatusChanged" }.map { $0.json["userStatusList"]?.elements ?? [] }
                return lists.joined().count { $0.user == "ann" && $0.general == "UNLOGINED" } == count + 1
            }
            // A user who has logged out stays UNLOGINED.
            #expect(try await app.admin("kick", #"{"userID":"ann"}"#, node: 0).code == 0)
            #expect(try await app.status(of: "ann", as: "bob").general == "UNLOGINED")
        }

        @Test("T11 Logout clears the custom status, and the notice says so") func logoutClears() async throws {
            let app = try await App("tencent")
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, as: "bob", node: 2).code == 0)
            try await ann.status(of: "bob") { $0.custom == "busy" }
            #expect(try await app.call("logout", "{}", as: "bob", node: 0).code == 0)
            // The first status after the login that says UNLOGINED: the one before it, of the subscribe call, had no text either.
            let gone = try await ann.status(of: "bob") { $0.general == "UNLOGINED" && $0["lastCustomStatusUpdateTime"]?.number != 0 }
            #expect(gone.custom == "")
            bob.close()
        }

        @Test("T12 100 bytes of custom status, of any characters; not 101, nor at login") func customStatusBytes() async throws {
            let app = try await App("tencent")
            let session = try await app.login("ann", node: 2)
            let edge = String(repeating: "é", count: 50)
            #expect(edge.utf8.count == 100)
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(edge)\"}")["userStatus"].custom == edge)
            for long in [edge + "x", String(repeating: "漢", count: 33) + "é", String(repeating: "x", count: 101)] {
                #expect(long.utf8.count == 101)
                let answer = try await app.call("setSelfStatus", "{\"customStatus\":\"\(long)\"}")
                #expect(answer.code == 6017 && answer.detail.hasPrefix("customStatus:"))
            }
            #expect(try await app.status(of: "ann", node: 1).custom == edge)
            let refused = await #expect(throws: TestFailure.self) {
                try await app.login("ann", query: "platform=ios&customStatus=" + String(repeating: "x", count: 101))
            }
            #expect(refused?.description.contains(#""code":6017"#) == true)
            #expect(try await app.status(of: "ann", node: 1).custom == edge)
            session.close()
        }

        @Test("T13 T15 T36 One's own status needs no plan and no switch, as often as one likes") func oneself() async throws {
            let app = try await App("tencent", #"{"plan":"basic","userStatus.enabled":false}"#)
            let session = try await app.login("ann", node: 1)
            for number in 0..<25 {
                #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(number)\"}", node: number % 3).code == 0)
                let own = try await app.call("getUserStatus", users(["ann"]), node: 1)
                #expect(own.code == 0 && own.statuses.map(\.custom) == ["\(number)"])
            }
            try await expectRefused(app, 7013)
            session.close()
        }

        @Test("T16 T19 T20 T24 T36 With the switch off other users' statuses are refused with 72001") func switchOff() async throws {
            let app = try await App("tencent", #"{"userStatus.enabled":false}"#)
            try await expectRefused(app, 72001)
            try await app.set(#"{"userStatus.enabled":true,"plan":"basic"}"#)
            try await expectRefused(app, 7013)
            try await app.set(#"{"plan":"premium"}"#)
            #expect(try await app.followed() == [])
            for operation in ["getUserStatus", "subscribeUserStatus", "unsubscribeUserStatus"] {
                #expect(try await app.call(operation, users(["bob"]), node: 1).code == 0)
            }
        }

        private func expectRefused(_ app: App, _ code: Int64) async throws {
            for (number, operation) in ["getUserStatus", "subscribeUserStatus", "unsubscribeUserStatus"].enumerated() {
                let answer = try await app.call(operation, users(["bob"]), node: number)
                #expect(answer.code == code && answer.status == 403, "\(operation): \(answer.json)")
                #expect(try await app.call(operation, users(["ann", "bob"]), node: number).code == code)
            }
            #expect(try await app.call("unsubscribeUserStatus", #"{"all":true}"#).code == code)
        }

        @Test("T14 A query returns both statuses of each user, on whichever nodes their owners are") func query() async throws {
            let app = try await App("tencent")
            let names = many(0..<12)
            var sessions: [Session] = []
            for (number, name) in names.enumerated() where number % 3 > 0 {
                sessions.append(try await app.login(name, node: number % 3))
                #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"I am \(name)\"}", as: name).code == 0)
                if number % 3 == 2 { #expect(try await app.call("logout", "{}", as: name, node: 1).code == 0) }
            }
            for node in 0..<3 {
                let found = try await app.call("getUserStatus", users(names), node: node).statuses
                #expect(found.map(\.user) == names)
                #expect(found.map(\.general) == names.indices.map { ["UNLOGINED", "ONLINE", "UNLOGINED"][$0 % 3] })
                #expect(found.enumerated().allSatisfy { $1.custom == ($0 % 3 == 1 ? "I am \(names[$0])" : "") })
            }
            sessions.forEach { $0.close() }
        }

        @Test(
            "T17 T22 T24 The 21st call in 5 s is answered 7008 at each node, a query's 25th at the latest, and a call passes after 5 s",
            arguments: ["getUserStatus", "subscribeUserStatus", "unsubscribeUserStatus"])
        func rate(operation: String) async throws {
            let app = try await App("tencent")
            // A node answers a query before its caller's owner has counted it: over all nodes at most 1.2 × the limit passes.
            let takenMax = operation == "getUserStatus" ? 24 : 20
            let header = { (user: String) in "Authorization: Bearer \(try app.token(user))" }
            let url = "http://127.0.0.1:\(app.cluster.nodes[1].ports.client)/v1/\(operation)"
            var (callers, taken, refusals) = (0, 0, 0)
            var (codes, refused, start) = ([Int64](), "", ContinuousClock.now)
            // A busy machine may take longer than 5 s for these calls. Then another user calls.
            try await app.cluster.until("each node refuses a call within 5 s") {
                callers += 1
                let user = "ann\(callers)"
                start = .now
                codes = try await withThrowingTaskGroup(of: Int64.self) { group in
                    for number in 0..<20 {
                        group.addTask { try await app.call(operation, users(["bob"]), as: user, node: number % 3).code }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                (taken, refusals) = (codes.count, 0)
                // Until each node has refused one.
                for number in 0..<takenMax where refusals < 3 {
                    let code = try await app.call(operation, users(["bob"]), as: user, node: number % 3).code
                    (taken, refusals) = code == 0 ? (taken + 1, 0) : (taken, refusals + 1)
                }
                refused = try await run("curl", ["-s", "-i", "-H", try header(user), "-d", users(["bob"]), url]).output
                return refusals == 3 && ContinuousClock.now - start < .seconds(5)
            }
            #expect(codes == Array(repeating: 0, count: 20))
            #expect(taken <= takenMax)
            let parts = refused.components(separatedBy: "\r\n\r\n")
            let json = try JSON(Array(try #require(parts.last).utf8))
            let wait = try #require(json["retryAfter"]?.number)
            #expect(refused.hasPrefix("HTTP/1.1 429 ") && json["code"]?.number == 7008 && (1...5).contains(wait), "\(refused)")
            #expect(parts[0].lowercased().contains("retry-after: \(wait)"))
            // Others are counted apart: other operations, other users, and one's own status.
            let user = "ann\(callers)"
            let other = operation == "getUserStatus" ? "subscribeUserStatus" : "getUserStatus"
            #expect(try await app.call(other, users(["bob"]), as: user).code == 0)
            #expect(try await app.call(operation, users(["bob"]), as: "carl", node: 1).code == 0)
            #expect(try await app.call("getUserStatus", users([user]), as: user, node: 1).code == 0)
            try await app.cluster.until("a call passes again") {
                try await app.call(operation, users(["bob"]), as: user, node: 2).code == 0
            }
            #expect(ContinuousClock.now - start >= .seconds(5))
        }

        @Test(
            "T18 T23 T24 500 users a query, 100 a subscribe or unsubscribe call; one more is refused",
            arguments: [("getUserStatus", 500), ("subscribeUserStatus", 100), ("unsubscribeUserStatus", 100)])
        func batches(operation: String, countMax: Int) async throws {
            let app = try await App("tencent")
            let edge = try await app.call(operation, users(many(0..<countMax)), node: 2)
            #expect(edge.code == 0)
            if operation == "getUserStatus" { #expect(edge.statuses.count == 500) }
            if operation == "subscribeUserStatus" { #expect(try await app.followedCount() == 100) }
            let over = try await app.call(operation, users(many(1_000..<1_001 + countMax)), node: 2)
            #expect(over.code == 6017 && over.detail.contains("at most \(countMax)"))
            if operation == "subscribeUserStatus" { #expect(try await app.followedCount() == 100) }
        }

        @Test("T21 The 201st subscription removes the earliest, and succeeds") func quota() async throws {
            let app = try await App("tencent")
            let ann = try await app.login("ann", node: 0)
            for batch in [["first"], ["second"], many(0..<100), many(100..<198)] {
                let answer = try await app.call("subscribeUserStatus", users(batch), node: 1)
                #expect(answer.code == 0 && answer["evicted"].elements == [])
            }
            #expect(try await app.followedCount() == 200)
            let answer = try await app.call("subscribeUserStatus", users(["last"]), node: 2)
            #expect(answer.code == 0 && answer["evicted"].elements.map(\.text) == ["first"] && answer.errors == [])
            #expect(try await app.followedCount() == 200)
            var others: [Session] = []
            for name in ["first", "second", "last"] { others.append(try await app.login(name, node: 1)) }
            // The evicted target is not sent any more; the second is.
            let control = try await app.login("eve", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["first"]), as: "eve").code == 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"unseen"}"#, as: "first", node: 2).code == 0)
            try await control.status(of: "first") { $0.custom == "unseen" }
            for (name, node) in [("second", 1), ("last", 2)] {
                #expect(try await app.call("setSelfStatus", #"{"customStatus":"seen"}"#, as: name, node: node).code == 0)
                try await ann.status(of: name) { $0.custom == "seen" }
            }
            #expect(ann.statuses(of: "first").allSatisfy { $0.custom != "unseen" })
            others.forEach { $0.close() }
        }
    }
}

extension Session.Event {
    /// The custom status that it sends of `user`.
    func custom(_ user: String) -> String? { json["userStatusList"]?.elements.last { $0.user == user }?.custom }
}
