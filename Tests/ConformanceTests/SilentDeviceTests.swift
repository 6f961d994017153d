import NodeFixture
import Testing

/// Times that are waited for in full: the 400 seconds of silence of Tencent's document, the shortest silence of a policy, and the grace of
/// a token.
///
/// The suite is a step of its own in `make test`, beside the others, because it only waits.
@Suite(.cluster, .timeLimit(.minutes(9))) struct SilentDeviceTests {
    /// TCP alone notices it: the client has nothing to answer. The comments of the node, one in 30 s, stay unacknowledged.
    @Test("T6 Over HTTP/1.1 a device whose network is dead stays ONLINE until its comments are overdue, and is OFFLINE after 400 s")
    func deadNetwork() async throws {
        let app = try await App("tencent")
        #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob").code == 0)
        let bob = try await app.login("bob", node: 2)
        let device = try SilentClient(port: app.cluster.nodes[1].ports.client, tokenOverHTTP1: try app.token("ann"))
        try await bob.status(of: "ann") { $0.general == "ONLINE" }
        try device.loseNetwork()
        let lost = ContinuousClock.now
        try await bob.until("ann is OFFLINE for bob", within: .seconds(430)) { events in
            events.contains { event in
                event.name == "onUserStatusChanged"
                    && event.json["userStatusList"]?.elements.contains { $0.user == "ann" && $0.general == "OFFLINE" } == true
            }
        }
        // A comment is due at most 30 s after the loss. TCP waits for the rest of the 400 s for its acknowledgement.
        let silence = ContinuousClock.now - lost
        #expect(silence > .seconds(365) && silence < .seconds(405), "\(silence)")
        #expect(bob.statuses(of: "ann").suffix(2).map(\.general) == ["ONLINE", "OFFLINE"])
        #expect(try await app.status(of: "ann", as: "carl", node: 0).general == "OFFLINE")
        device.close()
    }

    @Test("T6 A device that falls silent without FIN or RST stays ONLINE for 400 s, and is OFFLINE then")
    func silence() async throws {
        let app = try await App("tencent")
        #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob").code == 0)
        let bob = try await app.login("bob", node: 2)
        let device = try SilentClient(port: app.cluster.nodes[0].ports.client, token: try app.token("ann"))
        try await bob.status(of: "ann") { $0.general == "ONLINE" }
        let fellSilent = ContinuousClock.now

        try await bob.until("ann is OFFLINE for bob", within: .seconds(430)) { events in
            events.contains { event in
                event.name == "onUserStatusChanged"
                    && event.json["userStatusList"]?.elements.contains { $0.user == "ann" && $0.general == "OFFLINE" } == true
            }
        }
        // The device fell silent shortly before bob was told that it is there. The node looks for silent devices every few seconds.
        let silence = ContinuousClock.now - fellSilent
        #expect(silence > .seconds(399) && silence < .seconds(410), "\(silence)")
        #expect(bob.statuses(of: "ann").suffix(2).map(\.general) == ["ONLINE", "OFFLINE"])
        #expect(try await app.status(of: "ann", as: "carl", node: 1).general == "OFFLINE")
        device.close()
    }

    /// `offlineGrace` follows the end of the session, as after a loss.
    @Test(
        "A stream is told 30 s before its token ends, and 25 s after that its session ends as tokenExpired; until then the user is ONLINE",
        arguments: [("rollcall", 2.0), ("tencent", 0)])
    func endOfToken(preset: String, offlineGrace: Double) async throws {
        let app = try await App(preset)
        let watcher = try await app.login("watcher", node: 2)
        #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "watcher").code == 0)
        let opened = ContinuousClock.now
        let ann = try await app.login("ann", node: 0, tokenSeconds: 35)
        try await watcher.status(of: "ann") { $0.general == "ONLINE" }
        try await ann.until("the notice", within: .seconds(20)) { $0.contains { $0.name == "onTokenExpiring" } }
        let noticed = ContinuousClock.now - opened
        let told = { (name: String, field: String) in ann.events.first { $0.name == name }?.json[field]?.number }
        let (loginTime, expiresAt) = (try #require(told("onConnected", "serverTime")), try #require(told("onTokenExpiring", "expiresAt")))
        let tokenEnd = Double(expiresAt - loginTime) / 1_000
        // The test has begun to count before the login. The nodes may be late, because others use the processor.
        let isAt = { (seconds: Double, time: Duration) in time > .seconds(seconds - 0.1) && time < .seconds(seconds + 6) }
        #expect(tokenEnd > 30 && tokenEnd <= 35 && isAt(tokenEnd - 30, noticed), "\(tokenEnd), \(noticed)")

        // 15 s after the end of the token.
        try await app.pass(45, watcher, of: "watcher")
        for node in 0..<3 { #expect(try await app.status(of: "ann", node: node).general == "ONLINE") }
        #expect(!ann.events.contains { $0.name == "onKickedOffline" })
        try await ann.until("the end of the stream", within: .seconds(30)) { $0.contains { $0.name == "ended" } }
        let ended = ContinuousClock.now - opened
        #expect(isAt(tokenEnd + 25, ended), "\(ended)")
        #expect(ann.events.suffix(2).map(\.name) == ["onKickedOffline", "ended"])
        #expect(ann.events.suffix(2).first?.json["reason"]?.text == "tokenExpired")
        #expect(ann.events.count { $0.name == "onTokenExpiring" } == 1)

        try await watcher.until("ann is OFFLINE for the watcher", within: .seconds(15)) { events in
            events.contains { event in
                event.json["userStatusList"]?.elements.contains { $0.user == "ann" && $0.general == "OFFLINE" } == true
            }
        }
        let gone = ContinuousClock.now - opened
        #expect(isAt(tokenEnd + 25 + offlineGrace, gone), "\(gone)")
        #expect(watcher.statuses(of: "ann").suffix(2).map(\.general) == ["ONLINE", "OFFLINE"])
        for node in 0..<3 { #expect(try await app.status(of: "ann", node: node).general == "OFFLINE") }
    }

    /// The kernel of this machine acknowledges all that the nodes send, as that of a suspended client does.
    @Test("A client that has promised signs of life is OFFLINE without them over HTTP/1.1, and ONLINE with them at any node")
    func promisedSigns() async throws {
        let app = try await App("rollcall", #"{"liveness.timeout":15,"offlineGrace":0}"#)
        let watcher = try await app.login("watcher", node: 2)
        let names = ["frozen", "lively", "plain"]
        #expect(try await app.call("subscribeUserStatus", users(names), as: "watcher").code == 0)
        let opened = ContinuousClock.now
        var connections: [String: RawConnection] = [:]
        for name in names {
            let connection = try RawConnection(port: app.cluster.nodes[0].ports.client)
            let promise = name == "plain" ? "" : "&alive=client"
            let head = "GET /v1/events?platform=ios\(promise) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(try app.token(name))\r\n\r\n"
            connection.send(Array(head.utf8))
            connections[name] = connection
            try await watcher.status(of: name) { $0.general == "ONLINE" }
        }
        let asked = try await app.admin("queryOnlineStatus", users(["lively"], #""withSessions":true"#))
        let session = try #require(asked.statuses[0]["sessions"]?.elements.first?["sessionID"]?.text)
        // The comments of the node, every five seconds, are the clock of the lively client.
        let lively = try #require(connections["lively"])
        // A call for this alone and any other call with the session are signs.
        let calls = [
            ("alive", ""), ("publishEvent", #","value":10001"#), ("setSelfStatus", #","customStatus":"x""#), ("getFriendList", ""),
            ("getUserStatus", #","userIDs":["watcher"]"#), ("alive", ""),
        ]
        for (turn, (operation, more)) in calls.enumerated() {
            try await lively.receive(until: "\r\n:\n\n")
            let sign = try await app.call(operation, "{\"sessionID\":\"\(session)\"\(more)}", as: "lively", node: turn % 3)
            #expect(sign.code == 0, "\(sign.json)")
        }
        #expect(ContinuousClock.now - opened > .seconds(25))
        try await watcher.status(of: "frozen") { $0.general == "OFFLINE" }
        #expect(watcher.statuses(of: "frozen").compactMap(\.general).suffix(2) == ["ONLINE", "OFFLINE"])
        for name in ["lively", "plain"] {
            #expect(try await app.status(of: name).general == "ONLINE")
            #expect(
                watcher.statuses(of: name).last?.general == "ONLINE" && !watcher.statuses(of: name).contains { $0.general == "OFFLINE" })
        }
        // The signs end, too.
        try await watcher.until("lively is OFFLINE", within: .seconds(25)) { events in
            events.contains { event in
                event.json["userStatusList"]?.elements.contains { $0.user == "lively" && $0.general == "OFFLINE" } == true
            }
        }
        let refused = try await app.call("alive", "{\"sessionID\":\"\(session)\"}", as: "lively", node: 1)
        #expect(refused.code == 6017 && refused.detail.hasPrefix("sessionID: "))
        #expect(try await app.status(of: "plain").general == "ONLINE")
        for connection in connections.values { connection.close() }
    }
}
