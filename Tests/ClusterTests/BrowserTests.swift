import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The calls of pages in browsers (<doc:HTTPAPI#Browsers>).
@Suite(.serialized, .timeLimit(.minutes(3))) struct BrowserTests {
    private static let versions = ["--http1.1", "--http2-prior-knowledge"]

    /// Sends a request with curl and returns the status, the fields by lower-case name, and the rest of the output.
    private func request(_ flags: [String], _ path: String, _ fixture: ServedCluster, node: Int = 0) async throws
        -> (status: Int, fields: [String: String], body: String)
    {
        let result = try await run("curl", flags + ["-s", "-i", "http://127.0.0.1:\(fixture.nodes[node].ports.client)\(path)"])
        let parts = result.output.components(separatedBy: "\r\n\r\n")
        let lines = parts[0].components(separatedBy: "\r\n")
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[line[..<colon].lowercased()] = line[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
        }
        let status = lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return (status, fields, parts.dropFirst().joined(separator: "\r\n\r\n"))
    }

    private func preflight(_ version: String, from origin: String, _ fixture: ServedCluster) async throws -> [String: String] {
        let answer = try await request(
            [
                version, "-X", "OPTIONS", "-H", "Origin: \(origin)", "-H", "Access-Control-Request-Method: POST", "-H",
                "Access-Control-Request-Headers: authorization,content-type",
            ], "/v1/getUserStatus", fixture)
        #expect(answer.status == 204 && answer.body.isEmpty, "\(version): \(answer)")
        return answer.fields
    }

    @Test("A preflight is answered with 204; an allowed origin gets the methods and headers for 600 s", arguments: versions)
    func preflights(version: String) async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_CORS_ORIGINS": "https://app.example.com"])
        for origin in ["https://app.example.com", "http://localhost:5173"] {
            let fields = try await preflight(version, from: origin, fixture)
            #expect(fields["access-control-allow-origin"] == origin && fields["access-control-max-age"] == "600")
            #expect(fields["access-control-allow-headers"] == "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Traceparent")
            #expect(fields["access-control-allow-methods"] == "GET, POST" && fields["vary"] == "Origin")
            #expect(fields["content-length"] == nil)
        }
        let fields = try await preflight(version, from: "https://evil.example", fixture)
        #expect(!fields.keys.contains { $0.hasPrefix("access-control") }, "\(fields)")
        try await fixture.stop()
    }

    @Test("The log names the origin of pages that are not allowed once, and no text that is no origin", arguments: versions)
    func refusedOrigin(version: String) async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_CORS_ORIGINS": "https://app.example.com"])
        for origin in ["https://app.example.com", "https://staging.example.com", "https://staging.example.com", "null", "https://x y"] {
            _ = try await preflight(version, from: origin, fixture)
        }
        let node = fixture.nodes[0]
        try await node.until("the last origin is named") { node.log.contains("origin=null") }
        // Not the origin of another request: a proxy may serve its pages beside the node.
        let call = [version, "-H", "Origin: https://beside.example.com", "-d", "{}"]
        #expect(try await request(call, "/v1/getUserStatus", fixture).status == 401)
        try await fixture.stop()
        let lines = node.log.split(separator: "\n").filter { $0.contains("corsOrigins does not allow") }
        #expect(lines.count == 2 && lines[0].contains("origin=https://staging.example.com"), "\(lines)")
    }

    @Test("Answers, refusals and streams name the allowed origin, and no other", arguments: versions)
    func answers(version: String) async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_CORS_ORIGINS": "*"])
        let token = "Authorization: Bearer \(try signedToken(user: "ann"))"
        let page = ["-H", "Origin: https://any.example"]
        let call = [version, "-H", token, "-d", #"{"userIDs":["ben"]}"#]
        for (flags, path, status) in [
            (call + page, "/v1/getUserStatus", 200), ([version, "-d", "{}"] + page, "/v1/getUserStatus", 401),
            (call + page, "/v1/nothing", 404), ([version, "-m", "5", "-H", token] + page, "/v1/events?platform=web", 200),
        ] {
            let answer = try await request(flags, path, fixture)
            #expect(answer.status == status && answer.fields["access-control-allow-origin"] == "*", "\(path): \(answer)")
            #expect(answer.fields["access-control-expose-headers"] == "Retry-After, Request-ID")
        }
        #expect(try await request(call, "/v1/getUserStatus", fixture).fields["access-control-allow-origin"] == nil)
        try await fixture.stop()
    }

    @Test("Where CORS is configured, each answer tells caches that it depends on the origin, and elsewhere none does", arguments: versions)
    func vary(version: String) async throws {
        let token = "Authorization: Bearer \(try signedToken(user: "ann", secret: ServedNode.secret))"
        let origins: [String?] = [nil, "https://app.example.com", "https://evil.example"]
        for variables in [["ROLLCALL_CORS_ORIGINS": "https://app.example.com"], ["ROLLCALL_CORS_ORIGINS": "*"], [:]] {
            let node = try await ServedNode.serving([], variables)
            let fixture = ServedCluster(nodes: [node], folder: node.folder)
            for origin in origins {
                let page = [version] + (origin.map { ["-H", "Origin: \($0)"] } ?? [])
                for (flags, path, status) in [
                    (["-H", token, "-d", #"{"userIDs":["ben"]}"#], "/v1/getUserStatus", 200), (["-d", "{}"], "/v1/getUserStatus", 401),
                    ([], "/v1/nothing", 404), (["-m", "1", "-H", token], "/v1/events?platform=web", 200),
                ] {
                    let answer = try await request(page + flags, path, fixture)
                    let varies = answer.fields["vary"] == "Origin"
                    #expect(answer.status == status && varies == !variables.isEmpty, "\(path) from \(origin ?? "nowhere"): \(answer)")
                }
            }
            try await node.stop()
        }
    }

    @Test("An event stream tells proxies not to store, change or delay it", arguments: versions) func streamHead(version: String)
        async throws
    {
        let fixture = try await ServedCluster.start()
        let token = "Authorization: Bearer \(try signedToken(user: "ann"))"
        let answer = try await request([version, "-m", "3", "-H", token], "/v1/events", fixture)
        #expect(answer.fields["cache-control"] == "no-store, no-transform" && answer.fields["x-accel-buffering"] == "no")
        #expect(answer.body.contains("event: onConnected"))
        try await fixture.stop()
    }

    private func ticket(of user: String, tokenAge: Int = 0, _ fixture: ServedCluster) async throws -> String {
        let answer = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[0].ports.client, path: "/v1/streamTicket",
            headers: [("authorization", "Bearer \(try signedToken(user: user, age: tokenAge))")],
            on: MultiThreadedEventLoopGroup.singleton.next())
        let json = try JSON(answer.body)
        #expect(answer.status == 200 && json["expiresInSeconds"]?.number == 30)
        return try #require(json["ticket"]?.text)
    }

    @Test("A stream ticket opens one stream of its user, at any node of the cluster") func ticketOpensOnce() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        for node in 0..<3 {
            let ticket = try await ticket(of: "ann", fixture)
            let stream = HTTPExchange.stream(
                host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/events?ticket=\(ticket)&platform=web", headers: [],
                on: MultiThreadedEventLoopGroup.singleton.next())
            var text = ""
            for try await piece in stream {
                text += String(decoding: piece, as: UTF8.self)
                if text.contains("\n\n") { break }
            }
            #expect(text.hasPrefix("event: onConnected") && text.contains(#""userID":"ann""#), "\(text)")
            for other in 0..<3 {
                let second = try await request(["-m", "5"], "/v1/events?ticket=\(ticket)", fixture, node: other)
                #expect(second.status == 401 && second.body.contains(#""code":6014"#), "\(second)")
            }
        }
        let changed = try await ticket(of: "ann", fixture).replacing("YW5u", with: "YmVu")
        #expect(try await request([], "/v1/events?ticket=\(changed)", fixture).status == 401)
        #expect(try await request([], "/v1/events?ticket=nothing", fixture).status == 401)
        try await fixture.stop()
    }

    @Test("A user who requests tickets without end is refused with 7008, and another user or app is not") func ticketLimit() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        var refused: (status: Int, json: JSON)?
        var takenCount = 0
        while refused == nil, takenCount <= 200 {
            let answer = try await fixture.call("streamTicket", "{}", node: takenCount % 3)
            if answer.status == 200 { takenCount += 1 } else { refused = answer }
        }
        #expect((1...200).contains(takenCount))
        #expect(refused?.status == 429 && refused?.json["code"]?.number == 7008, "\(String(describing: refused))")
        #expect((1...30).contains(refused?.json["retryAfter"]?.number ?? 0))
        for node in 0..<3 { #expect(try await fixture.call("streamTicket", "{}", as: "ben", node: node).status == 200) }
        // The user of the same name in another app.
        let other = try await fixture.call("streamTicket", "{}", app: "other")
        let ticket = try #require(other.json["ticket"]?.text, "\(other.json)")
        let stream = try await request(["-m", "5"], "/v1/events?ticket=\(ticket)", fixture, node: 1)
        #expect(stream.status == 200 && stream.body.hasPrefix("event: onConnected"), "\(stream)")
        try await fixture.stop()
    }

    @Test("No ticket, token or secret is in the log of a node, at the level trace", arguments: ["text", "json"])
    func silentLog(format: String) async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_LOG_LEVEL": "trace", "ROLLCALL_LOG_FORMAT": format])
        let secret = "a secret of the webhooks of this app"
        try await fixture.setPolicy(#"{"webhook.url":"http://127.0.0.1:9/hook?key=of-the-query","webhook.secret":"\#(secret)"}"#)
        let ticket = try await ticket(of: "ann", fixture)
        let token = try signedToken(user: "ben")
        let streams = [
            HTTPExchange.stream(
                host: "127.0.0.1", port: fixture.nodes[0].ports.client, path: "/v1/events?ticket=\(ticket)&platform=web", headers: [],
                on: MultiThreadedEventLoopGroup.singleton.next()),
            HTTPExchange.stream(
                host: "127.0.0.1", port: fixture.nodes[0].ports.client, path: "/v1/events?platform=web",
                headers: [("authorization", "Bearer \(token)")], on: MultiThreadedEventLoopGroup.singleton.next()),
        ]
        for stream in streams {
            for try await piece in stream where String(decoding: piece, as: UTF8.self).contains("onConnected") { break }
        }
        for (query, header) in [("ticket=\(ticket)", ""), ("ticket=\(ticket).", ""), ("platform=web", "Bearer \(token)=")] {
            var headers: [(name: StaticString, value: String)] = []
            if !header.isEmpty { headers.append((name: "authorization", value: header)) }
            let refused = try await HTTPExchange.send(
                .get, host: "127.0.0.1", port: fixture.nodes[0].ports.client, path: "/v1/events?\(query)", headers: headers,
                on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(refused.status == 401)
        }
        try await fixture.nodes[0].until("a delivery of a webhook failed") { fixture.nodes[0].log.contains("webhook") }
        try await fixture.stop()
        let log = fixture.nodes[0].log
        for text in [ticket, token, secret, developmentSecret, "of-the-query"] { #expect(!log.contains(text), "\(text)") }
    }

    @Test("A kick voids the tickets that older tokens have requested") func kick() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let ticket = try await ticket(of: "ann", tokenAge: 1, fixture)
        let admin = try signedToken(user: "ops", isAdmin: true)
        let kicked = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[1].ports.ops, path: "/admin/v1/kick",
            headers: [("authorization", "Bearer \(admin)")], body: #"{"userID":"ann"}"#, on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(kicked.status == 200, "\(kicked.text)")
        for node in 0..<2 {
            #expect(try await request([], "/v1/events?ticket=\(ticket)", fixture, node: node).status == 401)
        }
        try await fixture.stop()
    }

    @Test("A stream with comments=true carries comments over HTTP/2 in the interval of heartbeats") func comments() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_HEARTBEAT_INTERVAL": "1"])
        var text = ""
        for try await piece in try fixture.events("ann", query: "platform=web&comments=true") {
            text += String(decoding: piece, as: UTF8.self)
            if text.components(separatedBy: "\n\n:\n\n").count > 2 { break }
        }
        #expect(text.contains("event: onConnected"))
        try await fixture.stop()
    }

    @Test("A stream with heartbeat=2 carries comments every two seconds, says so first, and an interval out of range is refused")
    func heartbeat() async throws {
        let fixture = try await ServedCluster.start()
        var text = ""
        let start = ContinuousClock.now
        for try await piece in try fixture.events("ann", query: "platform=web&heartbeat=2") {
            text += String(decoding: piece, as: UTF8.self)
            if text.components(separatedBy: "\n\n:\n\n").count > 2 { break }
        }
        let time = ContinuousClock.now - start
        #expect(text.contains(#""heartbeatInterval":2,"#) && time >= .seconds(4) && time < .seconds(20), "\(time)")
        for try await piece in try fixture.events("ann") {
            #expect(String(decoding: piece, as: UTF8.self).contains(#""heartbeatInterval":30,"#))
            break
        }
        let url = "http://127.0.0.1:\(fixture.nodes[0].ports.client)/v1/events?heartbeat="
        for value in ["1", "61", "2.5", ""] {
            let refused = try await run("curl", ["-s", "-H", "Authorization: Bearer \(try signedToken(user: "ann"))", url + value])
            #expect(refused.output.contains("heartbeat: must be an integer from 2 to 60") && refused.output.contains("6017"), "\(refused)")
        }
        try await fixture.stop()
    }
}
