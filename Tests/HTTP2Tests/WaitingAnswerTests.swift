import NIOCore
import Testing

@testable import HTTP2

/// Answers that wait because the peer's windows are closed (RFC 9113 §5.2), over real sockets.
@Suite(.timeLimit(.minutes(1))) struct WaitingAnswerTests {
    private static let answerBytes = 10_000

    private static func answer(_ request: HTTPRequest, _ connection: HTTPServerConnection) {
        let body = ByteBuffer(repeating: 7, count: answerBytes)
        connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: body))
    }

    private static func requests(_ count: UInt32) -> [RawFrame] { (0..<count).map { .head(2 * $0 + 1, RawFrame.get) } }

    private static let ping = RawFrame(.ping, payload: Array(0..<8))

    @Test("Requests wait while too many bytes of answers wait, and are answered after those are sent")
    func requestsWaitForAnswers() async throws {
        var limits = HTTPLimits()
        limits.waitingBytesMax = 5 * Self.answerBytes
        let server = try await RawServer.start(limits, answering: Self.answer)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
        peer.send(Self.requests(100) + [Self.ping])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect((5...6).contains(server.seen.requests.count))
        peer.send([.update(0, by: 100 * UInt32(Self.answerBytes)), .initialWindow(UInt32(Self.answerBytes))])
        let frames = try await peer.frames { frames, _ in frames.count { $0.isEnd } == 100 }
        #expect(frames.filter { $0.kind == .data }.reduce(0) { $0 + $1.payload.count } == 100 * Self.answerBytes)
        #expect(server.seen.requests.count == 100 && server.seen.violations == [])
        try await server.stop()
    }

    @Test("A peer that changes the window of many waiting answers again and again is cut off, and one that does so a few times is not")
    func initialWindowFlood() async throws {
        let server = try await RawServer.start(answering: Self.answer)
        let requests = RawFrame.preface + RawFrame.initialWindow(0).bytes + Self.requests(80).flatMap(\.bytes)
        let patient = try await RawPeer.connect(to: server.port, sending: requests)
        patient.send((1...20).map { .initialWindow($0 % 2) } + [Self.ping])
        try await patient.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(server.seen.violations == [])
        // Each change counts as forty resets, and so more than fifty are too many.
        let peer = try await RawPeer.connect(to: server.port, sending: requests)
        peer.send((1...51).map { .initialWindow($0 % 2) })
        try await peer.framesUntilClosed()
        #expect(server.seen.violations == [.resetFlood])
        try await server.stop()
    }

    @Test("A waiting request that its peer resets is not begun")
    func waitingRequestIsReset() async throws {
        var limits = HTTPLimits()
        limits.waitingBytesMax = Self.answerBytes
        let server = try await RawServer.start(limits, answering: Self.answer)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
        peer.send(Self.requests(3) + [RawFrame(.reset, stream: 5, payload: RawFrame.big(8)), Self.ping])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        peer.send([.initialWindow(UInt32(Self.answerBytes))])
        try await peer.frames { frames, _ in frames.count { $0.isEnd } == 2 }
        #expect(server.seen.requests.count == 2)
        try await server.stop()
    }

    @Test("A connection whose peer does not read its answers for a while is closed")
    func shutWindowEndsTheConnection() async throws {
        var limits = HTTPLimits()
        limits.stallTimeout = .milliseconds(500)
        let server = try await RawServer.start(limits, answering: Self.answer)
        server.http.lingeringTime = .seconds(5)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(100).bytes)
        peer.send(Self.requests(3))
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == 11, "\(frames)")
        #expect(server.seen.violations == [.windowShut])
        try await server.stop()
    }

    @Test("A connection whose peer reads its answers slowly goes on")
    func slowReaderGoesOn() async throws {
        var limits = HTTPLimits()
        // Longer than a busy machine delays a loop, and shorter than the answer takes.
        limits.stallTimeout = .seconds(6)
        let server = try await RawServer.start(limits, answering: Self.answer)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
        peer.send(Self.requests(1))
        let updates = peer.channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(1_000)) { _ in
            peer.send([.update(1, by: UInt32(Self.answerBytes / 8))])
        }
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        updates.cancel()
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    /// The heartbeat ends such a session: a phone in a tunnel has twice as long.
    @Test("A silent connection with an event stream is not closed for its closed window")
    func silentEventStreamStays() async throws {
        var limits = HTTPLimits()
        limits.stallTimeout = .milliseconds(200)
        let server = try await RawServer.start(limits) { request, connection in
            if request.stream.number == 1 { RawServer.openStream(request, connection) } else { Self.answer(request, connection) }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
        let start = NIODeadline.now()
        peer.send(Self.requests(2))
        try await server.until { _ in .now() - start > .milliseconds(2_500) }
        #expect(server.seen.violations == [] && server.seen.connections == 1)
        peer.send([Self.ping])
        try await peer.framesUntilClosed()
        #expect(server.seen.violations == [.windowShut] && server.seen.streamsClosed == [.peerLeft])
        try await server.stop()
    }

    #if os(Linux)
        @Test("The kernel holds few bytes for a peer that does not read")
        func kernelKeepsLittle() async throws {
            var limits = HTTPLimits()
            (limits.waitingBytesMax, limits.heldBytesMax) = (100 << 20, 100 << 20)
            let server = try await RawServer.start(limits) { request, connection in
                let body = ByteBuffer(repeating: 7, count: 8 << 20)
                connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: body))
            }
            let windows = [RawFrame.initialWindow(UInt32(Int32.max)), .update(0, by: 1 << 30)].flatMap(\.bytes)
            let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + windows, receiveBytes: 4_096)
            peer.send(Self.requests(1))
            try await server.until { $0.http.sharedLimits.heldBytes > 0 }
            let heldBytes = try await server.onLoop { $0.http.sharedLimits.heldBytes }
            #expect(heldBytes > 7 << 20, "the kernel has taken the rest of 8 MB")
            try await server.stop()
        }
    #endif

    // MARK: All connections of a loop

    /// Requests of which only the heads have arrived.
    private static func beginnings(_ count: UInt32) -> [RawFrame] {
        let fields = RawFrame.post + RawFrame.field("authorization", String(repeating: "a", count: 500))
        return (0..<count).map { .head(2 * $0 + 1, fields, isEnd: false) }
    }

    @Test("When the connections of a loop hold too much, the one that holds most ends")
    func largestConnectionEnds() async throws {
        var limits = HTTPLimits()
        limits.heldBytesMax = 800_000
        let server = try await RawServer.start(limits) { _, _ in }
        var peers: [RawPeer] = []
        for count in [1, 300, 600] as [UInt32] {
            let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
            peer.send(Self.beginnings(count) + [Self.ping])
            peers.append(peer)
            if count < 600 { try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } } }
        }
        let frames = try await peers[2].framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == 11, "\(frames)")
        try await server.until { $0.seen.connections == 2 }
        #expect(server.seen.violations == [.heldTooMuch])
        let heldBytes = try await server.onLoop { $0.http.sharedLimits.heldBytes }
        #expect((300_000..<400_000).contains(heldBytes))
        for peer in peers.prefix(2) { try await peer.close() }
        try await server.until { $0.http.sharedLimits.heldBytes == 0 }
        try await server.stop()
    }

    @Test("When the connections of a loop hold too many unread answers, the oldest is reset, and its connection goes on")
    func oldestUnreadAnswerEnds() async throws {
        var limits = HTTPLimits()
        limits.heldBytesMax = 6 * Self.answerBytes
        let server = try await RawServer.start(limits, answering: Self.answer)
        var peers: [RawPeer] = []
        for count in [2, 2, 2] as [UInt32] {
            let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
            peer.send(Self.requests(count) + [Self.ping])
            try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
            peers.append(peer)
        }
        let frames = try await peers[0].frames { frames, _ in frames.contains { $0.kind == .reset } }
        #expect(frames.filter { $0.kind == .reset }.map(\.error) == [11])
        #expect(server.seen.violations == [.unreadTooMuch] && server.seen.connections == 3)
        #expect(try await server.onLoop { $0.http.heldBytes } == 5 * (512 + Self.answerBytes))
        for peer in peers { peer.send([.initialWindow(UInt32(Self.answerBytes))]) }
        for (peer, count) in zip(peers, [1, 2, 2]) { try await peer.frames { frames, _ in frames.count { $0.isEnd } == count } }
        try await server.until { $0.http.heldBytes == 0 }
        try await server.stop()
    }

    @Test("A copied answer counts as a whole until all of it is sent, because its memory is freed as a whole")
    func answerCountsAsAWhole() async throws {
        let server = try await RawServer.start { request, connection in
            [UInt8](repeating: 7, count: Self.answerBytes).withUnsafeBufferPointer { body in
                connection.respond(to: request.stream, status: 200, contentType: .octets, body: body)
            }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(9_000).bytes)
        peer.send(Self.requests(1))
        try await peer.frames { frames, _ in frames.filter { $0.kind == .data }.reduce(0) { $0 + $1.payload.count } == 9_000 }
        #expect(try await server.onLoop { $0.http.heldBytes } == 512 + Self.answerBytes)
        peer.send([.initialWindow(UInt32(Self.answerBytes))])
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        try await server.until { $0.http.heldBytes == 0 }
        try await server.stop()
    }

    @Test("The bytes of a stream count until it ends in any way")
    func heldBytesAreGivenBack() async throws {
        let server = try await RawServer.start { request, connection in
            switch request.stream.number {
            case 1: RawServer.openStream(request, connection)
            case 3: connection.reset(request.stream)
            case 5: break
            default: Self.answer(request, connection)
            }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send(
            Self.requests(5) + [
                .head(11, RawFrame.post, isEnd: false), RawFrame(.data, stream: 11, payload: Array(repeating: 1, count: 999)),
            ])
        peer.send([RawFrame(.reset, stream: 5, payload: RawFrame.big(8)), Self.ping])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } && frames.count { $0.isEnd } == 2 }
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 512 + 999 + 1)
        peer.send([RawFrame(.data, flags: RawFrame.endStream, stream: 11)])
        try await peer.frames { frames, _ in frames.count { $0.isEnd } == 3 }
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 0)
        try await server.stop()
    }

    @Test("A trusted connection may hold more than all others")
    func trustedConnectionMayHoldMore() async throws {
        var limits = HTTPLimits()
        limits.heldBytesMax = 200_000
        let server = try await RawServer.start(limits) { request, connection in
            if request.stream.number == 1 { connection.setLimits(limits) }
        }
        let trusted = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        trusted.send(Self.beginnings(400).dropFirst() + [Self.ping])
        try await trusted.frames { frames, _ in frames.contains { $0.kind == .ping } }
        let other = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        other.send(Self.beginnings(400))
        try await other.framesUntilClosed()
        try await server.until { $0.seen.connections == 1 }
        #expect(server.seen.violations == [.heldTooMuch])
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 0)
        try await server.stop()
    }

    @Test("A field that a request repeats is kept once")
    func repeatedFieldsAreKeptOnce() async throws {
        let server = try await RawServer.start { _, _ in }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        let field = RawFrame.field("authorization", String(repeating: "a", count: 1_000), isIndexed: true)
        peer.send([.head(1, RawFrame.post + field + [UInt8](repeating: RawFrame.lastIndexed, count: 10), isEnd: false), Self.ping])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 512 + 1_000 + 1)
        try await server.stop()
    }
}
