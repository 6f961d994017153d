import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Logins that come too often, over real connections.
@Suite(.timeLimit(.minutes(2))) struct LoginTests {
    /// Why a login is refused; nil if it is not.
    private func refusal(_ user: String, _ fixture: ServedCluster) async throws -> JSON? {
        do {
            for try await _ in try fixture.events(user) { break }
            return nil
        } catch let failure as HTTPExchange.Failure {
            return try failure.response.map { try JSON($0.body) }
        }
    }

    @Test("A user beyond the login rate is refused, and others are not") func userRate() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_LOGINS_PER_USER": "1"])
        #expect(try await refusal("ann", fixture) == nil)
        let refused = try #require(try await refusal("ann", fixture))
        #expect(
            refused["code"]?.number == 7008 && refused["status"]?.number == 429 && (1...10).contains(refused["retryAfter"]?.number ?? 0))
        #expect(try await refusal("bob", fixture) == nil)
        #expect(try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#).status == 200, "other calls are taken")
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_logins_rate_limited_total{reason=\"loginsPerUser\"} 1\n"))
        try await fixture.stop()
    }

    @Test("An address beyond the login rate is refused") func addressRate() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_LOGINS_PER_ADDRESS": "1"])
        #expect(try await refusal("bob", fixture) == nil)
        #expect(try await refusal("ann", fixture)?["code"]?.number == 7008)
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_logins_rate_limited_total{reason=\"loginsPerAddress\"} 1\n"))
        try await fixture.stop()
    }

    /// Each login that is refused counts as a reset, as does each stream that the client resets: of 2,000 that a connection may have.
    @Test("A connection that goes on with refused logins is cut") func refusedLogins() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_LOGINS_PER_USER": "1"])
        let (port, token) = (fixture.nodes[0].ports.client, try signedToken(user: "ann"))
        let holds = { (line: String) in try await fixture.nodes[0].metricsText().contains("\n\(line)\n") }
        // From then on the node knows the token, and looks at each login as it comes.
        let first = try SilentClient(port: port, token: token)
        try await fixture.until("ann is there") { try await holds("rollcall_sessions 1") }
        // Its own resets are fewer than a connection may have.
        let flood = try SilentClient(port: port, token: token, paths: Array(repeating: "/v1/events", count: 1_900), isReset: true)
        try await fixture.until("it is cut") { try await holds("rollcall_http_violations_total{reason=\"resetFlood\"} 1") }
        for client in [first, flood] { client.close() }
        try await fixture.stop()
    }
}
