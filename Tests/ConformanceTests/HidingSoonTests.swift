import NodeFixture
import Testing

extension ConformanceTests {
    /// Users who hide soon after a change that viewers saw, over HTTP on three nodes.
    @Suite struct HidingSoonTests {
        /// How a user hides from the viewer.
        struct Hiding: Sendable, CustomTestStringConvertible {
            let operation: String
            let body: String

            var testDescription: String { "\(operation) \(body)" }
        }

        /// The news that bob is shown of ann right before she hides.
        enum Change: CaseIterable { case login, status, event }

        private static let hidings = [
            Hiding(operation: "setVisibility", body: #"{"invisible":true}"#),
            Hiding(operation: "addBlackList", body: users(["bob"])),
        ]
        private static let modes = [
            #"{"visibility":"nobody"}"#, #"{"visibility":"friends"}"#, #"{"visibility":"list","userIDs":["cid"]}"#,
        ].map { Hiding(operation: "setVisibility", body: $0) }

        @Test(
            "A user who hides right after a change is last seen one grace before the OFFLINE, as a lost user is",
            arguments: Change.allCases, hidings + modes)
        func looksLost(_ change: Change, _ hiding: Hiding) async throws {
            let app = try await App("rollcall")
            let (ann, bob, busy) = try await busyAnn(after: change, in: app)
            let answer = try await app.call(hiding.operation, hiding.body, as: "ann", node: 2)
            #expect(answer.code == 0, "\(answer.json)")
            try await expectLoss(after: busy, shownTo: bob, in: app)
            ann.close()
        }

        /// Ann, whom bob follows and who has just changed something, and the status that bob was shown then.
        ///
        /// - Parameter prepare: what happens between the login and the change.
        func busyAnn(
            after change: Change = .status, in app: App, _ prepare: () async throws -> Void = {}
        ) async throws -> (ann: Session, bob: Session, busy: JSON) {
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let ann = try await app.login("ann", node: 0)
            try await prepare()
            switch change {
            case .login: return (ann, bob, try await bob.status(of: "ann") { $0.general == "ONLINE" })
            case .status:
                #expect(try await app.setStatus("busy", of: "ann", node: 2).code == 0)
                return (ann, bob, try await bob.status(of: "ann") { $0.custom == "busy" })
            case .event:
                #expect(try await app.call("publishEvent", #"{"value":10001,"expiry":3600}"#, as: "ann", node: 2).code == 0)
                return (ann, bob, try await bob.status(of: "ann") { $0.event == 10_001 })
            }
        }

        /// Makes ann visible to friends, with bob as a friend.
        func showToFriends(in app: App) async throws {
            #expect(try await app.call("addFriend", #"{"userID":"bob"}"#, as: "ann", node: 1).json["resultCode"]?.number == 0)
            #expect(try await app.call("setVisibility", #"{"visibility":"friends"}"#, as: "ann", node: 1).code == 0)
        }

        /// Expects that ann, whose call is answered, is OFFLINE for bob at each node, and a lost user in bob's stream.
        private func expectLoss(after busy: JSON, shownTo bob: Session, in app: App) async throws {
            try await expectOfflineAtEachNode(in: app)
            try await expectLossInStream(of: bob, after: busy)
        }

        func expectOfflineAtEachNode(in app: App) async throws {
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "bob", node: node).general == "OFFLINE", "at node \(node)") }
        }

        /// Expects that bob's stream shows ann OFFLINE, as a user who was lost one grace before, and after a status. Returns the time of
        /// that.
        @discardableResult func expectLossInStream(of bob: Session, after busy: JSON) async throws -> Int64 {
            let gone = try await bob.status(of: "ann") { $0.general == "OFFLINE" }
            let (seen, changed) = (gone["lastSeenTime"]?.number ?? 0, gone["lastOnlineStatusUpdateTime"]?.number ?? 0)
            #expect(changed - seen == 2_000, "last seen \(seen), OFFLINE \(changed)")
            #expect(seen >= busy["lastUpdateTime"]?.number ?? .max, "last seen \(seen), after \(busy)")
            return changed
        }

        @Test("A friend whom a user removes from the own list right after a change sees a loss, and keeps the user in the list")
        func removesFriend() async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 0)
            let bob = try await app.login("bob", node: 1)
            try await showToFriends(in: app)
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
