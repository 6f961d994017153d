import NodeFixture
import Testing

extension ConformanceTests {
    /// The times of a status, as a contact list shows them.
    @Suite struct StatusTimesTests {
        @Test("A user who logs out or is kicked was last seen at that moment, not at the login", arguments: ["logout", "kick"])
        func lastSeen(end: String) async throws {
            let app = try await App("rollcall")
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob").code == 0)
            let bob = try await app.login("bob", node: 1)
            let ann = try await app.login("ann", node: 0)
            let login = try await bob.status(of: "ann") { $0.general == "ONLINE" }["lastOnlineStatusUpdateTime"]?.number ?? 0
            try await app.cluster.until("a second has passed") {
                let answer = try await app.call("getUserStatus", users(["carl"]), node: 2)
                return (answer["asOf"].number ?? 0) > login + 1_000
            }
            let ended =
                end == "logout"
                ? try await app.call("logout", "{}", node: 2) : try await app.admin("kick", #"{"userID":"ann"}"#, node: 2)
            #expect(ended.code == 0, "\(ended.json)")
            let status = end == "logout" ? "UNLOGINED" : "OFFLINE"
            let gone = try await bob.status(of: "ann") { $0.general == status && ($0["lastSeenTime"]?.number ?? 0) > login }
            let (seen, changed) = (gone["lastSeenTime"]?.number ?? 0, gone["lastOnlineStatusUpdateTime"]?.number ?? 0)
            #expect(seen > login + 1_000 && seen <= changed && changed - seen < 1_000, "login \(login), seen \(seen), gone \(changed)")
            #expect(try await app.status(of: "ann", node: 0)["lastSeenTime"]?.number == seen)
            ann.close()
        }

        @Test("A parameter of the stream that a proxy repeats is no error; one with two values is named")
        func repeatedParameter() async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 1, query: "platform=web&comments=true&platform=web&comments=true")
            #expect(try await app.platforms(of: "ann") == ["web"])
            let url = "http://127.0.0.1:\(app.cluster.nodes[0].ports.client)/v1/events?platform=web&platform=ios"
            let refused = try await run("curl", ["-s", "-H", "Authorization: Bearer \(try app.token("ann"))", url])
            let json = try JSON(Array(refused.output.utf8))
            #expect(json["code"]?.number == 6017 && json["detail"]?.text == "platform: occurs twice with different values", "\(refused)")
            ann.close()
        }
    }
}
