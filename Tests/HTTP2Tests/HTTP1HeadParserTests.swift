import Testing

@testable import HTTP2

/// The lines that ``HTTP1HeadParser`` reads, and how one changes the effect of another.
@Suite struct HTTP1HeadParserTests {
    private static func parse(_ text: String) throws(HTTP1Refusal) -> HTTP1Head? {
        var parser = HTTP1HeadParser()
        let bytes = Array(text.utf8)
        return try bytes.withUnsafeBufferPointer { bytes throws(HTTP1Refusal) in
            try parser.parse(bytes, HTTPLimits()) ? parser.head : nil
        }
    }

    private static func head(_ version: String, _ fields: String) throws(HTTP1Refusal) -> HTTP1Head? {
        try parse("POST /x HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n")
    }

    @Test(
        "`close` prevails over `keep-alive` in any order, and HTTP/1.0 goes on only with `keep-alive` and without chunks",
        arguments: [
            ("1.1", "", true), ("1.1", "Connection: keep-alive\r\n", true), ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: close, keep-alive\r\n", false), ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
            ("1.1", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", true), ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true), ("1.0", "Connection: close\r\nConnection: keep-alive\r\n", false),
            ("1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", false),
        ])
    func persistence(version: String, fields: String, isKeptAlive: Bool) throws {
        #expect(try #require(try Self.head(version, fields)).isKeptAlive == isKeptAlive)
    }

    @Test("A body has a length or chunks, never both, and the length is 0 without a field")
    func bodies() throws {
        #expect(try Self.head("1.1", "")?.body == .length(0))
        #expect(try Self.head("1.1", "Content-Length: 12\r\n")?.body == .length(12))
        #expect(try Self.head("1.1", "Transfer-Encoding: chunked\r\n")?.body == .chunked)
        let fields = ["Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n"]
        for both in [fields, fields.reversed(), [fields[0], fields[0]], [fields[1], fields[1]]] {
            let refusal = #expect(throws: HTTP1Refusal.self) { _ = try Self.head("1.1", both.joined()) }
            #expect(refusal?.status == 400)
        }
    }

    @Test("The trace of a request is that of its one `traceparent`, whatever the case of the name")
    func traceparent() throws {
        for (fields, value) in [
            ("", nil), ("traceparent: a\r\n", "a"), ("TraceParent:\t a b \r\n", "a b"), ("traceparent:\r\n", ""),
            ("traceparent: a\r\ntraceparent: a\r\n", ""), ("traceparent: a\r\nTraceparent: b\r\ntraceparent: c\r\n", ""),
        ] as [(String, String?)] {
            let head = try #require(try Self.head("1.1", fields))
            let bytes = Array("POST /x HTTP/1.1\r\nHost: a\r\n\(fields)\r\n".utf8)
            #expect(head.traceparent.map { String(decoding: bytes[$0], as: UTF8.self) } == value, "\(fields)")
        }
    }

    @Test("One empty line before the request line is ignored, also when it arrives alone")
    func emptyLines() throws {
        var parser = HTTP1HeadParser()
        let bytes = Array("\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for count in bytes.indices {
            let isWhole = try bytes[..<count].withUnsafeBufferPointer { bytes throws(HTTP1Refusal) in
                try parser.parse(bytes, HTTPLimits())
            }
            #expect(!isWhole)
        }
        #expect(try Self.parse(String(decoding: bytes, as: UTF8.self))?.bytesCount == bytes.count)
        #expect(throws: HTTP1Refusal.self) { _ = try Self.parse("\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n") }
    }

    @Test("A field with an empty value counts as the one that there may be", arguments: ["Authorization", "Last-Event-ID"])
    func emptyValues(name: String) throws {
        let head = try #require(try Self.head("1.1", "\(name):\r\n"))
        #expect((name == "Authorization" ? head.authorization : head.lastEventID)?.isEmpty == true)
        #expect(throws: HTTP1Refusal.self) { _ = try Self.head("1.1", "\(name):\r\n\(name): b\r\n") }
    }
}
