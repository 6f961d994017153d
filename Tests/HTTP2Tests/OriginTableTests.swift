import Testing

@testable import HTTP2

/// The origins of web pages: see ``HTTP2/AllowedOrigins``.
@Suite struct OriginTableTests {
    private func value(of origin: String, in table: OriginTable) -> String? {
        let number = Array(origin.utf8).withUnsafeBufferPointer { table.number(of: $0) }
        return table.withValue(of: number) { $0.map { String(decoding: $0, as: UTF8.self) } }
    }

    @Test("Only exact origins of the list are allowed, and each is repeated") func exact() {
        var allowed = AllowedOrigins()
        allowed.origins = ["https://app.example.com", "https://chat.example.com:8443"]
        let table = OriginTable(allowed)
        for origin in allowed.origins { #expect(value(of: origin, in: table) == origin) }
        for origin in [
            "https://app.example.com:443", "http://app.example.com", "https://app.example.com.evil.org", "null", "", "http://localhost",
        ] {
            #expect(value(of: origin, in: table) == nil, "\(origin)")
        }
    }

    @Test("With * every origin is allowed, and * is the answer") func any() {
        var allowed = AllowedOrigins()
        allowed.isAny = true
        let table = OriginTable(allowed)
        #expect(value(of: "https://somebody.example", in: table) == "*" && value(of: "null", in: table) == "*")
    }

    @Test(
        "Pages of the same machine are recognized by the whole host",
        arguments: [
            ("http://localhost", true), ("https://localhost:5173", true), ("http://127.0.0.1:8080", true), ("http://[::1]:3000", true),
            ("http://localhost.evil.org", false), ("http://localhost:80a", false), ("http://localhost:", false), ("ftp://localhost", false),
            ("http://127.0.0.10", false), ("http://localhost:123456", false), ("http://evil.org/http://localhost", false),
        ]) func loopback(_ origin: String, _ isLoopback: Bool)
    {
        #expect(Array(origin.utf8).withUnsafeBufferPointer { OriginTable.isLoopback($0) } == isLoopback)
    }

    @Test("A table that is full of loopback origins answers * to the next ones, and keeps the first") func full() {
        var allowed = AllowedOrigins()
        allowed.allowsLoopback = true
        let table = OriginTable(allowed)
        for port in 1...300 {
            let origin = "http://localhost:\(port)"
            #expect(value(of: origin, in: table) == (port <= 237 ? origin : "*"), "\(port)")
        }
        #expect(value(of: "http://localhost:1", in: table) == "http://localhost:1")
        #expect(value(of: "https://app.example.com", in: table) == nil)
    }

    @Test("A few refused origins are remembered for logs, and no text that browsers do not send") func refused() {
        let table = OriginTable(AllowedOrigins())
        func refusal(_ origin: String) -> String? {
            let number = Array(origin.utf8).withUnsafeBufferPointer { table.number(of: $0) }
            #expect(!number.isAllowed && number.public == .refused)
            return table.refusedValue(of: number)
        }
        for _ in 1...2 {
            #expect(refusal("https://app.example.com") == "https://app.example.com" && refusal("null") == "null")
            for text in ["", "x", "https://a\u{1b}[2J", "https://" + String(repeating: "a", count: 300)] { #expect(refusal(text) == nil) }
        }
        for index in 1...100 { #expect((refusal("https://\(index).example") != nil) == (index <= 14)) }
        #expect(refusal("https://1.example") == "https://1.example" && refusal("https://100.example") == nil)
    }

    @Test(
        "A configured origin has the form that browsers send",
        arguments: [
            ("https://app.example.com", true), ("http://10.0.0.1:8080", true), ("https://app.example.com/", false),
            ("app.example.com", false),
            ("https://*.example.com", false), ("HTTPS://app.example.com", false), ("https://", false), ("*", false),
        ]) func form(_ text: String, _ isOrigin: Bool)
    { #expect(AllowedOrigins.isOrigin(text) == isOrigin) }
}
