import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The codes of <doc:HTTPAPI#Errors> for a wrong path, a wrong method and a wrong role.
@Suite(.timeLimit(.minutes(2))) struct RefusedPathTests {
    @Test("On every port a path that is not there has code 404, and a method that a path does not have has code 405")
    func pathsAndMethods() async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let refused: [(port: Int, method: HTTPRequest.Method, path: String, status: Int)] = [
            (ports.client, .post, "/v1/nothing", 404), (ports.client, .get, "/", 404), (ports.client, .get, "/v1/getUserStatus", 405),
            (ports.client, .post, "/v1/events", 405), (ports.client, .post, "/openapi.json", 405),
            (ports.ops, .get, "/nothing", 404), (ports.ops, .post, "/admin/v1/nothing", 404), (ports.ops, .post, "/metrics", 405),
            (ports.ops, .post, "/healthz", 405), (ports.ops, .post, "/readyz", 405), (ports.ops, .get, "/admin/v1/clusterStatus", 405),
            (ports.cluster, .post, "/v1/getUserStatus", 404), (ports.cluster, .get, "/cluster/v1/hello", 405),
            (ports.cluster, .get, "/cluster/v1/proof", 405), (ports.cluster, .get, "/cluster/v1/batch/0", 405),
            (ports.cluster, .get, "/cluster/v1/trial", 405),
        ]
        for (port, method, path, status) in refused {
            let answer = try await HTTPExchange.send(
                method, host: "127.0.0.1", port: port, path: path, body: method == .post ? "{}" : nil,
                on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(answer.status == status, "\(method) \(path)")
            let problem = try JSON(answer.body)
            #expect(problem["code"]?.number == Int64(status) && problem["status"]?.number == Int64(status), "\(method) \(path)")
            #expect(problem["detail"]?.text?.isEmpty == false && problem["title"]?.text != "refused", "\(method) \(path)")
        }
        try await fixture.stop()
    }

    @Test("The JavaScript client has only GET and HEAD", arguments: ["--http1.1", "--http2-prior-knowledge"])
    func clientMethods(version: String) async throws {
        let fixture = try await ServedCluster.start()
        let client = "http://127.0.0.1:\(fixture.nodes[0].ports.client)"
        let script = try await run("curl", ["-sS", "-o", "/dev/null", "-w", "%{redirect_url}", "\(client)/client.js"]).output
        for url in ["\(client)/client.js", script] {
            for method in ["POST", "DELETE", "PUT"] {
                let answer = try await head(url, [version, "-X", method])
                #expect(answer.contains { $0.hasSuffix(" 405 method not allowed") || $0.hasSuffix("/2 405 ") || $0.hasSuffix("/2 405") })
                #expect(answer.contains("allow: get, head"), "\(method) \(url): \(answer)")
            }
        }
        #expect(try await head("\(client)/client.0123456789abcdef.js", [version, "-X", "DELETE"]).contains { $0.contains(" 404") })
        try await fixture.stop()
    }

    /// The status line and the fields of an answer, sorted; without those that differ from request to request.
    private func head(_ url: String, _ arguments: [String]) async throws -> [String] {
        let done = try await run("curl", ["-sS", "-o", "/dev/null", "-D", "-"] + arguments + [url])
        let lines = done.output.split(whereSeparator: \.isNewline).map { $0.lowercased() }
        return lines.filter { !$0.hasPrefix("date: ") && !$0.hasPrefix("request-id: ") }.sorted()
    }

    @Test(
        "HEAD has the same fields as GET, the length of the content included",
        arguments: ["--http1.1", "--http2-prior-knowledge"], ["identity", "gzip"])
    func sameFields(version: String, coding: String) async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let (client, ops) = ("http://127.0.0.1:\(ports.client)", "http://127.0.0.1:\(ports.ops)")
        let redirect = try await head("\(client)/client.js", [version])
        let script = try #require(redirect.first { $0.hasPrefix("location: ") }).dropFirst("location: ".count)
        for url in [
            "\(ops)/healthz", "\(ops)/readyz", "\(ops)/readyz?verbose", "\(ops)/openapi.json", "\(client)/openapi.json",
            "\(ops)/console", "\(ops)/console/console.js", "\(ops)/console/console.css", "\(client)/client.js", "\(client)\(script)",
            "\(ops)/nothing", "\(ops)/metrics",
        ] {
            var (get, asked) = (
                try await head(url, [version, "-H", "Accept-Encoding: \(coding)"]),
                try await head(url, [version, "--head", "-H", "Accept-Encoding: \(coding)"])
            )
            #expect(asked.contains { $0.hasPrefix("content-length: ") }, "\(url): \(asked)")
            if url.hasSuffix("/metrics") {
                // The metrics have changed meanwhile, and so may their length.
                for index in get.indices where get[index].hasPrefix("content-length: ") { get[index] = "content-length" }
                for index in asked.indices where asked[index].hasPrefix("content-length: ") { asked[index] = "content-length" }
            }
            #expect(!get.isEmpty && get == asked, "\(version) \(coding) \(url)")
        }
        try await fixture.stop()
    }

    @Test(
        "HEAD of the event stream, of the export and of the backup has the head of GET, and begins none of them",
        arguments: ["--http1.1", "--http2-prior-knowledge"])
    func headOfStreams(version: String) async throws {
        let fixture = try await ServedCluster.start()
        let node = fixture.nodes[0]
        let events = "http://127.0.0.1:\(node.ports.client)/v1/events"
        let (export, backup) = (
            "http://127.0.0.1:\(node.ports.ops)/admin/v1/export", "http://127.0.0.1:\(node.ports.ops)/admin/v1/backup"
        )
        let user = ["-H", "Authorization: Bearer \(try signedToken(user: "ann"))"]
        let admin = ["-H", "Authorization: Bearer \(try signedToken(user: "ops", isAdmin: true))", "-H", "Accept-Encoding: gzip"]
        for (url, token, status) in [
            ("\(events)?platform=web", user, 200), (events, [], 401), ("\(events)?deviceID=%00", user, 400),
            ("\(events)?ticket=abc", [], 401), (export, admin, 200), ("\(export)?kind=all", admin, 200), (export, [], 401),
            (export, user, 403), ("\(export)?kind=none", admin, 400), (backup, admin, 200), (backup, [], 401), (backup, user, 403),
        ] as [(String, [String], Int)] {
            let asked = try await head(url, [version, "--head"] + token)
            #expect(asked.contains { $0.contains(" \(status)") && $0.hasPrefix("http/") }, "\(url): \(asked)")
            // The refusal of a ticket names another reason.
            guard !url.contains("ticket") else { continue }
            // A stream does not end by itself.
            #expect(try await head(url, [version, "--no-show-error", "-m", "3"] + token) == asked, "\(version) \(url)")
        }
        // Each login was that of a GET, which has ended.
        let metrics = try await node.metricsText()
        #expect(metrics.contains(/\nrollcall_logins_total[^\n]* 1\n/), "\(metrics)")
        try await fixture.stop()
    }

    @Test("HEAD has the head of the answer to GET and no body, over both versions of HTTP")
    func head() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let ports = fixture.nodes[0].ports
        let paths = [
            (ports.ops, "/readyz"), (ports.ops, "/healthz"), (ports.ops, "/metrics"), (ports.client, "/openapi.json"),
            (ports.ops, "/console"),
        ]
        for (port, path) in paths {
            let url = "http://127.0.0.1:\(port)\(path)"
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let head = try await run("curl", ["-sS", "--head", "-w", "%{http_code} %{size_download}", version, url])
                #expect(head.status == 0 && head.output.hasSuffix("200 0"), "\(version) \(path): \(head.output)")
                #expect(head.output.lowercased().contains(/content-length: [1-9]/), "\(version) \(path): \(head.output)")
            }
        }
        let script = try await run("curl", ["-sS", "--head", "http://127.0.0.1:\(ports.client)/client.js"])
        #expect(script.status == 0 && script.output.contains(" 30"), "\(script.output)")
        let refused = try await run("curl", ["-sS", "--head", "http://127.0.0.1:\(ports.client)/v1/getUserStatus"])
        #expect(refused.output.hasPrefix("HTTP/1.1 405"), "\(refused.output)")
        try await fixture.stop()
    }

    @Test("Each answer of the API ends with one line feed, which its length counts, over both versions of HTTP")
    func lineFeed() async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let (user, ops) = (try signedToken(user: "ann"), try fixture.nodes[0].token(user: "ops", isAdmin: true))
        let calls: [(port: Int, path: String, token: String, body: String?, status: Int)] = [
            (ports.client, "/v1/getUserStatus", user, #"{"userIDs":["ann"]}"#, 200), (ports.client, "/v1/getUserStatus", user, "{", 400),
            (ports.client, "/v1/getUserStatus", "x", "{}", 401), (ports.client, "/openapi.json", user, nil, 200),
            (ports.client, "/v1/nothing", user, "{}", 404), (ports.ops, "/admin/v1/clusterStatus", ops, "{}", 200),
            (ports.ops, "/admin/v1/nothing", ops, "{}", 404), (ports.ops, "/openapi.json", user, nil, 200),
        ]
        for (port, path, token, body, status) in calls {
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let data = body.map { ["-d", $0] } ?? []
                let arguments = [
                    "-sS", "-H", "Authorization: Bearer \(token)", "-w", "%{http_code} %header{content-length} %{size_download}",
                ]
                let answer = try await run("curl", arguments + [version] + data + ["http://127.0.0.1:\(port)\(path)"])
                let lines = answer.output.split(separator: "\n", omittingEmptySubsequences: false)
                #expect(lines.count == 2 && lines[0].hasSuffix("}"), "\(version) \(path): \(answer.output)")
                let bytesCount = lines[0].utf8.count + 1
                #expect(lines.last ?? "" == "\(status) \(bytesCount) \(bytesCount)", "\(version) \(path): \(answer.output)")
            }
        }
        try await fixture.stop()
    }

    @Test("A valid user token is not allowed on the ops port: 403. A bad token is not logged in: 401") func roles() async throws {
        let fixture = try await ServedCluster.start()
        let user = try signedToken(user: "ann")
        for operation in ["clusterStatus", "getAppPolicy", "importUsers", "kick", "drain"] {
            for (token, status, code) in [(user, 403, 403), (user + "x", 401, 6014)] as [(String, Int, Int64)] {
                let answer = try await HTTPExchange.send(
                    .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/\(operation)",
                    headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
                #expect(answer.status == status, "\(operation)")
                #expect(try JSON(answer.body)["code"]?.number == code, "\(operation)")
            }
        }
        try await fixture.stop()
    }
}
