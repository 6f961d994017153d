import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// `traceparent` comes in, goes on to the owner of the user, and is in the lines of the log (<doc:Operations#Traces>).
@Suite(.timeLimit(.minutes(3))) struct TraceTests {
    private static let settings = ["ROLLCALL_LOG_LEVEL": "debug", "ROLLCALL_LOG_FORMAT": "json"]

    /// The members of the metadata of a node's lines with this message. A node with `--dev` prints other lines besides.
    private func lines(_ node: ServedNode, _ message: String) -> [[String: String]] {
        node.log.split(separator: "\n").compactMap { line -> [String: String]? in
            guard line.contains("\"message\":\"\(message)\""), let json = try? JSON(Array(line.utf8)) else { return nil }
            guard case .object(let members)? = json["metadata"] else { return nil }
            return members.compactMapValues(\.text)
        }
    }

    private func traceID(_ number: Int) -> String {
        let digits = String(number + 1, radix: 16)
        return "a" + String(repeating: "0", count: 31 - digits.count) + digits
    }

    /// Sends a call with a `traceparent`. Returns its status.
    private func send(
        _ port: Int, _ path: String, _ body: String, token: String, _ traceparent: String
    ) async throws -> Int {
        try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: port, path: path,
            headers: [("authorization", "Bearer \(token)"), ("traceparent", traceparent)], body: body,
            on: MultiThreadedEventLoopGroup.singleton.next()
        ).status
    }

    /// Waits until each node owns slots and knows the releases of the others: then requests carry their traces.
    private func untilTraced(_ cluster: ServedCluster) async throws {
        try await cluster.until("each node owns slots and knows the others") {
            for node in cluster.nodes.indices {
                let members = try await cluster.admin("clusterStatus", "{}", node: node).json["members"]?.elements ?? []
                let isKnown = members.allSatisfy { $0["version"] != nil && $0["slotsOwned"]?.number ?? 0 > 0 }
                guard members.count == cluster.nodes.count, isKnown else { return false }
            }
            return true
        }
    }

    @Test("A call's trace is in the log of its gateway and in that of its user's owner, span by span, and in no other log")
    func owners() async throws {
        let cluster = try await ServedCluster.start(nodes: 3, Self.settings)
        try await untilTraced(cluster)
        let (gateway, names) = (cluster.nodes[0], (0..<12).map { "user\($0)" })
        for (number, user) in names.enumerated() {
            let trace = "00-\(traceID(number))-00f067aa0ba902b7-01"
            let token = try signedToken(user: user)
            #expect(try await send(gateway.ports.client, "/v1/setSelfStatus", #"{"customStatus":"here"}"#, token: token, trace) == 200)
        }
        try await gateway.until("the gateway has logged all calls") { lines(gateway, "request traced").count >= names.count }
        var remote = 0
        for (number, user) in names.enumerated() {
            let trace = traceID(number)
            let own = lines(gateway, "request traced").filter { $0["trace_id"] == trace }
            let line = try #require(own.first, "\(gateway.log)")
            #expect(own.count == 1 && line["operation"] == "setSelfStatus" && line["parent_span_id"] == "00f067aa0ba902b7", "\(own)")
            #expect(line["trace_sampled"] == "true" && line["requestID"]?.isEmpty == false, "\(line)")
            let span = try #require(line["span_id"])
            #expect(span.wholeMatch(of: /[0-9a-f]{16}/) != nil && span != "00f067aa0ba902b7" && span != "0000000000000000", "\(span)")
            let explained = try await cluster.admin("explain", #"{"viewer":"\#(user)","target":"\#(user)"}"#)
            let owner = try #require(explained.json["ownerOfTarget"]?["node"]?.text, "\(explained.json)")
            if let other = cluster.nodes.first(where: { $0.nodeID == owner && owner != gateway.nodeID }) {
                try await other.until("the owner has logged \(user)'s call") {
                    lines(other, "request of another node traced").contains { $0["trace_id"] == trace }
                }
            }
            for node in cluster.nodes {
                let found = lines(node, "request of another node traced").filter { $0["trace_id"] == trace }
                // The owner may have been asked twice, if it was busy.
                #expect(found.isEmpty == (node.nodeID != owner || owner == gateway.nodeID), "\(user) of \(owner): \(found)")
                for line in found {
                    #expect(line["parent_span_id"] == span && line["span_id"] != span && line["node"] == gateway.nodeID, "\(line)")
                    #expect(line["operation"] == "setSelfStatus" && line["trace_sampled"] == "true", "\(line)")
                }
                remote += found.count
            }
        }
        #expect(remote > 0, "of twelve users none is another node's")
        try await cluster.stop()
    }

    @Test(
        "A traceparent that is invalid or sent twice is ignored, over both versions of HTTP",
        arguments: ["--http1.1", "--http2-prior-knowledge"])
    func invalid(version: String) async throws {
        let cluster = try await ServedCluster.start(nodes: 1, Self.settings)
        let node = cluster.nodes[0]
        let (token, trace, span) = (try signedToken(user: "ann"), traceID(1), "00f067aa0ba902b7")
        let call = { (fields: [String]) in
            let headers = (["Authorization: Bearer \(token)"] + fields).flatMap { ["-H", $0] }
            let url = "http://127.0.0.1:\(node.ports.client)/v1/getUserStatus"
            let data = ["-d", #"{"userIDs":["ann"]}"#]
            let done = try await run("curl", ["-sS", "-o", "/dev/null", "-w", "%{http_code}", version] + headers + data + [url])
            #expect(done.output == "200", "\(fields): \(done.output)")
        }
        for value in [
            "ff-\(trace)-\(span)-01", "00-\(String(repeating: "0", count: 32))-\(span)-01", "00-\(trace)-0000000000000000-01",
            "00-\(trace.uppercased())-\(span)-01", "00-\(trace)-\(span)-01-more", "00-\(trace)-\(span)", "nothing",
            String(repeating: "a", count: 4_000),
        ] { try await call(["Traceparent: \(value)"]) }
        try await call(["traceparent: 00-\(trace)-\(span)-01", "traceparent: 00-\(trace)-\(span)-01"])
        let last = traceID(2)
        try await call(["TraceParent: cc-\(last)-\(span)-00-of-a-later-version"])
        try await node.until("the valid one is logged") { !lines(node, "request traced").isEmpty }
        let traced = lines(node, "request traced")
        #expect(traced.map { $0["trace_id"] } == [last] && traced.first?["trace_sampled"] == "false", "\(traced)")
        try await cluster.stop()
    }

    @Test("With otlpEndpoint a collector gets the spans of sampled traces, of the gateway and of the owners, and no others")
    func spans() async throws {
        let collector = try await TextServer.start("{}")
        let cluster = try await ServedCluster.start(nodes: 3, ["ROLLCALL_OTLP_ENDPOINT": "http://127.0.0.1:\(collector.port)"])
        try await untilTraced(cluster)
        let (gateway, names) = (cluster.nodes[0], (0..<12).map { "user\($0)" })
        for (number, user) in names.enumerated() {
            let token = try signedToken(user: user)
            // The last of the digits is the sampled flag.
            for flag in ["01", "00"] {
                let trace = "00-\(traceID(flag == "01" ? number : number + 100))-00f067aa0ba902b7-\(flag)"
                #expect(try await send(gateway.ports.client, "/v1/setSelfStatus", #"{"customStatus":"x"}"#, token: token, trace) == 200)
            }
        }
        let (refused, stranger) = ("00-\(traceID(50))-00f067aa0ba902b7-01", "00-\(traceID(51))-00f067aa0ba902b7-01")
        let token = try signedToken(user: "ann")
        #expect(try await send(gateway.ports.client, "/v1/getUserStatus", "{}", token: token, refused) == 400)
        #expect(try await send(gateway.ports.client, "/v1/setSelfStatus", "{}", token: "x", stranger) == 401)
        // A node that stops sends what waits.
        try await cluster.stop()
        let resources = try collector.received.flatMap { try JSON($0.body)["resourceSpans"]?.elements ?? [] }
        let spans = resources.flatMap { resource in
            let node = resource["resource"]?["attributes"]?.elements.first { $0["key"]?.text == "service.instance.id" }
            let spans = resource["scopeSpans"]?.elements.flatMap { $0["spans"]?.elements ?? [] } ?? []
            return spans.map { (node: node?["value"]?["stringValue"]?.text, span: $0) }
        }
        #expect(collector.received.allSatisfy { $0.path == "/v1/traces" })
        #expect(!spans.contains { $0.span["traceId"]?.text.map { id in (100..<112).contains { traceID($0) == id } } ?? true })
        var remote = 0
        for number in names.indices {
            let found = spans.filter { $0.span["traceId"]?.text == traceID(number) }
            let own = found.filter { $0.span["parentSpanId"]?.text == "00f067aa0ba902b7" }
            #expect(own.count == 1 && own.first?.node == gateway.nodeID && own.first?.span["name"]?.text == "setSelfStatus", "\(found)")
            let id = try #require(own.first?.span["spanId"]?.text)
            let others = found.filter { $0.span["spanId"]?.text != id }
            #expect(others.allSatisfy { $0.node != gateway.nodeID && $0.span["parentSpanId"]?.text == id }, "\(found)")
            remote += others.count
        }
        #expect(remote > 0, "of twelve users none is another node's")
        let failed = spans.filter { $0.span["traceId"]?.text == traceID(50) }.flatMap { $0.span["attributes"]?.elements ?? [] }
        #expect(
            failed.contains(.object(["key": .string("rollcall.code"), "value": .object(["stringValue": .string("6017")])])), "\(failed)")
        #expect(!spans.contains { $0.span["traceId"]?.text == traceID(51) }, "a stranger writes nothing into the collector")
        await collector.stop()
    }

    @Test("The line of a refused call or login has the trace and the span of the request, on both ports") func refused() async throws {
        let cluster = try await ServedCluster.start(nodes: 1, Self.settings)
        let node = cluster.nodes[0]
        let good = try signedToken(user: "ann")
        let calls: [(port: Int, path: String, body: String, token: String, status: Int)] = [
            (node.ports.client, "/v1/getUserStatus", "{}", good + "x", 401), (node.ports.client, "/v1/getUserStatus", "{}", good, 400),
            (node.ports.ops, "/admin/v1/clusterStatus", "{}", good + "x", 401), (node.ports.ops, "/admin/v1/kick", "{}", good, 403),
        ]
        for (number, call) in calls.enumerated() {
            let trace = "00-\(traceID(number))-00f067aa0ba902b7-01"
            #expect(try await send(call.port, call.path, call.body, token: call.token, trace) == call.status)
        }
        let login = try await run(
            "curl",
            [
                "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer \(good)x", "-H",
                "traceparent: 00-\(traceID(calls.count))-00f067aa0ba902b7-01",
                "http://127.0.0.1:\(node.ports.client)/v1/events?platform=web",
            ])
        #expect(login.output == "401")
        try await node.until("all are logged") { lines(node, "request refused").count == calls.count + 1 }
        let (traced, refused) = (lines(node, "request traced"), lines(node, "request refused"))
        for number in 0...calls.count {
            let pair = [traced, refused].map { $0.filter { $0["trace_id"] == traceID(number) } }
            #expect(pair.map(\.count) == [1, 1], "\(number): \(pair)")
            for name in ["span_id", "requestID"] { #expect(pair[0].first?[name] != nil && pair[0].first?[name] == pair[1].first?[name]) }
        }
        #expect(traced.last?["operation"] == "events", "\(traced)")
        try await cluster.stop()
    }
}
