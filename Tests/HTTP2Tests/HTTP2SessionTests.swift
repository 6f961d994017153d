import NIOCore
import Testing

@testable import HTTP2

/// Two sessions joined in memory: each receives the bytes that the other sends.
@Suite struct HTTP2SessionTests {
    let chunk = FrameChunk()
    let client: HTTP2Session
    let server: HTTP2Session

    init() {
        var limits = HTTPLimits()
        limits.streamsMax = 3
        limits.bodyBytesMax = 1_000
        client = HTTP2Session(.client, limits: limits, chunk: chunk)
        server = HTTP2Session(.server, limits: limits, chunk: chunk)
        exchange()
    }

    /// Moves bytes both ways until both sides are silent. Returns the events of each side as words.
    @discardableResult
    private func exchange(_ answer: (Int) -> Void = { _ in }) -> (client: [String], server: [String]) {
        var seen: (client: [String], server: [String]) = ([], [])
        while true {
            let moved = move(client, server)
            server.takeEvents { event in
                seen.server.append(Self.name(event))
                if case .request(let slot) = event { answer(slot) }
            }
            let movedBack = move(server, client)
            client.takeEvents { event in
                if case .data(_, let bytes) = event {
                    seen.client.append("data \(bytes.count)")
                } else {
                    seen.client.append(Self.name(event))
                }
            }
            if !moved, !movedBack { return seen }
        }
    }

    private func respond(_ slot: Int) {
        [HTTP2Headers.status(200)].withUnsafeBufferPointer { server.respond(slot, $0) }
    }

    private func move(_ from: HTTP2Session, _ to: HTTP2Session) -> Bool {
        var buffer = ByteBuffer()
        _ = from.send(into: &buffer, bytesMax: 1 << 20)
        guard buffer.readableBytes > 0 else { return false }
        return buffer.withUnsafeReadableBytes { to.receive($0, at: .distantPast) }
    }

    private static func name(_ event: HTTP2Session.Event) -> String {
        switch event {
        case .request: "request"
        case .head: "head"
        case .data: "data"
        case .closed(_, _, let error): "closed \(error)"
        case .overflow: "overflow"
        case .settings: "settings"
        case .goAway: "goAway"
        }
    }

    private func request(body: Int = 0) -> StreamID? {
        let fields = [
            HTTP2Headers.field(":method", "POST"), HTTP2Headers.field(":scheme", "http"), HTTP2Headers.field(":path", "/x"),
            HTTP2Headers.field(":authority", "a"),
        ]
        return client.request(fields, body: ByteBuffer(repeating: 7, count: body), token: 1, at: .distantPast)
    }

    private func answer(_ slot: Int, bytes: Int) {
        server.streams[slot].append(ByteBuffer(repeating: 9, count: bytes))
        respond(slot)
    }

    @Test("A request is answered, and both ends release the stream")
    func answer() {
        _ = request(body: 10)
        let seen = exchange { slot in
            #expect(server.streams[slot].body == Array(repeating: 7, count: 10))
            answer(slot, bytes: 5)
        }
        #expect(seen.server == ["request", "closed 0"])
        #expect(seen.client == ["head", "data 5", "closed 0"])
        #expect(client.openCount == 0)
        #expect(server.openCount == 0)
    }

    @Test("Payloads beyond the window wait and arrive completely")
    func payloadBeyondTheWindow() {
        _ = request()
        let seen = exchange { answer($0, bytes: 900_000) }
        let received = seen.client.compactMap { $0.hasPrefix("data ") ? Int($0.dropFirst(5)) : nil }.reduce(0, +)
        #expect(received == 900_000)
    }

    @Test("A call returns at most one frame more than it was asked for, however much waits")
    func sendIsBounded() {
        var counts: [Int] = []
        _ = request()
        exchange { slot in
            answer(slot, bytes: 1 << 20)
            var part = ByteBuffer()
            while server.send(into: &part, bytesMax: 20_000) {
                counts.append(part.readableBytes)
                #expect(part.withUnsafeReadableBytes { client.receive($0, at: .distantPast) })
                part.clear()
            }
        }
        #expect(counts.count > 5 && counts.allSatisfy { $0 < 20_000 + 16_384 + 9 }, "\(counts)")
    }

    @Test("A request that arrives before the server has sent GOAWAY is answered")
    func requestBeforeGoAway() {
        _ = request()
        server.goAway()
        #expect(exchange { answer($0, bytes: 5) }.client == ["head", "goAway", "data 5", "closed 0"])
        #expect(server.isOver)
    }

    @Test("A request that the server did not take is closed as safe to repeat")
    func requestAfterGoAway() {
        server.goAway()
        var goodbye = ByteBuffer()
        _ = server.send(into: &goodbye, bytesMax: 1 << 20)
        _ = request()
        #expect(move(client, server))
        server.takeEvents { Issue.record("the server takes \(Self.name($0))") }
        #expect(goodbye.withUnsafeReadableBytes { client.receive($0, at: .distantPast) })
        var seen: [String] = []
        client.takeEvents { seen.append(Self.name($0)) }
        #expect(seen == ["goAway", "closed 7"])
    }

    @Test("A stream above the limit is not opened")
    func streamsMax() {
        for _ in 0..<3 { #expect(request() != nil) }
        #expect(request() == nil)
    }

    @Test("A body above the limit is reported once and dropped")
    func bodyBytesMax() {
        _ = request(body: 5_000)
        var tooLarge = 0
        exchange { slot in
            tooLarge += server.streams[slot].hasTooLargeBody ? 1 : 0
            #expect(server.streams[slot].body.isEmpty)
            answer(slot, bytes: 1)
        }
        #expect(tooLarge == 1)
        #expect(server.bufferedBytes == 0)
    }

    @Test("An event stream sends pushed events and ends when it is finished")
    func eventStream() {
        let (_, slot) = openEvents()
        for _ in 0..<3 { _ = server.push(ByteBuffer(string: "event"), to: slot) }
        let received = exchange().client.compactMap { $0.hasPrefix("data ") ? Int($0.dropFirst(5)) : nil }.reduce(0, +)
        #expect(received == 15)
        server.finish(slot)
        #expect(exchange().client.contains("closed 0"))
    }

    @Test("A stream in a reused slot has another ID")
    func reusedSlot() {
        let first = request()
        exchange { answer($0, bytes: 0) }
        let second = request()
        #expect(first != second)
        #expect(client.slot(of: first!) == nil)
        #expect(client.slot(of: second!) != nil)
    }

    /// Clients of one thread share the memory in which nghttp2 keeps the preface.
    @Test("Clients that are made together all begin with the preface")
    func prefaces() {
        let others = (0..<3).map { _ in HTTP2Session(.client, limits: HTTPLimits(), chunk: chunk) }
        let firsts = others.map { other in
            var buffer = ByteBuffer()
            _ = other.send(into: &buffer, bytesMax: 1 << 20)
            return buffer.readString(length: 24)
        }
        #expect(firsts == Array(repeating: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", count: 3))
    }

    private func openEvents() -> (client: StreamID, server: Int) {
        var opened = 0
        let stream = request()
        exchange { slot in
            opened = slot
            [HTTP2Headers.status(200)].withUnsafeBufferPointer { server.openEvents(slot, $0) }
        }
        return (stream!, opened)
    }

    private func received(_ seen: [String]) -> Int { seen.compactMap { Int($0.dropFirst(5)) }.reduce(0, +) }

    /// The client's window for a stream is 256 KiB. If the server exceeded it, the client's nghttp2 would end the connection.
    @Test("Events of any size arrive within the windows", arguments: [1, 255 << 10, 256 << 10, 1 << 20, 40 << 20])
    func eventsWithinTheWindows(bytesCount: Int) {
        let (_, slot) = openEvents()
        _ = server.push(ByteBuffer(repeating: 1, count: bytesCount), to: slot)
        let seen = exchange()
        #expect(received(seen.client) == bytesCount)
        #expect(!seen.client.contains("goAway"))
        #expect(server.streams[slot].queuedBytes == 0)
    }

    @Test("Events and answers share the window of the connection")
    func sharedWindow() {
        let (_, first) = openEvents()
        let (_, second) = openEvents()
        for _ in 0..<30 {
            _ = server.push(ByteBuffer(repeating: 1, count: 1 << 20), to: first)
            _ = server.push(ByteBuffer(repeating: 2, count: 1 << 20), to: second)
            _ = request()
            let seen = exchange { answer($0, bytes: 300_000) }
            #expect(received(seen.client) == 2 << 20 + 300_000)
            #expect(seen.client.contains("closed 0"))
        }
    }

    @Test("An event stream ends after its queue")
    func eventStreamEndsAfterItsQueue() {
        let (_, slot) = openEvents()
        _ = server.push(ByteBuffer(repeating: 1, count: 600_000), to: slot)
        server.finish(slot)
        let seen = exchange()
        #expect(received(seen.client) == 600_000)
        #expect(seen.client.last == "closed 0")
    }

    @Test("Nothing is sent on a stream that was reset")
    func resetStream() {
        let (stream, slot) = openEvents()
        _ = server.push(ByteBuffer(repeating: 1, count: 100), to: slot)
        server.reset(slot, error: 8)
        let seen = exchange()
        #expect(received(seen.client) == 0)
        #expect(client.slot(of: stream) == nil)
    }

    /// The server takes WINDOW_UPDATE frames out of the bytes for nghttp2, wherever the reads are split.
    @Test("Reads may split frames anywhere", arguments: 1...30)
    func splitFrames(bytesMax: Int) {
        let (_, slot) = openEvents()
        _ = server.push(ByteBuffer(repeating: 1, count: 3 << 20), to: slot)
        var count = 0
        while true {
            var out = ByteBuffer()
            _ = server.send(into: &out, bytesMax: 1 << 20)
            guard out.readableBytes > 0 else { break }
            #expect(out.withUnsafeReadableBytes { client.receive($0, at: .distantPast) })
            client.takeEvents { if case .data(_, let bytes) = $0 { count += bytes.count } }
            var back = ByteBuffer()
            _ = client.send(into: &back, bytesMax: 1 << 20)
            while let part = back.readSlice(length: min(bytesMax, back.readableBytes)), part.readableBytes > 0 {
                #expect(part.withUnsafeReadableBytes { server.receive($0, at: .distantPast) })
            }
            server.takeEvents { _ in }
        }
        #expect(count == 3 << 20)
    }

    @Test("Bytes that are not HTTP/2 are refused")
    func invalidBytes() {
        let junk = Array("this is no frame, and it is longer than nine bytes".utf8)
        let fresh = HTTP2Session(.server, limits: HTTPLimits(), chunk: chunk)
        #expect(!junk.withUnsafeBytes { fresh.receive($0, at: .distantPast) })
    }

    @Test("Resets of the peer are counted")
    func resets() {
        for _ in 0..<3 {
            let stream = request()
            exchange()
            client.reset(client.slot(of: stream!)!, error: 8)
            exchange()
        }
        #expect(server.takeResets() == 3)
        #expect(server.takeResets() == 0)
        #expect(server.openCount == 0)
    }
}
