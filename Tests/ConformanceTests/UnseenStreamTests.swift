import NodeFixture
import Testing

extension ConformanceTests {
    /// `GET /v1/events?presence=none`: a stream that hears without being seen.
    @Suite(.serialized) struct UnseenStreamTests {
        @Test("A stream with presence=none hears what the user follows, is no session, and is counted apart") func hears() async throws {
            let app = try await App("rollcall")
            let watcher = try await app.login("watcher", node: 2)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "watcher").code == 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"])).code == 0)
            let bot = try await app.login("ann", node: 1, query: "platform=bot&presence=none&customStatus=seen&pushReachable=true")
            try await app.setStatus("hello", of: "bob", node: 2)
            try await bot.status(of: "bob") { $0.custom == "hello" }
            // A later subscription, made by another device of the user at another node, is heard as well.
            #expect(try await app.call("subscribeUserStatus", users(["carl"]), node: 0).code == 0)
            try await app.setStatus("new", of: "carl", node: 2)
            try await bot.status(of: "carl") { $0.custom == "new" }
            let status = try await app.status(of: "ann", node: 0)
            #expect(status.general == "UNLOGINED" && status.custom == "")
            #expect(try await app.call("getSessions", "{}").json["sessions"]?.elements == [])
            let asked = try await app.admin("queryOnlineStatus", users(["ann"], #""withSessions":true"#))
            #expect(asked.statuses[0]["sessions"]?.elements == [])
            try await app.cluster.until("the stream is counted apart") {
                try await app.cluster.nodes[1].metric("rollcall_listeners") > 0
            }

            // The end of the user's session ends the presence, and not the stream.
            let phone = try await app.login("ann", node: 0)
            try await watcher.status(of: "ann") { $0.general == "ONLINE" }
            let id = phone.events.first { $0.name == "onConnected" }?.json["sessionID"]?.text ?? ""
            #expect(try await app.call("logout", "{\"sessionID\":\"\(id)\"}").code == 0)
            try await watcher.status(of: "ann") { $0.general == "UNLOGINED" && $0["lastSeenTime"]?.number != 0 }
            try await bot.status(of: "ann") { $0.general == "UNLOGINED" && $0["lastSeenTime"]?.number != 0 }
            try await app.setStatus("again", of: "bob", node: 1)
            try await bot.status(of: "bob") { $0.custom == "again" }

            #expect(try await app.admin("kick", #"{"userID":"ann"}"#).status == 200)
            try await bot.until("the stream is kicked") { events in
                events.contains { $0.name == "onKickedOffline" && $0.json["reason"]?.text == "kicked" }
            }
            #expect(watcher.statuses(of: "ann").compactMap(\.general).count { $0 == "ONLINE" } == 1)
        }

        @Test("A user has at most 16 such streams, and another value of presence is refused") func bounds() async throws {
            let app = try await App("rollcall")
            var bots: [Session] = []
            for number in 0..<17 { bots.append(try await app.login("ann", node: number % 3, query: "platform=bot&presence=none")) }
            try await bots[0].until("the first one ends") { events in
                events.contains { $0.name == "onKickedOffline" && $0.json["reason"]?.text == "replaced" }
            }
            #expect(bots[1...].allSatisfy { bot in !bot.events.contains { $0.name == "onKickedOffline" } })
            await #expect(throws: (any Error).self) { try await app.login("ann", query: "presence=all") }
            for bot in bots { bot.close() }
        }
    }
}
