import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The answers of the ops port to wrong requests (found by Tests/Fuzz/api).
@Suite(.timeLimit(.minutes(2))) struct OpsPortTests {
    @Test("The error names a wrong method or body") func wrongRequests() async throws {
        let fixture = try await ServedCluster.start()
        let token = try signedToken(user: "operator", isAdmin: true)
        let send = { (method: HTTPRequest.Method, path: String, body: String?) in
            try await HTTPExchange.send(
                method, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: path, headers: [("authorization", "Bearer \(token)")],
                body: body, on: MultiThreadedEventLoopGroup.singleton.next())
        }
        #expect(try await send(.post, "/admin/v1/clusterStatus", "{}").status == 200)
        #expect(try await send(.post, "/admin/v1/clusterStatus", nil).status == 200)
        #expect(try await send(.post, "/admin/v1/setAppPolicy", nil).status == 200)
        #expect(try await send(.get, "/admin/v1/clusterStatus", nil).status == 405)
        #expect(try await send(.get, "/admin/v1/nothing", nil).status == 404)
        #expect(try await send(.post, "/healthz", "").status == 405)
        for operation in ["clusterStatus", "drain", "forget", "getAppPolicy", "setAppPolicy"] {
            #expect(try await send(.post, "/admin/v1/\(operation)", "[]").status == 400)
        }
        let long = try await send(.post, "/admin/v1/setAppPolicy", String(repeating: " ", count: 1 << 20) + "{}")
        #expect(long.status == 413 && long.text.contains("6017"))
        try await fixture.stop()
    }

    @Test("Calls of operators are counted by name and code") func counts() async throws {
        let fixture = try await ServedCluster.start()
        let admin = try signedToken(user: "operator", isAdmin: true)
        let user = try signedToken(user: "ann")
        let send = { (token: String, operation: String, body: String) in
            _ = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/\(operation)",
                headers: [("authorization", token)], body: body, on: MultiThreadedEventLoopGroup.singleton.next())
        }
        for _ in 0..<2 { try await send("Bearer \(admin)", "clusterStatus", "{}") }
        try await send("Bearer \(admin)", "forget", "{}")
        try await send("Bearer \(user)", "forget", #"{"node":"n1"}"#)
        try await send("nothing", "kick", "{}")
        let lines = try await fixture.nodes[0].metricsText().split(separator: "\n").filter { $0.hasPrefix("rollcall_operations_total") }
        #expect(
            lines == [
                #"rollcall_operations_total{operation="clusterStatus",code="0"} 2"#,
                #"rollcall_operations_total{operation="forget",code="403"} 1"#,
                #"rollcall_operations_total{operation="forget",code="6017"} 1"#,
                #"rollcall_operations_total{operation="kick",code="6014"} 1"#,
            ])
        try await fixture.stop()
    }

    @Test("The metrics page names the version and the commit that `rollcall --version` prints, and the start of the process")
    func release() async throws {
        let before = Date().timeIntervalSince1970
        let fixture = try await ServedCluster.start()
        let after = Date().timeIntervalSince1970
        let printed = try await RollcallBinary.run(["--version"]).output
        let line = try #require(printed.wholeMatch(of: /rollcall (\S+) \((?:commit (\S+)|unknown commit)\)\n/), "\(printed)")
        let page = try await fixture.nodes[0].metricsText()
        #expect(page.contains("\nrollcall_build_info{version=\"\(line.1)\",commit=\"\(line.2 ?? "")\"} 1\n"), "\(printed)")
        let start = try #require(page.firstMatch(of: /\nprocess_start_time_seconds (\S+)\n/).flatMap { Double($0.1) })
        // The kernel says in whole seconds when the machine started.
        #expect((before - 2...after + 2).contains(start), "\(start) is not between \(before) and \(after)")
        try await fixture.stop()
    }

    @Test("A node counts as many received batches as another one has sent") func batchCounts() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let users = (0..<20).map { "user\($0)" }
        let list = users.map { "\"\($0)\"" }.joined(separator: ",")
        let streams = [try fixture.events("ann", node: 0), try fixture.events("bob", node: 1)]
        for (node, follower) in ["ann", "bob"].enumerated() {
            let answer = try await fixture.call("subscribeUserStatus", "{\"userIDs\":[\(list)]}", as: follower, node: node)
            #expect(answer.status == 200)
        }
        for user in users { _ = try await fixture.call("setSelfStatus", #"{"customStatus":"here"}"#, as: user) }
        let value = { (node: Int, name: String) in
            let lines = try await fixture.nodes[node].metricsText().split(separator: "\n")
            return try #require(lines.first { $0.hasPrefix(name) }?.split(separator: " ").last.flatMap { Int($0) })
        }
        for (from, to) in [(0, 1), (1, 0)] {
            try await fixture.until("n\(to) has what n\(from) sent") {
                let sent = try await value(from, "rollcall_deltas_sent_total{peer=\"n\(to)\"}")
                let received = try await value(to, "rollcall_deltas_received_total{peer=\"n\(from)\"}")
                return sent > 0 && sent == received
            }
        }
        _ = streams
        try await fixture.stop()
    }
}
