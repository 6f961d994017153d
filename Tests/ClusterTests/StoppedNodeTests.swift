import Foundation
import NodeFixture
import Testing

/// A node that stood still while users hid. Requests wait in its sockets when it goes on.
@Suite(.serialized, .timeLimit(.minutes(3))) struct StoppedNodeTests {
    /// More users than one, so that each node owns some.
    private static let hiders = (0..<8).map { "hider\($0)" }
    private static let targets = "[" + (hiders + ["blocker"]).map { "\"\($0)\"" }.joined(separator: ",") + "]"
    private static let query = #"{"userIDs":\#(targets)}"#

    /// The calls that show statuses of others, with their bodies. Bob follows all targets.
    private static let reads = [
        ("getUserStatus", query), ("getSubscribedUserStatus", "{}"), ("subscribeUserStatus", #"{"userIDs":\#(targets),"sync":true}"#),
    ]

    /// The bytes of a request without a connection of its own.
    private static func request(_ line: String, by user: String, body: String = "") throws -> [UInt8] {
        let head = [
            "\(line) HTTP/1.1", "Host: rollcall", "Authorization: Bearer \(try signedToken(user: user))",
            "Content-Length: \(body.utf8.count)",
        ]
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
    }

    private static func open(_ line: String, by user: String, body: String = "", on node: ServedNode) throws -> RawConnection {
        let connection = try RawConnection(port: node.ports.client)
        connection.send(try request(line, by: user, body: body))
        return connection
    }

    /// The answer to a call over HTTP/2. The client connects at once, also to a node that does not run.
    private static func overHTTP2(_ operation: String, by user: String, body: String, on node: ServedNode) async throws -> String {
        let options = ["-sS", "--http2-prior-knowledge", "-d", body, "-H", "Authorization: Bearer \(try signedToken(user: user))"]
        return try await run("curl", options + ["http://127.0.0.1:\(node.ports.client)/v1/\(operation)"]).output
    }

    /// The users, of those who have hidden, whom a text shows ONLINE.
    private static func shown(in text: String) -> [Substring] {
        text.matches(of: /"userID":"(hider[0-9]|blocker)","statusType":"ONLINE"/).map { $0.1 }
    }

    private func isShown(_ status: String, by cluster: ServedCluster) async throws -> Bool {
        let answer = try await cluster.call("getUserStatus", Self.query, as: "bob", node: 2)
        let statuses = answer.json["userStatusList"]?.elements.compactMap { $0["statusType"]?.text } ?? []
        return statuses == Array(repeating: status, count: Self.hiders.count + 1)
    }

    /// All that a stream was sent, up to a text that its user sets now.
    private func received(on stream: RawConnection, of user: String, _ text: String, in cluster: ServedCluster) async throws -> String {
        try await cluster.until("\(user) can set a text") {
            try await cluster.call("setSelfStatus", #"{"customStatus":"\#(text)"}"#, as: user, node: 2).status == 200
        }
        return try await stream.receive(until: text)
    }

    /// Hides all users while the third node does not run. Returns the last time that the answers name.
    private func hide(in cluster: ServedCluster) async throws -> Int64 {
        var latest: Int64 = 0
        for user in Self.hiders {
            try await cluster.until("\(user) has hidden") {
                let answer = try await cluster.call("setVisibility", #"{"invisible":true}"#, as: user)
                latest = max(latest, answer.json["mayBeSeenUntil"]?.number ?? 0)
                return answer.status == 200
            }
        }
        try await cluster.until("bob is blocked") {
            let answer = try await cluster.call("addBlackList", #"{"userIDs":["bob"]}"#, as: "blocker")
            if answer.status == 200 { #expect(answer.json["mayBeSeenUntil"]?.number ?? 0 > 0, "\(answer.json)") }
            latest = max(latest, answer.json["mayBeSeenUntil"]?.number ?? 0)
            return answer.status == 200
        }
        return latest
    }

    @Test("A node that stood still shows nobody ONLINE who hid meanwhile, in no answer to a request that waited and on no stream")
    func wokenNode() async throws {
        let cluster = try await ServedCluster.start(nodes: 3)
        try await cluster.setPolicy(#"{"rate.query":false,"rate.subscribe":false}"#)
        let sessions = try (Self.hiders + ["blocker"]).map { try cluster.events($0) }
        let bob = try Self.open("GET /v1/events?platform=web", by: "bob", on: cluster.nodes[2])
        try await bob.receive(until: "onSubscriptionSyncCompleted")
        try await cluster.until("all are ONLINE") { try await isShown("ONLINE", by: cluster) }
        for (user, node) in [("bob", 2), ("cid", 0)] {
            let body = #"{"userIDs":\#(Self.targets),"sync":true}"#
            #expect(try await cluster.call("subscribeUserStatus", body, as: user, node: node).status == 200)
        }
        _ = try await received(on: bob, of: "bob", "before the pause", in: cluster)
        // Each has made a request: a node closes a new connection that sends nothing for ten seconds, and the pause may take as long.
        let accepted = try (0..<12).map { _ in
            try Self.open("POST /v1/getUserStatus", by: "bob", body: Self.query, on: cluster.nodes[2])
        }
        for connection in accepted { _ = try await connection.receiveAnswer() }

        try cluster.nodes[2].standStill()
        let latest = try await hide(in: cluster)
        #expect(latest > 0)
        for (number, connection) in accepted.enumerated() {
            let (operation, body) = Self.reads[number % Self.reads.count]
            connection.send(try Self.request("POST /v1/\(operation)", by: "bob", body: body))
        }
        let waiting = try (0..<12).map { number in
            let (operation, body) = Self.reads[number % Self.reads.count]
            return try Self.open("POST /v1/\(operation)", by: "bob", body: body, on: cluster.nodes[2])
        }
        let node = cluster.nodes[2]
        let overHTTP2 = Self.reads.map { operation, body in
            Task { try await Self.overHTTP2(operation, by: "bob", body: body, on: node) }
        }
        let cid = try Self.open("GET /v1/events?platform=web", by: "cid", on: cluster.nodes[2])
        try await cluster.until("the last time that an answer named is over") { Int64(Date().timeIntervalSince1970 * 1_000) > latest }
        cluster.nodes[2].signal(SIGCONT)

        var answers: [String] = []
        for connection in accepted + waiting {
            answers.append(try await connection.receiveAnswer())
            connection.close()
        }
        for answer in overHTTP2 { answers.append(try await answer.value) }
        for answer in answers {
            #expect(Self.shown(in: answer).isEmpty, "\(answer)")
            #expect(answer.contains(#""statusType":"OFFLINE""#) || answer.contains(#""code":5000"#), "\(answer)")
        }
        try await cluster.until("the node knows who has hidden") { try await isShown("OFFLINE", by: cluster) }
        for (stream, user) in [(bob, "bob"), (cid, "cid")] {
            let text = try await received(on: stream, of: user, "after the pause", in: cluster)
            // The blocker hides from bob alone.
            #expect(Self.shown(in: text).filter { user == "bob" || $0 != "blocker" }.isEmpty, "\(user): \(text)")
        }
        withExtendedLifetime(sessions) {}
        try await cluster.stop()
    }
}
