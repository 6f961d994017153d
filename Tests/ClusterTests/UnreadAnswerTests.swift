import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Answers that clients leave unread, at a node with one event loop, whose client connections may hold 16 MiB together.
@Suite(.serialized, .timeLimit(.minutes(3))) struct UnreadAnswerTests {
    private static let ended = "rollcall_http_violations_total{reason=\"unreadTooMuch\"}"
    private static let held = "rollcall_connections_held_bytes"
    private static let answered = "rollcall_operations_total{operation=\"getUsersProfile\",code=\"0\"}"
    private static let names = (0..<100).map { "user-\($0)" }

    /// Gives each of ``names`` a profile of some 10 KB. An answer with all of them has more than a megabyte.
    private func fillProfiles(_ fixture: ServedCluster) async throws {
        let fields = (0..<20).map { "f\($0)" }
        let declared = fields.map { "\"\($0)\":\"string\"" }.joined(separator: ",")
        try await fixture.setPolicy("{\"rate.chain\":false,\"profile.valueBytes\":500,\"profile.customFields\":{\(declared)}}")
        let text = String(repeating: "x", count: 500)
        let values = fields.map { "\"Custom_\($0)\":\"\(text)\"" }.joined(separator: ",")
        for (number, name) in Self.names.enumerated() {
            let node = number % fixture.nodes.count
            let answer = try await fixture.call("modifySelfProfile", "{\"values\":{\(values)}}", as: name, node: node)
            try #require(answer.status == 200, "\(answer.json)")
        }
    }

    /// The body of a call about all of ``names``, beginning with one of them.
    private static func list(from first: Int = 0) -> String {
        "{\"userIDs\":[\((names[first...] + names[..<first]).map { "\"\($0)\"" }.joined(separator: ","))]}"
    }

    /// A call over HTTP/1.1.
    private static func request(_ operation: String, _ body: String, as user: String) throws -> [UInt8] {
        let fields = "Host: x\r\nAuthorization: Bearer \(try signedToken(user: user))\r\nContent-Length: \(body.utf8.count)"
        return Array("POST /v1/\(operation) HTTP/1.1\r\n\(fields)\r\n\r\n\(body)".utf8)
    }

    @Test("120 answers of a megabyte that eight users leave unread cost a node less than 64 MiB, and the newest can still be read")
    func manyAnswers() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let node = fixture.nodes[0]
        try await fillProfiles(fixture)
        let list = Self.list()
        let sample = try await fixture.call("getUsersProfile", list)
        #expect(sample.status == 200 && sample.json["profileList"]?.elements.count == 100)
        let earlier = try node.residentBytes

        var connections: [RawConnection] = []
        for number in 0..<120 {
            let connection = try RawConnection(port: node.ports.client)
            connection.send(try Self.request("getUsersProfile", list, as: "reader-\(number % 8)"))
            connections.append(connection)
            guard connections.count.isMultiple(of: 10) else { continue }
            // The sample counts as well.
            let count = connections.count
            try await fixture.until("\(count) requests are answered") { try await node.metric(Self.answered) > count }
            #expect(try await node.metric(Self.held) <= 16 << 20)
        }
        #expect(try node.residentBytes - earlier < 64 << 20)
        #expect(try await node.metric(Self.ended) >= 20)
        #expect(node.log.contains("clients do not read their answers"))
        try await connections[119].receive(until: "\"errorUserList\"")
        await #expect(throws: TestFailure.self) { try await connections[0].receive(until: "\"errorUserList\"") }
        #expect(try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#).status == 200)
        for connection in connections { connection.close() }
        try await fixture.until("nothing is held") { try await node.metric(Self.held) == 0 }
        try await fixture.stop()
    }

    @Test("A client that sends eight calls at once gets their answers in order, while those of others are not read and are ended")
    func pipeline() async throws {
        let fixture = try await ServedCluster.start()
        let node = fixture.nodes[0]
        try await fillProfiles(fixture)
        var unread: [RawConnection] = []
        for number in 0..<40 {
            unread.append(try RawConnection(port: node.ports.client))
            unread[number].send(try Self.request("getUsersProfile", Self.list(), as: "reader-\(number)"))
        }
        let client = try RawConnection(port: node.ports.client)
        for first in 0..<7 { client.send(try Self.request("getUsersProfile", Self.list(from: first), as: "ann")) }
        client.send(try Self.request("getUserStatus", #"{"userIDs":["ann"]}"#, as: "ann"))
        let received = try await client.receive(bytesOf: "the last answer") {
            String(decoding: $0.suffix(100), as: UTF8.self).contains("\"asOf\"")
        }
        let answers = String(decoding: received, as: UTF8.self).components(separatedBy: "HTTP/1.1 200 OK").dropFirst()
        #expect(answers.count == 8)
        for (first, answer) in answers.dropLast().enumerated() {
            #expect(answer.contains("{\"profileList\":[{\"userID\":\"user-\(first)\","))
        }
        try await fixture.until("all others are answered") { try await node.metric(Self.answered) == 40 + 7 }
        // Each of the others loses its own answer at most.
        let endedCount = try await node.metric(Self.ended)
        #expect((1...40).contains(endedCount))
        #expect(try await node.metric(Self.held) <= 16 << 20)
        for connection in unread + [client] { connection.close() }
        try await fixture.stop()
    }

    @Test("Over HTTP/2 the streams of the oldest unread answers are reset, and their connections go on") func streams() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let node = fixture.nodes[0]
        let token = try signedToken(user: "ann")
        var clients: [SilentClient] = []
        while try await node.metric(Self.ended) == 0 {
            // A connection begins no further request while a megabyte of its answers waits.
            let paths = Array(repeating: "/openapi.json", count: 50)
            for _ in 0..<10 {
                clients.append(try SilentClient(port: node.ports.client, token: token, paths: paths, takesData: false))
            }
            try #require(clients.count < 200)
            try await fixture.until("all clients are connected") { try await node.metric("rollcall_connections") == clients.count }
        }
        #expect(try await node.metric(Self.held) <= 16 << 20)
        #expect(try await node.metric("rollcall_connections") == clients.count)
        let read = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: node.ports.client, path: "/openapi.json", on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(read.status == 200 && !read.body.isEmpty)
        for client in clients { client.close() }
        try await fixture.stop()
    }
}
