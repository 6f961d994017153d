import HTTP2
import NIOPosix
import NodeFixture
import PresenceNode
import Testing

/// What the ops port answers to those who do it wrong (found by Tests/Fuzz/api).
@Suite(.timeLimit(.minutes(2))) struct OpsPortTests {
    @Test func wrongMethodsAndBodiesAreNamed() async throws {
        let fixture = try await Fixture.start()
        let token = try await TokenMint().token(user: "operator", isAdmin: true)
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
}
