import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Exports that their clients do not read, on the ops ports of three nodes.
@Suite(.timeLimit(.minutes(3))) struct ExportTests {
    /// The status and the text of an export of an app at node 0.
    private func export(_ app: String, of fixture: ServedCluster) async throws -> (status: Int, text: String) {
        let token = try signedToken(user: "operator", app: app, isAdmin: true)
        let response = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/export",
            headers: [("authorization", "Bearer \(token)")], on: MultiThreadedEventLoopGroup.singleton.next())
        return (response.status, response.text)
    }

    @Test("Four unread exports of an app keep no other app from exporting, and end after a minute") func unread() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let node = fixture.nodes[0]
        var streams: [AsyncThrowingStream<[UInt8], any Error>] = []
        for (number, app) in ["busy", "calm"].enumerated() {
            let stream = try fixture.events("ann", app: app, node: number + 1)
            var iterator = stream.makeAsyncIterator()
            _ = try await iterator.next()
            streams.append(stream)
        }
        for app in ["busy", "calm"] {
            try await fixture.until("\(app) has a user who is ONLINE") {
                try await fixture.admin("onlineUsers", "{}", app: app).json["total"]?.number == 1
            }
        }
        // The windows of the client are closed, so that its exports stay unread whatever their size.
        let client = try SilentClient(
            port: node.ports.ops, token: try signedToken(user: "operator", app: "busy", isAdmin: true),
            paths: Array(repeating: "/admin/v1/export", count: 4), takesData: false)
        try await fixture.until("four exports run") { try await node.metricsText().contains("rollcall_exports 4\n") }
        let begun = ContinuousClock.now

        let refused = try await export("busy", of: fixture)
        #expect(refused.status == 503 && refused.text.contains("\"code\":50002") && refused.text.contains("4 exports of this app"))
        let other = try await export("calm", of: fixture)
        #expect(other.status == 200 && other.text.contains("\"userID\":\"ann\""))

        for seconds in [25, 50] {
            try await fixture.until("\(seconds) s have passed") { ContinuousClock.now - begun > .seconds(seconds) }
        }
        #expect(try await node.metricsText().contains("rollcall_exports 4\n"), "a minute has not passed")
        try await fixture.until("the unread exports have ended") {
            try await node.metricsText().contains("rollcall_exports_ended_total{reason=\"unread\"} 4\n")
        }
        let served = try await export("busy", of: fixture)
        #expect(served.status == 200 && served.text.contains("\"userID\":\"ann\""))
        client.close()
        withExtendedLifetime(streams) {}
        try await fixture.stop()
    }
}
