import Foundation
import HTTP2
import NIOPosix
import InProcessFixture
import NodeFixture
import PresenceWire
import Testing

@testable import PresenceNode

/// Two processes with one node ID.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TwinTests {
    private static let hour: Milliseconds = 3_600_000

    /// Tells a node that a later process with the ID of a member listens at the member's address.
    private func replace(_ id: String, at port: Int, in node: RollcallNode) async throws {
        let successor = try await Member.connect(node)
        let hello = Member.hello(id, listeningAt: port, generation: UInt64(Clock.now().wall + Self.hour))
        #expect(try await successor.prove(hello).status == 200)
        try await successor.close()
    }

    @Test("A node that was replaced asks its clients to leave, and stops once") func superseded() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let (first, node) = (fixture.nodes[0], fixture.nodes[1])
        var events = try await fixture.events("ann", node: 1).makeAsyncIterator()
        _ = try await events.next()
        try await replace("n1", at: node.ports.cluster, in: first)
        var reasons: [String] = []
        for await reason in node.supersessions { reasons.append(reason) }
        let reason = "a later process at 127.0.0.1:\(node.ports.cluster) uses the node ID \"n1\" and has replaced this one"
        #expect(reasons.count == 1 && reasons[0].hasSuffix(reason), "\(reasons)")
        let readiness = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: node.ports.ops, path: "/readyz", on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(readiness.status == 503 && readiness.text == "superseded: \(reasons[0])\n")
        // It has no say about its successor any more.
        let stranger = try await Member.connect(node)
        #expect(try await stranger.exchange("hello", []).status == 503)
        async let one: Void = node.stop()
        async let other: Void = node.stop()
        var hasHint = false
        while let event = try await events.next() {
            hasHint = hasHint || String(decoding: event, as: UTF8.self).contains("event: onReconnectHint")
        }
        #expect(hasHint)
        try await one
        try await other
        #expect(node.supersededReason == reasons[0])
        try await first.stop()
    }

    @Test("A superseded process ends with 69, also if a signal asks it to end") func signalWhileSuperseded() async throws {
        let fixture = try await Fixture.start()
        let node = try await ServedNode.serving(["--join", "127.0.0.1:\(fixture.nodes[0].ports.cluster)"])
        try await replace("n", at: node.ports.cluster, in: fixture.nodes[0])
        try await node.until("it is superseded") { node.log.contains("superseded: another process has this node's ID") }
        node.signal(SIGTERM)
        #expect(try await node.ended() == ExitCode.unavailable)
        #expect(node.log.contains("rollcall: superseded: ") && node.log.split(separator: "\n").count < 20, "\(node.log)")
        try await fixture.stop()
    }

    /// The caller ends for good at 410, and waits at 412 and 423.
    @Test("The status of a refused hello names the kind of the refusal", arguments: ["n0", "n1"]) func refusalStatus(twin: String)
        async throws
    {
        let fixture = try await Fixture.start(nodes: 2)
        let (now, hour) = (Clock.now().wall, Milliseconds(3_600_000))
        let (earlier, later) = (UInt64(now - hour), UInt64(now + hour))
        for (name, cluster, generation, wall, status) in [
            (twin, "rollcall", earlier, now, 410), (twin, "rollcall", later, now, 423), (twin, "other", earlier, now, 409),
            (twin, "other", later, now, 409), (twin, "rollcall", earlier, now + hour, 410), ("late", "rollcall", later, now + hour, 412),
        ] as [(String, String, UInt64, Milliseconds, Int)] {
            var hello = Member.hello(name, cluster: cluster, listeningAt: 1, generation: generation)
            hello.wall = wall
            let stranger = try await Member.connect(fixture.nodes[0])
            let answer = try await stranger.prove(hello)
            #expect(answer.status == status, "\(hello): \(String(decoding: answer.body, as: UTF8.self))")
            try await stranger.close()
        }
        try await fixture.stop()
    }
}
