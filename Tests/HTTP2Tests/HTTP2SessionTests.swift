import NIOCore
import Testing

@testable import HTTP2

/// Two machines joined in memory: what one sends, the other receives.
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

    /// Moves bytes both ways until both are silent; returns the events of each side as words.
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
        server.streams[slot].isFinished = true
        server.streams[slot].append(ByteBuffer(repeating: 9, count: bytes))
        server.respond(slot, [HTTP2Headers.status(200)])
    }

    @Test func aRequestIsAnsweredAndBothEndsForgetTheStream() {
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

    @Test func payloadsBeyondTheWindowWaitAndArriveWhole() {
        _ = request()
        let seen = exchange { answer($0, bytes: 900_000) }
        let received = seen.client.compactMap { $0.hasPrefix("data ") ? Int($0.dropFirst(5)) : nil }.reduce(0, +)
        #expect(received == 900_000)
    }

    @Test func aStreamAboveTheLimitIsNotOpened() {
        for _ in 0..<3 { #expect(request() != nil) }
        #expect(request() == nil)
    }

    @Test func aBodyAboveTheLimitIsReportedOnceAndDropped() {
        _ = request(body: 5_000)
        var tooLarge = 0
        exchange { slot in
            tooLarge += server.streams[slot].isBodyTooLarge ? 1 : 0
            #expect(server.streams[slot].body.isEmpty)
            answer(slot, bytes: 1)
        }
        #expect(tooLarge == 1)
        #expect(server.bufferedBytes == 0)
    }

    @Test func anEventStreamSendsWhatIsPushedAndEndsWhenFinished() {
        _ = request()
        var slot = -1
        exchange {
            slot = $0
            server.respond($0, [HTTP2Headers.status(200)])
        }
        for _ in 0..<3 { _ = server.push(ByteBuffer(string: "event"), to: slot) }
        let received = exchange().client.compactMap { $0.hasPrefix("data ") ? Int($0.dropFirst(5)) : nil }.reduce(0, +)
        #expect(received == 15)
        server.finish(slot)
        #expect(exchange().client.contains("closed 0"))
    }

    @Test func aPlaceThatIsUsedAgainIsAnotherStream() {
        let first = request()
        exchange { answer($0, bytes: 0) }
        let second = request()
        #expect(first != second)
        #expect(client.slot(of: first!) == nil)
        #expect(client.slot(of: second!) != nil)
    }

    @Test func junkIsRefused() {
        let junk = Array("this is no frame, and it is longer than nine bytes".utf8)
        let fresh = HTTP2Session(.server, limits: HTTPLimits(), chunk: chunk)
        #expect(!junk.withUnsafeBytes { fresh.receive($0, at: .distantPast) })
    }

    @Test func resetsAreCounted() {
        for _ in 0..<3 {
            let stream = request()
            exchange { server.respond($0, [HTTP2Headers.status(200)]) }
            client.reset(client.slot(of: stream!)!, error: 8)
            exchange()
        }
        #expect(server.takeResets() == 3)
        #expect(server.takeResets() == 0)
        #expect(server.openCount == 0)
    }
}
