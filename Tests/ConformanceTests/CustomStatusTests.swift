import NodeFixture
import Testing

extension ConformanceTests {
    /// Custom statuses with an end of their own.
    @Suite(.serialized) struct CustomStatusTests {
        @Test(
            "A text that was set with an expiry stays while its user is OFFLINE, unless the preset shows none without a session",
            arguments: [("rollcall", true), ("rongcloud", true), ("commsease", true), ("zim", true), ("tencent", false)])
        func expiry(preset: String, isKept: Bool) async throws {
            let app = try await App(preset)
            try await app.register(["ann", "watcher"])
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"at the dentist","expiry":3600}"#, node: 1).code == 0)
            ann.close()
            try await untilOffline(in: app)
            let text = isKept ? "at the dentist" : ""
            for node in 0..<3 { #expect(try await app.status(of: "ann", node: node).custom == text) }
            let back = try await app.login("ann", node: 2)
            #expect(back.statuses(of: "ann").last?.custom == text)
            #expect(try await app.status(of: "ann").custom == text)
            // The next text has no end of its own, and replaces the end of the one before.
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, node: 1).code == 0)
            back.close()
            try await untilOffline(in: app)
            #expect(try await app.status(of: "ann").custom == (preset == "zim" ? "busy" : ""))
        }

        /// Waits until ann is OFFLINE for the app's back end, whose queries have no limit.
        private func untilOffline(in app: App) async throws {
            try await app.cluster.until("ann is OFFLINE") {
                let answer = try await app.call("getUserStatus", users(["ann"]), as: "backend", isAdmin: true, node: 2)
                return answer.statuses.first?.general == "OFFLINE"
            }
        }

        @Test("A text that was set with an expiry ends then, also while its user is OFFLINE, and watchers are told") func end() async throws
        {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"in a tunnel","expiry":6}"#).code == 0)
            ann.close()
            let lost = try await bob.status(of: "ann") { $0.general == "OFFLINE" }
            #expect(lost.custom == "in a tunnel")
            try await bob.status(of: "ann") { $0.general == "OFFLINE" && $0.custom == "" }
        }

        @Test("A text that was set with an expiry stays after a logout, and ends at its own time") func endAfterLogout() async throws {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let ann = try await app.login("ann", node: 0)
            let answer = try await app.call("setSelfStatus", #"{"customStatus":"on a plane","expiry":4}"#)
            let setAt = try #require(answer["userStatus"]["lastCustomStatusUpdateTime"]?.number)
            #expect(try await app.call("logout", "{}", node: 2).code == 0)
            // The record before the first login is UNLOGINED, too, and has no text.
            try await bob.status(of: "ann") { $0.general == "UNLOGINED" && $0.custom == "on a plane" }
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "bob", node: node).custom == "on a plane") }
            let ended = try await bob.status(of: "ann") {
                $0.custom == "" && $0["lastCustomStatusUpdateTime"]?.number ?? 0 > setAt
            }
            #expect(ended.general == "UNLOGINED" && ended["lastCustomStatusUpdateTime"]?.number ?? 0 >= setAt + 4_000, "\(ended)")
            ann.close()
        }

        @Test("The default validity of an app is no end of its own") func defaultValidity() async throws {
            let app = try await App("rollcall", #"{"customStatus.ttl":3600}"#)
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"busy"}"#, node: 1).code == 0)
            ann.close()
            try await app.until("ann", is: "OFFLINE", node: 2)
            #expect(try await app.status(of: "ann").custom == "")
        }
    }
}
