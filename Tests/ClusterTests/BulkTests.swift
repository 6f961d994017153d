import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The lists of users for back ends (<doc:HTTPAPI#Operations-of-the-ops-port>), on the ops ports of three nodes.
@Suite(.serialized, .timeLimit(.minutes(3))) struct BulkTests {
    private func admin(
        _ operation: String, _ body: String, of fixture: ServedCluster, node: Int = 0, app: String = "default"
    ) async throws -> JSON {
        let response = try await send(.post, operation, body, of: fixture, node: node, app: app)
        guard response.status == 200 else { throw TestFailure(response.text) }
        return try JSON(response.body)
    }

    private func send(
        _ method: HTTPRequest.Method, _ operation: String, _ body: String?, of fixture: ServedCluster, node: Int = 0,
        app: String = "default"
    ) async throws -> HTTPExchange.Response {
        let token = try signedToken(user: "operator", app: app, isAdmin: true)
        return try await HTTPExchange.send(
            method, host: "127.0.0.1", port: fixture.nodes[node].ports.ops, path: "/admin/v1/\(operation)",
            headers: [("authorization", "Bearer \(token)")], body: body, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// Opens a stream of each user, at the nodes in turn. The sessions end with the result.
    private func logIn(_ users: [String], _ fixture: ServedCluster, app: String = "default") async throws -> [AsyncThrowingStream<
        [UInt8], any Error
    >] {
        var streams: [AsyncThrowingStream<[UInt8], any Error>] = []
        for (number, user) in users.enumerated() {
            let token = try signedToken(user: user, app: app)
            let stream = HTTPExchange.stream(
                host: "127.0.0.1", port: fixture.nodes[number % 3].ports.client, path: "/v1/events?platform=web&deviceID=d\(number)",
                headers: [("authorization", "Bearer \(token)")], on: MultiThreadedEventLoopGroup.singleton.next())
            var iterator = stream.makeAsyncIterator()
            _ = try await iterator.next()
            streams.append(stream)
        }
        return streams
    }

    private func userIDs(_ page: JSON) -> [String] { page["users"]?.elements.compactMap { $0["userID"]?.text } ?? [] }

    @Test("The pages of onlineUsers have each ONLINE user of the app once, at every node, and the number of all")
    func onlineUsers() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let users = (0..<23).map { "user-\($0)" }
        let streams = try await logIn(users, fixture)
        let others = try await logIn(["stranger"], fixture, app: "other")
        for node in 0..<3 {
            try await fixture.until("all users are counted at node \(node)") {
                try await admin("onlineUsers", "{}", of: fixture, node: node)["total"]?.number == 23
            }
            var found: [String] = []
            var cursor: String?
            repeat {
                let body = cursor.map { "{\"limit\":5,\"cursor\":\"\($0)\"}" } ?? #"{"limit":5}"#
                let page = try await admin("onlineUsers", body, of: fixture, node: node)
                #expect(userIDs(page).count <= 5)
                found += userIDs(page)
                cursor = page["cursor"]?.text
            } while cursor != nil
            #expect(found.count == 23 && Set(found) == Set(users), "\(found)")
            let export = try await send(.get, "export", nil, of: fixture, node: node)
            let lines = export.text.split(separator: "\n")
            #expect(try lines.map { try JSON(Array($0.utf8))["userID"]?.text } == found)
        }
        #expect(try await userIDs(admin("onlineUsers", "{}", of: fixture, app: "other")) == ["stranger"])
        for body in [#"{"limit":0}"#, #"{"limit":1001}"#, #"{"cursor":""}"#, #"{"cursor":7}"#] {
            #expect(try await send(.post, "onlineUsers", body, of: fixture).status == 400, "\(body)")
        }
        withExtendedLifetime((streams, others)) {}
        try await fixture.stop()
    }

    @Test("X1: queryOnlineStatus answers 500 users with their sessions") func sessions() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let streams = try await logIn(["ann", "ann", "ben"], fixture)
        let names = ["ann", "ben"] + (0..<498).map { "user-\($0)" }
        let body = "{\"withSessions\":true,\"userIDs\":[\(names.map { "\"\($0)\"" }.joined(separator: ","))]}"
        for node in 0..<3 {
            let answer = try await admin("queryOnlineStatus", body, of: fixture, node: node)
            let list = try #require(answer["userStatusList"]?.elements)
            #expect(list.map { $0["userID"]?.text } == names && answer["errorUserList"]?.elements.isEmpty == true)
            let ann = try #require(list[0]["sessions"]?.elements)
            #expect(ann.map { $0["node"]?.text } == ["n0", "n1"] && ann.map { $0["deviceID"]?.text } == ["d0", "d1"])
            #expect(ann.allSatisfy { $0["platform"]?.text == "web" && $0["since"]?.number ?? 0 > 0 && $0["sessionID"]?.text?.count == 24 })
            #expect(list[1]["sessions"]?.elements.map { $0["node"]?.text } == ["n2"])
            #expect(list.dropFirst(2).allSatisfy { $0["sessions"]?.elements.isEmpty == true })
        }
        #expect(
            try await admin("queryOnlineStatus", #"{"userIDs":["ann"]}"#, of: fixture)["userStatusList"]?.elements[0]["sessions"] == nil)
        withExtendedLifetime(streams) {}
        try await fixture.stop()
    }

    @Test("The operations of clients are on the ops port for the user in asUser, and show what that user sees") func asUser() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let streams = try await logIn(["ann"], fixture)
        #expect(try await fixture.call("setVisibility", #"{"visibility":"nobody"}"#).status == 200)
        for node in 0..<3 {
            let seen = try await admin("getUserStatus", #"{"asUser":"ben","userIDs":["ann"]}"#, of: fixture, node: node)
            #expect(seen["userStatusList"]?.elements[0]["statusType"]?.text != "ONLINE")
            let own = try await admin("getVisibility", #"{"asUser":"ann"}"#, of: fixture, node: node)
            #expect(own["visibility"]?.text == "nobody")
        }
        #expect(try await send(.post, "streamTicket", #"{"asUser":"ann"}"#, of: fixture).status == 404)
        withExtendedLifetime(streams) {}
        try await fixture.stop()
    }

    @Test("recentLoad counts the logins, the changes and the pushes of a node") func recentLoad() async throws {
        let fixture = try await ServedCluster.start()
        let stream = try fixture.events("ann")
        var iterator = stream.makeAsyncIterator()
        _ = try await iterator.next()
        for number in 0..<3 { #expect(try await fixture.call("setSelfStatus", "{\"customStatus\":\"\(number)\"}").status == 200) }
        try await fixture.until("the samples have the login, the four changes and the pushes") {
            let samples = try await admin("recentLoad", "{}", of: fixture)["samples"]?.elements ?? []
            let sum = { (name: String) in samples.reduce(0) { $0 + ($1[name]?.number ?? 0) } }
            return sum("logins") == 1 && sum("changes") == 4 && sum("pushes") >= 3 && samples.last?["sessions"]?.number == 1
        }
        withExtendedLifetime(stream) {}
        try await fixture.stop()
    }

    @Test("The console and the JavaScript client are served with the headers that protect them") func assets() async throws {
        let fixture = try await ServedCluster.start()
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let folder = root.appending(path: "Sources/Console")
        var bytesCount = 0
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let path = name == "index.html" ? "/console" : "/console/\(name)"
            let served = try await HTTPExchange.send(
                .get, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: path, on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(try served.status == 200 && served.body == Array(Data(contentsOf: folder.appending(path: name))), "\(path)")
            bytesCount += served.body.count
        }
        #expect((1...200 << 10).contains(bytesCount), "\(bytesCount)")
        let head = try await run("curl", ["-s", "-i", "http://127.0.0.1:\(fixture.nodes[0].ports.ops)/console"]).output
        #expect(head.contains("content-security-policy: default-src 'none'; script-src 'self'") && head.contains("nosniff"))
        let client = try await run("curl", ["-s", "-i", "-L", "http://127.0.0.1:\(fixture.nodes[0].ports.client)/client.js"]).output
        #expect(client.contains("location: /client.") && client.contains("cache-control: public, max-age=31536000, immutable"))
        #expect(try client.hasSuffix(String(contentsOf: root.appending(path: "Sources/WebClient/client.js"), encoding: .utf8)))
        #expect(
            try await HTTPExchange.send(
                .get, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/console/../openapi.json",
                on: MultiThreadedEventLoopGroup.singleton.next()
            ).status == 404)
        try await fixture.stop()
    }
}
