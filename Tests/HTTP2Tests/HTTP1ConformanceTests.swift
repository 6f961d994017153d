import NIOCore
import Testing

@testable import HTTP2

/// The rules of HTTP/1.1 for a server (RFC 9110, RFC 9112), over real sockets.
@Suite(.timeLimit(.minutes(2))) struct HTTP1ConformanceTests {
    /// One or several requests, their answers, and the part of them that reaches the application.
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let text: String
        let statuses: [Int]
        let requests: [String]

        init(_ name: String, _ text: String, _ statuses: Int..., requests: [String] = []) {
            (testDescription, self.text, self.statuses, self.requests) = (name, text, statuses, requests)
        }
    }

    /// The last request of each connection. A refused request ends the connection before it.
    private static let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    private static func post(_ fields: String, _ body: String = "") -> String { "POST /x HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\(body)" }

    static let taken = [
        Case("A plain request", "GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["/x?y", "/last"]),
        Case("A method in lower case is another method", "get /x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("An empty line before a request", "\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("A host and a port", "GET /x HTTP/1.1\r\nHost: a-1.example:7600\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("An IPv6 address", "GET /x HTTP/1.1\r\nHost: [::1]:7600\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("An empty host", "GET /x HTTP/1.1\r\nHost:\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("A URL as the target", "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("A query after a host", "GET http://b?x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["/?x", "/last"]),
        Case("OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200, requests: ["*", "/last"]),
        Case("A later minor version", "GET /x HTTP/1.7\r\nHost: a\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case("A body", post("Content-Length: 2\r\n", "ab"), 200, 200, requests: ["/x ab", "/last"]),
        Case("An empty body", post("Content-Length: 0\r\n"), 200, 200, requests: ["/x", "/last"]),
        Case(
            "Chunks", post("Transfer-Encoding: Chunked\r\n", "1\r\na\r\n2;x=\"y\"\r\nbc\r\n0\r\n\r\n"), 200, 200,
            requests: ["/x abc", "/last"]),
        Case(
            "Trailers", post("Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\nx: y\r\n\r\n"), 200, 200,
            requests: ["/x 0123456789", "/last"]),
        Case("HTTP/1.0 without a host", "GET /x HTTP/1.0\r\n\r\n", 200, requests: ["/x"]),
        Case("HTTP/1.0 that is kept alive", "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200, 200, requests: ["/x", "/last"]),
        Case(
            "HTTP/1.0 with chunks is the last request (RFC 9112 6.1)",
            "POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, requests: ["/x a"]),
        Case(
            "A connection option among others ends the connection", "GET /x HTTP/1.1\r\nHost: a\r\nConnection: x, Close , y\r\n\r\n", 200,
            requests: ["/x"]),
        Case(
            "Upgrade is ignored (RFC 9110 7.8)",
            "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
            200, 200, requests: ["/x", "/last"]),
        Case(
            "Upgrade with a body", post("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n", "a"), 200, 200,
            requests: ["/x a", "/last"]),
        Case("CONNECT is answered and ends the connection", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 200, requests: ["a:80"]),
    ]

    static let refused = [
        Case("No host (RFC 9112 3.2)", "GET /x HTTP/1.1\r\n\r\n", 400),
        Case("Two hosts", "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        Case("Two hosts in HTTP/1.0", "GET /x HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        Case("Two tokens", "GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
        Case("Two event IDs to resume from", "GET /x HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 1\r\nLast-Event-ID: 2\r\n\r\n", 400),
        Case("A host with a path", "GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        Case("A host with a blank", "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        Case("A host with a user", "GET /x HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
        Case("A port of letters", "GET /x HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
        Case("An address without its end", "GET /x HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        Case("A target that is no path", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("A URL without a host", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("A control character in the target", "GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("A blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("HTTP/0.9", "GET /x\r\n\r\n", 400),
        Case("HTTP/3.0", "GET /x HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        Case("A version in lower case", "GET /x http/1.1\r\nHost: a\r\n\r\n", 400),
        Case("Bytes that are no method", "\u{16}\u{3}\u{1}", 400),
        Case("Two empty lines before a request", "\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("Lines that end with LF", "GET /x HTTP/1.1\nHost: a\n\n", 400),
        Case("A blank before a colon (RFC 9112 5.1)", "GET /x HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        Case("A field without a colon", "GET /x HTTP/1.1\r\nHost: a\r\nx\r\n\r\n", 400),
        Case("A field without a name", "GET /x HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400),
        Case("A field over two lines (RFC 9112 5.2)", "GET /x HTTP/1.1\r\nHost: a\r\nx: y\r\n z\r\n\r\n", 400),
        Case("CR within a value", "GET /x HTTP/1.1\r\nHost: a\r\nx: y\rz\r\n\r\n", 400),
        Case("NUL within a value", "GET /x HTTP/1.1\r\nHost: a\r\nx: \u{0}\r\n\r\n", 400),
        Case("Two lengths", post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab"), 400),
        Case("A list of lengths", post("Content-Length: 2, 2\r\n", "ab"), 400),
        Case("A length with a sign", post("Content-Length: +2\r\n", "ab"), 400),
        Case("A length that no computer has", post("Content-Length: 99999999999999999999999\r\n"), 413),
        Case("Chunks and a length (RFC 9112 6.1)", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400),
        Case("A blank before the colon of a coding", post("Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400),
        Case("A coding over two lines", post("Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400),
        Case("A coding without a name", post("Transfer-Encoding:\r\n", "0\r\n\r\n"), 400),
        Case("A coding behind a control character", post("Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\n"), 400),
        Case("An empty length", post("Content-Length:\r\n"), 400),
        Case("A length in hexadecimal digits", post("Content-Length: 0x2\r\n", "ab"), 400),
        Case(
            "Chunks and a length in HTTP/1.0",
            "POST /x HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        Case("A length and chunks (RFC 9112 6.1)", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        Case("An unknown coding", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501),
        Case("Chunks that are not last", post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), 400),
        Case("Two codings", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        Case("A chunk without a length", post("Transfer-Encoding: chunked\r\n", "x\r\n"), 400),
        Case("A chunk of a negative length", post("Transfer-Encoding: chunked\r\n", "-1\r\n"), 400),
        Case("A chunk that is longer than it says", post("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"), 400),
        Case("A chunk's line that ends with LF", post("Transfer-Encoding: chunked\r\n", "1\na\r\n0\r\n\r\n"), 400),
        Case("A chunk longer than any body", post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n"), 413),
        Case("A trailer that is no field", post("Transfer-Encoding: chunked\r\n", "0\r\nx\r\n\r\n"), 400),
    ]

    private func statuses(_ answers: String) -> [Int] {
        answers.components(separatedBy: "HTTP/1.").dropFirst().compactMap { Int($0.dropFirst(2).prefix(3)) }
    }

    @Test("Valid requests are answered, and the connection goes on unless they end it", arguments: taken)
    func right(_ example: Case) async throws {
        let server = try await HTTP1Server.start()
        let answers = try await HTTP1Peer.talk(example.text + Self.last, to: server)
        #expect(statuses(answers) == example.statuses, "\(answers)")
        #expect(server.seen.requests == example.requests)
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    @Test("A request that two readers could understand differently is refused, and ends the connection", arguments: refused)
    func wrong(_ example: Case) async throws {
        let server = try await HTTP1Server.start()
        let answers = try await HTTP1Peer.talk(example.text + Self.last, to: server)
        #expect(statuses(answers) == example.statuses, "\(answers)")
        #expect(answers.contains("connection: close\r\n"))
        #expect(server.seen.requests == [] && server.seen.violations.count == 1)
        try await server.stop()
    }

    @Test("Requests mean the same however they are split into pieces", arguments: taken + refused)
    func pieces(_ example: Case) async throws {
        let server = try await HTTP1Server.start()
        let peer = try await HTTP1Peer.connect(to: server.port)
        for byte in (example.text + Self.last).utf8 {
            // Each piece is sent by itself.
            try? await peer.channel.writeAndFlush(ByteBuffer(bytes: [byte])).get()
        }
        let answers = try await peer.textUntilClosed()
        #expect(statuses(answers) == example.statuses, "\(answers)")
        #expect(server.seen.requests == example.requests)
        peer.close()
        try await server.stop()
    }

    @Test("An answer has the date (RFC 9110 6.6.1), and one with 401 names the way to log in (15.5.2)")
    func fieldsOfAnswers() async throws {
        let server = try await HTTP1Server.start { request, connection in
            let status = request.target.equals("/secret") ? 401 : 200
            connection.respond(to: request.stream, HTTPResponse(status: status, contentType: .text, body: ByteBuffer()))
        }
        let text = try await HTTP1Peer.talk("GET /secret HTTP/1.1\r\nHost: a\r\n\r\n" + Self.last, to: server)
        let answers = text.components(separatedBy: "HTTP/1.1 ").dropFirst()
        for answer in answers { #expect(answer.contains(/\r\ndate: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d GMT\r\n/)) }
        #expect(answers.map { $0.contains("\r\nwww-authenticate: Bearer\r\n") } == [true, false])
        try await server.stop()
    }

    @Test("A date is written as an IMF-fixdate (RFC 9110 5.6.7)")
    func date() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_709_164_799, "Wed, 28 Feb 2024 23:59:59 GMT"), (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
        ] {
            let date = HTTPDate()
            HTTPDate.format(seconds, into: date.bytes)
            #expect(String(decoding: date.bytes, as: UTF8.self) == text)
        }
    }

    @Test("A peer that waits for 100 gets it before the answer, except in HTTP/1.0", arguments: ["1.1", "1.0"])
    func expectation(version: String) async throws {
        let server = try await HTTP1Server.start()
        let head = "POST /x HTTP/\(version)\r\nHost: a\r\nConnection: close\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
        let peer = try await HTTP1Peer.connect(to: server.port, sending: head)
        if version == "1.1" {
            try await peer.text { text, _ in text == "HTTP/1.1 100 Continue\r\n\r\n" }
        } else {
            try await server.until { $0.http.connections.first?.hasRequested == true }
        }
        peer.send("{}")
        let text = try await peer.textUntilClosed()
        #expect(statuses(text) == (version == "1.1" ? [100, 200] : [200]), "\(text)")
        peer.close()
        try await server.stop()
    }

    @Test("A peer that does not wait for 100 does not get it")
    func needlessExpectation() async throws {
        let server = try await HTTP1Server.start()
        let text = try await HTTP1Peer.talk(Self.post("Expect: 100-continue\r\nContent-Length: 2\r\n", "{}") + Self.last, to: server)
        #expect(statuses(text) == [200, 200])
        try await server.stop()
    }

    @Test("Requests followed by FIN are answered, also those that are answered later", arguments: [false, true])
    func finAfterRequests(isLater: Bool) async throws {
        let server = try await HTTP1Server.start { request, connection in
            let stream = request.stream
            let hello = HTTPResponse(status: 200, contentType: .text, body: ByteBuffer(string: "hello"))
            let answer = { connection.respond(to: stream, hello) }
            if isLater { connection.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(20)) { answer() } } else { answer() }
        }
        for _ in 0..<20 {
            let peer = try await HTTP1Peer.connect(to: server.port)
            // FIN arrives in the same turn as the requests.
            peer.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            try await peer.finish()
            let text = try await peer.textUntilClosed()
            #expect(statuses(text) == [200, 200] && text.hasSuffix("hello"))
            peer.close()
        }
        try await server.until { $0.http.connectionsCount == 0 }
        try await server.stop()
    }

    @Test("FIN ends an event stream at once, and a connection without a request")
    func finWithoutRequest() async throws {
        let server = try await HTTP1Server.start { request, connection in connection.openEventStream(request.stream, token: 1) }
        for text in ["GET /events HTTP/1.1\r\nHost: a\r\n\r\n", "GET /ev", ""] {
            let peer = try await HTTP1Peer.connect(to: server.port, sending: text)
            if text.hasSuffix("\r\n\r\n") { try await peer.text { text, _ in text.contains("text/event-stream") } }
            try await peer.finish()
            try await peer.textUntilClosed()
            peer.close()
        }
        try await server.until { $0.http.connectionsCount == 0 }
        #expect(server.seen.streamsClosed == [.peerLeft])
        try await server.stop()
    }

    @Test("An event stream has chunks in HTTP/1.1, and ends with the connection in HTTP/1.0", arguments: ["1.1", "1.0"])
    func eventStream(version: String) async throws {
        let server = try await HTTP1Server.start { request, connection in
            connection.openEventStream(request.stream, token: 1)
            _ = connection.push(ByteBuffer(string: "data: 0123456789\n\n"), to: request.stream)
            connection.finish(request.stream)
        }
        let behind = "GET /behind HTTP/1.1\r\nHost: a\r\n\r\n"
        let text = try await HTTP1Peer.talk("GET /events HTTP/\(version)\r\nHost: a\r\n\r\n" + behind, to: server)
        #expect(text.contains("\r\nconnection: close\r\n"), "a later request is not answered")
        let body = version == "1.1" ? "12\r\ndata: 0123456789\n\n\r\n0\r\n\r\n" : "data: 0123456789\n\n"
        #expect(text.hasSuffix("\r\n\r\n" + body) && text.contains("transfer-encoding: chunked") == (version == "1.1"), "\(text)")
        #expect(server.seen.requests == ["/events"] && server.seen.streamsClosed == [.finished])
        try await server.stop()
    }

    @Test("A leaving node answers the request that it has begun to read with `connection: close`, and closes idle connections")
    func leaving() async throws {
        let server = try await HTTP1Server.start()
        let peers = try await [
            HTTP1Peer.connect(to: server.port, sending: "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"),
            HTTP1Peer.connect(to: server.port, sending: "GET /2 HTTP/1.1\r\n"), HTTP1Peer.connect(to: server.port, sending: "PRI"),
        ]
        try await peers[0].text { text, _ in text.hasSuffix("hello") }
        try await server.until { server in
            server.http.undecided.elements.count == 1 && server.http.connections.count == 2
                && server.http.connections.contains { $0.heldBytes > 0 }
        }
        try await server.onLoop { server in
            server.http.leave()
            server.http.goAway()
        }
        #expect(!(try await peers[0].textUntilClosed()).contains("connection: close"))
        peers[1].send("Host: a\r\n\r\n")
        // Only these bytes show that the client does not speak HTTP/2.
        peers[2].send("NT /3 HTTP/1.1\r\nHost: a\r\n\r\n")
        for peer in peers.dropFirst() {
            let text = try await peer.textUntilClosed()
            #expect(statuses(text) == [200] && text.contains("\r\nconnection: close\r\n"), "\(text)")
        }
        #expect(server.seen.requests.sorted() == ["/1", "/2", "/3"])
        for peer in peers { peer.close() }
        try await server.stop()
    }

    @Test("HEAD gets the fields of the answer without its body")
    func headRequest() async throws {
        let server = try await HTTP1Server.start()
        let text = try await HTTP1Peer.talk("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", to: server)
        #expect(text.contains("content-length: 5\r\n") && text.hasSuffix("\r\n\r\n"))
        try await server.stop()
    }

    @Test("A peer that goes on sending after a refusal can read the reason")
    func refusalReachesTheSender() async throws {
        let server = try await HTTP1Server.start()
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.post("Content-Length: 2000000\r\n"))
        peer.send(String(repeating: "x", count: 500_000))
        let text = try await peer.text { $1 && $0.hasSuffix("hello") }
        #expect(statuses(text) == [413])
        peer.close()
        try await server.until { $0.http.connectionsCount == 0 }
        try await server.stop()
    }
}
