import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Calls with the header `Idempotency-Key` whose owner dies.
@Suite(.serialized, .timeLimit(.minutes(2))) struct RepeatedCallTests {
    /// More users than one, so that each node owns some.
    private static let names = (0..<12).map { "user\($0)" }
    private static let calls = [
        ("addFriend", #"{"userID":"friend"}"#), ("deleteFriends", #"{"userIDs":["friend"],"delType":2}"#),
        ("publishEvent", #"{"value":10001}"#),
    ]

    private func send(_ call: (operation: String, body: String), of user: String, node: Int, in cluster: ServedCluster) async throws
        -> HTTPExchange.Response
    {
        try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: cluster.nodes[node].ports.client, path: "/v1/\(call.operation)",
            headers: [("authorization", "Bearer \(try signedToken(user: user))"), ("idempotency-key", "\(call.operation)-1")],
            body: call.body, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    @Test("A call that is repeated after the death of its owner has the first answer") func death() async throws {
        let cluster = try await ServedCluster.start(nodes: 3)
        var answers: [String] = []
        for user in Self.names {
            for call in Self.calls {
                let answer = try await send(call, of: user, node: 0, in: cluster)
                #expect(answer.status == 200, "\(answer.text)")
                answers.append(answer.text)
            }
        }
        try await cluster.nodes[0].kill()
        var position = 0
        for user in Self.names {
            for call in Self.calls {
                var again = ""
                // While the owner changes, a call may be answered 50001.
                try await cluster.until("\(call.0) of \(user) is answered") {
                    let answer = try await send(call, of: user, node: 1 + position % 2, in: cluster)
                    again = answer.text
                    return answer.status == 200
                }
                #expect(again == answers[position])
                position += 1
            }
        }
        for node in cluster.nodes.dropFirst() { try await node.stop() }
    }
}
