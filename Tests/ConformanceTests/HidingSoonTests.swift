import NodeFixture
import Testing

extension ConformanceTests {
    /// Users who hide soon after a change that viewers saw, over HTTP on three nodes.
    @Suite struct HidingSoonTests {
        /// How a user hides from the viewer.
        struct Hiding: Sendable, CustomTestStringConvertible {
            let operation: String
            let body: String

            var testDescription: String { operation }
        }

        private static let hidings = [
            Hiding(operation: "setVisibility", body: #"{"invisible":true}"#),
            Hiding(operation: "addBlackList", body: users(["bob"])),
        ]

        @Test("A user who hides right after a change is last seen one grace before the OFFLINE, as a lost user is", arguments: hidings)
        func looksLost(_ hiding: Hiding) async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            #expect(try await app.setStatus("busy", of: "ann", node: 2).code == 0)
            let busy = try await bob.status(of: "ann") { $0["customStatus"]?.text == "busy" }
            let answer = try await app.call(hiding.operation, hiding.body, as: "ann", node: 2)
            #expect(answer.code == 0, "\(answer.json)")
            try await expectLoss(after: busy, shownTo: bob, in: app)
            ann.close()
        }

        /// Expects that bob sees ann OFFLINE at each node and in a stream, as a user who was lost one grace before, and after a status.
        private func expectLoss(after busy: JSON, shownTo bob: Session, in app: App) async throws {
            // Nobody sees the user once the call is answered.
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "bob", node: node)["statusType"]?.text == "OFFLINE") }
            let gone = try await bob.status(of: "ann") { $0.general == "OFFLINE" }
            let (seen, changed) = (gone["lastSeenTime"]?.number ?? 0, gone["lastOnlineStatusUpdateTime"]?.number ?? 0)
            #expect(changed - seen == 2_000, "last seen \(seen), OFFLINE \(changed)")
            #expect(seen >= busy["lastUpdateTime"]?.number ?? .max, "last seen \(seen), after \(busy)")
        }

        @Test("A friend whom a user removes from the own list right after a change sees a loss, and keeps the user in the list")
        func removesFriend() async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("addFriend", #"{"userID":"bob"}"#, as: "ann", node: 1).code == 0)
            #expect(try await app.call("setVisibility", #"{"visibility":"friends"}"#, as: "ann", node: 1).code == 0)
            #expect(try await app.setStatus("busy", of: "ann", node: 2).code == 0)
            let busy = try await bob.status(of: "ann") { $0["customStatus"]?.text == "busy" }
            let answer = try await app.call("deleteFriends", users(["bob"], #""delType":1"#), as: "ann", node: 2)
            #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
            try await expectLoss(after: busy, shownTo: bob, in: app)
            #expect(try await app.call("getFriendList", "{}", as: "bob", node: 2)["total"].number == 1)
            ann.close()
        }

        @Test("A block right after a change ends the friendship at once, and the former friend sees the blocker OFFLINE at once")
        func blocksAtOnce() async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "bob", node: 1).code == 0)
            #expect(try await app.setStatus("busy", of: "ann", node: 2).code == 0)
            #expect(try await app.call("addBlackList", users(["bob"]), as: "ann", node: 2).code == 0)
            try await bob.until("the friendship has ended") { events in events.contains { $0.name == "onFriendListDeleted" } }
            #expect(try await app.status(of: "ann", as: "bob", node: 0)["statusType"]?.text == "OFFLINE")
            #expect(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "bob", node: 1).json["resultCode"]?.number == 30525)
            ann.close()
            bob.close()
        }

        @Test("The metrics count the calls that wait")
        func counts() async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 0)
            async let answer = app.call("setVisibility", #"{"invisible":true}"#, as: "ann", node: 2)
            try await app.cluster.until("a call waits") {
                for node in app.cluster.nodes where try await node.metric("rollcall_hides_waiting") > 0 { return true }
                return false
            }
            #expect(try await answer.code == 0)
            ann.close()
        }

        @Test("In preset tencent, which has no grace, a user who hides right after a change is OFFLINE at once", arguments: hidings)
        func noGrace(_ hiding: Hiding) async throws {
            let app = try await App("tencent")
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.setStatus("busy", of: "ann", node: 2).code == 0)
            #expect(try await app.call(hiding.operation, hiding.body, as: "ann", node: 2).code == 0)
            let gone = try await app.status(of: "ann", as: "bob", node: 1)
            #expect(gone["statusType"]?.text == "OFFLINE" && gone["lastSeenTime"]?.number == gone["lastOnlineStatusUpdateTime"]?.number)
            ann.close()
        }
    }
}
