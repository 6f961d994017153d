import Foundation
import NodeFixture
import Testing

/// A node that is cut off from the others says so with every record (`isUnsure`), and changes nothing.
@Suite(.serialized, .timeLimit(.minutes(3))) struct UnsureTests {
    private func flags(_ cluster: ServedCluster) async throws -> [Bool] {
        let answer = try await cluster.call("getUserStatus", #"{"userIDs":["ann","bob"]}"#, as: "bob")
        return answer.json["userStatusList"]?.elements.map { $0["isUnsure"] == .bool(true) } ?? []
    }

    @Test("A node that hears none of two others marks every record, refuses changes, and pushes the same versions as sure afterwards")
    func cutOff() async throws {
        let cluster = try await ServedCluster.start(nodes: 3)
        try await cluster.setPolicy(#"{"rate.query":false}"#)
        let ann = try RawConnection(port: cluster.nodes[0].ports.client)
        ann.send(try streamRequest(of: "ann"))
        try await ann.receive(until: "onSubscriptionSyncCompleted")
        #expect(try await cluster.call("subscribeUserStatus", #"{"userIDs":["ann"]}"#, as: "bob").status == 200)
        let bob = try RawConnection(port: cluster.nodes[0].ports.client)
        bob.send(try streamRequest(of: "bob"))
        #expect(!(try await bob.receive(until: "onSubscriptionSyncCompleted")).contains("isUnsure"))
        #expect(try await flags(cluster) == [false, false])

        for node in cluster.nodes.dropFirst() { try node.standStill() }
        let stoppedAt = ContinuousClock.now
        let marked = try await bob.receive(until: #""isUnsure":true"#)
        #expect(marked.contains("\nid: 0\n"), "a client that resumes elsewhere is sent everything: \(marked)")
        #expect(ContinuousClock.now - stoppedAt < .seconds(10))
        try await cluster.until("answers are marked") { try await flags(cluster) == [true, true] }
        let carl = try RawConnection(port: cluster.nodes[0].ports.client)
        carl.send(try streamRequest(of: "carl"))
        let connected = try await carl.receive(until: "event: onConnected\nid: 0\n")
        #expect(connected.split(separator: "\n").filter { $0.hasPrefix("id: ") }.allSatisfy { $0 == "id: 0" }, "\(connected)")
        for user in ["ann", "bob", "carl", "dora"] {
            let askedAt = ContinuousClock.now
            let answer = try await cluster.call("setSelfStatus", #"{"customStatus":"not here"}"#, as: user)
            #expect(answer.json["code"]?.number == 50001, "\(user): \(answer.json)")
            #expect(ContinuousClock.now - askedAt < .seconds(2), "\(user)")
        }
        for node in cluster.nodes.dropFirst() { node.signal(SIGCONT) }

        try await cluster.until("the node is sure again") { try await flags(cluster) == [false, false] }
        try await cluster.until("changes are taken again") {
            try await cluster.call("setSelfStatus", #"{"customStatus":"here"}"#, as: "ann").status == 200
        }
        let after = try await bob.receive(until: #""customStatus":"here""#)
        let statuses = after.split(separator: "\n").filter { $0.hasPrefix("data: ") && $0.contains(#""userID":"ann""#) }
        #expect(statuses.last?.contains("isUnsure") == false && !after.contains("not here"), "\(after)")
        try await cluster.stop()
    }

    private func streamRequest(of user: String) throws -> [UInt8] {
        let head = [
            "GET /v1/events?platform=web HTTP/1.1", "Host: rollcall", "Authorization: Bearer \(try signedToken(user: user))",
        ]
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }
}
