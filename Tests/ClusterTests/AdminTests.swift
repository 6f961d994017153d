import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The back end's operations (<doc:HTTPAPI#Operations-of-the-ops-port>), on the ops ports of three nodes.
@Suite struct AdminTests {
    @Test("Every node applies a policy once the call is answered") func policy() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let answer = try await fixture.admin("setAppPolicy", #"{"preset":"tencent","settings":{"userStatus.enabled":false}}"#, node: 1)
        #expect(answer.status == 200)
        #expect(answer.json["settings"]?["subscription.maxPerSubscriber"]?.number == 200)
        for node in 0..<3 {
            let refused = try await fixture.call("getUserStatus", #"{"userIDs":["bob"]}"#, node: node)
            #expect(refused.status == 403)
            #expect(refused.json["code"]?.number == 72001)
            #expect(try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, node: node).status == 200)
            #expect(try await fixture.admin("getAppPolicy", "{}", node: node).json == answer.json)
        }
        let unknown = try await fixture.admin("setAppPolicy", #"{"settings":{"quota":3}}"#, node: 2)
        #expect(unknown.status == 400)
        #expect(unknown.json["detail"]?.text?.hasPrefix("quota: no such setting") == true)
        #expect(try await fixture.admin("getAppPolicy", "{}").json == answer.json)
        #expect(try await fixture.admin("setAppPolicy", #"{"app":"other","preset":"zim"}"#).status == 400)
        try await fixture.stop()
    }

    @Test("Only a dead member can be removed from the cluster") func removeLivingMember() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let members = try await fixture.admin("clusterStatus", "{}").json["members"]?.elements.compactMap { $0["node"]?.text } ?? []
        #expect(members.count == 2)
        for member in members {
            let answer = try await fixture.admin("forget", "{\"node\":\"\(member)\"}")
            #expect(answer.status == 409 && answer.json["detail"]?.text?.hasPrefix("node: \"\(member)\" is alive") == true)
        }
        #expect(try await fixture.admin("forget", #"{"node":"nobody"}"#).status == 404)
        #expect(try await fixture.admin("forget", "{}").json["detail"]?.text?.hasPrefix("node: is missing") == true)
        #expect(try await fixture.admin("clusterStatus", "{}").json["members"]?.elements.count == 2)
        try await fixture.stop()
    }

    @Test("A kicked user needs a token that was issued later") func kick() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let token = try signedToken(user: "ann", age: 1)
        let call = { (token: String, node: Int) in
            try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/getUserStatus",
                headers: [("authorization", "Bearer \(token)")], body: #"{"userIDs":["ann"]}"#,
                on: MultiThreadedEventLoopGroup.singleton.next()
            ).status
        }
        var stream = try fixture.events("ann", node: 2).makeAsyncIterator()
        _ = try await stream.next()
        for node in 0..<3 { #expect(try await call(token, node) == 200) }
        #expect(try await fixture.admin("kick", #"{"userID":"ann","reason":"banned"}"#, node: 1).status == 200)
        var said = ""
        while let part = try await stream.next() { said += String(decoding: part, as: UTF8.self) }
        #expect(said.contains("event: onKickedOffline"))
        #expect(said.contains(#""reason":"banned""#))
        for node in 0..<3 { #expect(try await call(token, node) == 401) }
        let later = try signedToken(user: "ann")
        for node in 0..<3 { #expect(try await call(later, node) == 200) }
        let found = try await fixture.admin("queryOnlineStatus", #"{"userIDs":["ann"]}"#, node: 2).json
        #expect(found["userStatusList"]?.elements.map { $0["statusType"]?.text } == ["OFFLINE"])
        try await fixture.stop()
    }

    @Test("Kicks of one app never end those of another, and a kick beyond the app's limit is an error") func kicksOfApps() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let token = try signedToken(user: "ann", age: 5)
        let call = { (node: Int) in
            try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/getUserStatus",
                headers: [("authorization", "Bearer \(token)")], body: #"{"userIDs":["ann"]}"#,
                on: MultiThreadedEventLoopGroup.singleton.next()
            ).status
        }
        #expect(try await fixture.admin("kick", #"{"userID":"ann"}"#).status == 200)
        #expect(try await fixture.admin("setAppPolicy", #"{"settings":{"kicks.max":20}}"#, app: "b").status == 200)
        for number in 0..<20 {
            #expect(try await fixture.admin("kick", "{\"userID\":\"user\(number)\"}", app: "b", node: number % 3).status == 200)
        }
        for node in 0..<3 {
            let refused = try await fixture.admin("kick", #"{"userID":"one more"}"#, app: "b", node: node)
            #expect(refused.status == 429 && refused.json["code"]?.number == 7008, "\(refused.json)")
            #expect(refused.json["detail"]?.text?.contains("kicks.max") == true && refused.json["retryAfter"]?.number == 3_600)
            #expect(try await fixture.admin("kick", #"{"userID":"user0"}"#, app: "b", node: node).status == 200)
            #expect(try await fixture.admin("kick", "{\"userID\":\"bob\(node)\"}", node: node).status == 200)
            #expect(try await call(node) == 401)
        }
        try await fixture.stop()
    }

    @Test("A kicked back end's token does nothing on the ops port") func kickedBackEnd() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let token = try signedToken(user: "back end", isAdmin: true, age: 5)
        let call = { (operation: String, body: String, node: Int) in
            try await HTTPExchange.send(
                ["export", "backup"].contains(operation) ? .get : .post, host: "127.0.0.1", port: fixture.nodes[node].ports.ops,
                path: "/admin/v1/\(operation)", headers: [("authorization", "Bearer \(token)")], body: body,
                on: MultiThreadedEventLoopGroup.singleton.next())
        }
        let operations = [
            ("setAppPolicy", #"{"settings":{"offlineGrace":7}}"#), ("getAppPolicy", "{}"), ("kick", #"{"userID":"ann"}"#),
            ("recentLoad", "{}"), ("export", ""), ("backup", ""), ("clusterStatus", "{}"), ("deleteUser", #"{"userID":"eve"}"#),
            ("setSelfStatus", #"{"asUser":"ann","customStatus":"x"}"#), ("exportUser", #"{"userID":"ann"}"#), ("reloadKeys", "{}"),
            ("importFacts", #"{"userID":"zoe","facts":[{"kind":"friend","key":"yan","value":{"addTime":1,"remark":""}}]}"#),
            ("drain", "{}"), ("forget", #"{"node":"x"}"#),
        ]
        for node in 0..<3 {
            for (operation, body) in operations where !["kick", "drain", "forget"].contains(operation) {
                #expect(try await call(operation, body, node).status == 200, "\(operation)")
            }
        }
        try await fixture.setPolicy(#"{"offlineGrace":null}"#)
        #expect(try await fixture.admin("kick", #"{"userID":"back end"}"#, node: 1).status == 200)
        for node in 0..<3 {
            for (operation, body) in operations {
                let refused = try await call(operation, body, node)
                #expect(refused.status == 401 && refused.text.contains("the user was kicked"), "\(operation): \(refused.text)")
            }
        }
        #expect(try await fixture.admin("getAppPolicy", "{}").json["settings"]?["offlineGrace"]?.number == 2)
        let later = try signedToken(user: "back end", isAdmin: true)
        let answer = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[2].ports.ops, path: "/admin/v1/getAppPolicy",
            headers: [("authorization", "Bearer \(later)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(answer.status == 200)
        try await fixture.stop()
    }

    @Test("A query beyond the rate limit is refused, except for a back end") func rateLimit() async throws {
        // A span that a busy machine does not leave behind: five seconds are tried in virtual time.
        let fixture = try await ServedCluster.start()
        try await fixture.setPolicy(#"{"rate.query":{"calls":20,"seconds":3600}}"#)
        var last = (status: 0, json: JSON.null)
        for _ in 0..<21 { last = try await fixture.call("getUserStatus", #"{"userIDs":["bob"]}"#) }
        #expect(last.status == 429)
        #expect(last.json["code"]?.number == 7008)
        #expect((1...3_600).contains(last.json["retryAfter"]?.number ?? 0))
        #expect(try await fixture.call("getUserStatus", #"{"userIDs":["bob"]}"#, as: "carl").status == 200)
        for _ in 0..<21 { #expect(try await fixture.admin("queryOnlineStatus", #"{"userIDs":["bob"]}"#).status == 200) }
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_calls_rate_limited_total 1\n"))
        try await fixture.stop()
    }

    @Test("An explanation names the sessions, the subscription and the versions on the way") func explain() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let ann = try fixture.events("ann", node: 0)
        let bob = try fixture.events("bob", node: 1, query: "platform=web")
        #expect(try await fixture.call("subscribeUserStatus", #"{"userIDs":["ann"]}"#, as: "bob", node: 2).status == 200)
        let ask = { try await fixture.admin("explain", #"{"viewer":"bob","target":"ann"}"#, node: 2).json }
        try await fixture.until("bob's node holds what ann's owner has") {
            let said = try await ask()
            let version = said["ownerOfTarget"]?["userStatus"]?["version"]?.text
            let shown = said["nodes"]?.elements.first { $0["viewerSessions"]?.number == 1 }
            return said["ownerOfTarget"]?["sessions"]?.elements.count == 1 && shown?["versionHeld"]?.text == version
        }
        let said = try await ask()
        #expect(said["ownerOfTarget"]?["because"]?.elements.map(\.text) == ["a session is open: ios on n0"])
        #expect(said["ownerOfTarget"]?["watchedByNodes"]?.elements.contains(.string("n1")) == true)
        #expect(said["ownerOfViewer"]?["because"]?.elements.first?.text?.hasPrefix("the viewer follows the target since ") == true)
        #expect(said["ownerOfViewer"]?["sessions"]?.elements.map { $0["node"]?.text } == ["n1"])
        #expect(said["nodes"]?.elements.count == 3)
        #expect(try await fixture.admin("explain", #"{"viewer":"bob"}"#).status == 400)
        _ = (ann, bob)
        try await fixture.stop()
    }

    @Test("The nodes of an explanation count each follower of the target once") func followers() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let followers = (0..<12).map { "follower-\($0)" }
        for (number, follower) in followers.enumerated() {
            let body = #"{"userIDs":["ann"]}"#
            #expect(try await fixture.call("subscribeUserStatus", body, as: follower, node: number % 3).status == 200)
        }
        let counts = { (node: Int) in
            try await fixture.admin("explain", #"{"viewer":"bob","target":"ann"}"#, node: node).json["nodes"]?.elements
                .compactMap { $0["followersOfTarget"]?.number } ?? []
        }
        for node in 0..<3 {
            let found = try await counts(node)
            #expect(found.count == 3 && found.reduce(0, +) == followers.count, "\(found)")
        }
        #expect(try await fixture.call("unsubscribeUserStatus", #"{"userIDs":["ann"]}"#, as: followers[4]).status == 200)
        #expect(try await counts(1).reduce(0, +) == followers.count - 1)
        try await fixture.stop()
    }

    @Test("clusterLoad has each live node once, and counts each user, session and listener once") func clusterLoad() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        // A stream that hears without being seen is no session, and its user is not ONLINE.
        let sessions = try (0..<7).map { try fixture.events("user-\($0)", node: $0 % 3) }
        let streams = sessions + [try fixture.events("bot", node: 1, query: "presence=none")]
        var iterators = streams.map { $0.makeAsyncIterator() }
        for index in iterators.indices { _ = try await iterators[index].next() }
        let sum = { (nodes: [JSON], field: String) in nodes.compactMap { $0[field]?.number }.reduce(0, +) }
        for node in 0..<3 {
            var nodes: [JSON] = []
            try await fixture.until("node \(node) counts every user and stream") {
                nodes = try await fixture.admin("clusterLoad", "{}", node: node).json["nodes"]?.elements ?? []
                let users = ["usersOnline", "usersOnlineOfApp", "sessions", "logins"].map { sum(nodes, $0) }
                return users == [7, 7, 7, 7] && sum(nodes, "listeners") == 1
            }
            #expect(nodes.map { $0["node"]?.text } == ["n0", "n1", "n2"])
            #expect(nodes.map { $0["sessions"]?.number } == [3, 2, 2])
            #expect(nodes.map { $0["listeners"]?.number } == [0, 1, 0])
            let others = try await fixture.admin("clusterLoad", "{}", app: "other", node: node).json["nodes"]?.elements ?? []
            #expect(sum(others, "usersOnline") == 7 && sum(others, "usersOnlineOfApp") == 0)
            #expect(sum(nodes, "logouts") == 0 && sum(nodes, "lost") == 0)
            for load in nodes {
                #expect(load["webhook"]?["isCircuitOpen"] == .bool(false))
                #expect(load["webhook"]?["failuresInARow"]?.number == 0 && load["webhook"]?["bytesWaiting"]?.number == 0)
                #expect(load["webhooksOfAllApps"]?["failed"]?.number == 0)
            }
        }
        let own = try signedToken(user: "ann")
        let refused = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/clusterLoad",
            headers: [("authorization", "Bearer \(own)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(refused.status == 403)
        _ = iterators
        try await fixture.stop()
    }
}
