import Foundation
import NodeFixture
import PresenceClient
import Testing

/// The ID of a request: the node's answer, the error of the SDK and the log of the node have the same (<doc:HTTPAPI#Errors>).
@Suite(.serialized, .timeLimit(.minutes(3))) struct RequestIDTests {
    private func isRequestID(_ text: String) -> Bool { text.wholeMatch(of: /[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9a-f]{1,8}/) != nil }

    /// The values of the field in the heads of answers.
    private func requestIDs(in text: String) -> [String] {
        text.split(whereSeparator: \.isNewline).filter { $0.lowercased().hasPrefix("request-id: ") }.map { String($0.dropFirst(12)) }
    }

    private func client(_ cluster: ServedCluster, _ node: Int, token: String) throws -> PresenceClient {
        try PresenceClient(ClientConfiguration(addresses: ["http://127.0.0.1:\(cluster.nodes[node].ports.client)"]) { token })
    }

    /// The lines of a node's log that have this text.
    private func lines(_ node: ServedNode, _ text: String) -> [Substring] { node.log.split(separator: "\n").filter { $0.contains(text) } }

    @Test("A refused call has one request ID in the SDK's error and in the log of the node that refused it, and in no other log")
    func refusedCalls() async throws {
        let cluster = try await ServedCluster.start(nodes: 3, ["ROLLCALL_LOG_LEVEL": "debug"])
        let good = try signedToken(user: "ann")
        var seen: Set<String> = []
        for node in 0..<3 {
            for (token, code, operation) in [
                ("\(good.dropLast(6))AAAAAA", 6014, "getUserStatus"), (good, 6017, "publishEvent"),
            ] {
                let client = try client(cluster, node, token: token)
                let error = await #expect(throws: PresenceError.self) {
                    if operation == "publishEvent" {
                        _ = try await client.publishEvent(1)
                    } else {
                        _ = try await client.getUserStatus(["ann"])
                    }
                }
                let id = try #require(error?.requestID, "\(String(describing: error))")
                #expect(isRequestID(id) && seen.insert(id).inserted, "\(id)")
                #expect(error?.code.rawValue == code, "\(String(describing: error))")
                try await cluster.nodes[node].until("the log has the request") { !lines(cluster.nodes[node], "requestID=\(id)").isEmpty }
                let found = cluster.nodes.map { lines($0, "requestID=\(id)") }
                #expect(found.map(\.count) == (0..<3).map { $0 == node ? 1 : 0 })
                let line = try #require(found[node].first)
                #expect(line.contains("debug") && line.contains("operation=\(operation)") && line.contains("code=\(code)"), "\(line)")
                await client.close()
            }
        }
        try await cluster.stop()
    }

    @Test(
        "Each answer has a request ID of its own, over both versions of HTTP and on both ports",
        arguments: ["--http1.1", "--http2-prior-knowledge"])
    func answers(version: String) async throws {
        let cluster = try await ServedCluster.start(nodes: 1, ["ROLLCALL_LOG_LEVEL": "debug"])
        let node = cluster.nodes[0]
        let user = try signedToken(user: "ann")
        let (client, ops) = ("http://127.0.0.1:\(node.ports.client)", "http://127.0.0.1:\(node.ports.ops)")
        var seen: Set<String> = []
        for url in [
            "\(client)/v1/getUserStatus", "\(client)/v1/getUserStatus", "\(client)/v1/nothing", "\(client)/openapi.json",
            "\(ops)/admin/v1/clusterStatus", "\(ops)/healthz", "\(ops)/nothing",
        ] {
            let fields = ["-H", "Authorization: Bearer \(user)", "-d", #"{"userIDs":["ann"]}"#]
            let done = try await run("curl", ["-sS", "-D", "-", "-o", "/dev/null", version] + fields + [url])
            let ids = requestIDs(in: done.output)
            #expect(ids.count == 1 && ids.allSatisfy { isRequestID($0) && seen.insert($0).inserted }, "\(url): \(done.output)")
        }
        // Of what was refused, each has its line: the unknown paths, the wrong methods and the missing role.
        try await node.until("the log has all of them") { lines(node, "request refused").count >= 5 }
        let refused = lines(node, "request refused")
        #expect(refused.count == 5 && refused.allSatisfy { line in seen.contains { line.contains("requestID=\($0)") } }, "\(refused)")
        let signature = try #require(user.split(separator: ".").last)
        #expect(!node.log.contains(signature))
        try await cluster.stop()
    }

    @Test("The stream has a request ID, also the one that is refused") func streams() async throws {
        let cluster = try await ServedCluster.start(nodes: 1, ["ROLLCALL_LOG_LEVEL": "debug"])
        let connection = try RawConnection(port: cluster.nodes[0].ports.client)
        let head = { (token: String) in
            Array("GET /v1/events?platform=web HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n".utf8)
        }
        connection.send(head(try signedToken(user: "ann") + "x"))
        let refused = try await connection.receiveAnswer()
        let id = try #require(requestIDs(in: refused).first, "\(refused)")
        #expect(refused.hasPrefix("HTTP/1.1 401 "))
        try await cluster.nodes[0].until("the log has the request") { lines(cluster.nodes[0], "requestID=\(id)").count == 1 }
        connection.send(head(try signedToken(user: "ann")))
        let opened = try await connection.receive(until: "onConnected")
        #expect(requestIDs(in: opened).count == 1 && requestIDs(in: opened) != [id], "\(opened)")
        connection.close()
        try await cluster.stop()
    }
}
