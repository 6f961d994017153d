import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

/// The end of connections, over real sockets.
@Suite(.timeLimit(.minutes(1))) struct ClosedConnectionTests {
    /// The bytes that a client may have sent when it closes its connection.
    private static let beginnings: [[UInt8]] = [
        [], Array("PRI".utf8), Array("GET / HT".utf8), RawFrame.hello,
        RawFrame.hello + RawFrame(.headers, stream: 1, payload: RawFrame.get).bytes,
    ]

    @Test("A connection that its peer has closed is freed", arguments: beginnings)
    func nothingKeepsAClosedConnection(beginning: [UInt8]) async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .hours(1)
        let server = try await RawServer.start(limits)
        let accepted = Accepted()
        let listener = try await ServerBootstrap(group: server.http.eventLoop)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    accepted.channel = channel
                    try channel.pipeline.syncOperations.addHandler(accepted.counter)
                    try server.http.serve(channel)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let peer = try await RawPeer.connect(to: listener.localAddress?.port ?? 0, sending: beginning)
        try await server.until { _ in accepted.channel != nil && accepted.counter.bytesCount == beginning.count }
        try await peer.close()
        try await server.until { _ in accepted.channel == nil }
        try await listener.close()
        try await server.stop()
    }

    /// A weak reference to an accepted channel. Used on its loop.
    private final class Accepted: @unchecked Sendable {
        weak var channel: (any Channel)?
        let counter = Counter()
    }

    private final class Counter: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        var bytesCount = 0

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            bytesCount += unwrapInboundIn(data).readableBytes
            context.fireChannelRead(data)
        }
    }

    private static let unfinished: [[UInt8]] = [
        RawFrame(.headers, stream: 3, payload: RawFrame.get).bytes,
        Array(RawFrame.head(3, RawFrame.get).bytes.dropLast()),
        Array(RawFrame.head(3, RawFrame.get).bytes.prefix(5)),
        Array(RawFrame(.ping, payload: Array(0..<8)).bytes.dropLast()),
    ]

    /// A server whose sweeps the test calls with its own times, so that a busy machine ends nothing.
    private static func patientServer() async throws -> RawServer {
        var limits = HTTPLimits()
        limits.headerTimeout = headerTimeout
        limits.bodyTimeout = 3 * headerTimeout
        limits.idleTimeout = 10 * headerTimeout
        let server = try await RawServer.start(limits)
        server.http.lingeringTime = .seconds(5)
        return server
    }

    private static let headerTimeout = TimeAmount.seconds(100)

    /// Sends bytes that arrive as one read, and returns when they were read.
    private func send(_ bytes: [UInt8], by peer: RawPeer, to server: RawServer) async throws -> NIODeadline {
        let lastRead = { @Sendable (server: RawServer) in server.http.connections.first?.lastReceivedAt ?? .distantPast }
        let before = try await server.onLoop(lastRead)
        peer.send(bytes)
        try await server.until { lastRead($0) > before }
        return try await server.onLoop(lastRead)
    }

    private func pass(to time: NIODeadline, at server: RawServer) async throws { try await server.onLoop { $0.http.sweep(at: time) } }

    @Test("An unfinished header block or frame ends the connection, also after a request", arguments: unfinished)
    func unfinishedHeaderEndsTheConnection(unfinished: [UInt8]) async throws {
        for isFirst in [true, false] {
            let server = try await Self.patientServer()
            let beginning = isFirst ? RawFrame.hello : RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes
            let peer = try await RawPeer.connect(to: server.port, sending: beginning)
            try await peer.frames { frames, _ in isFirst ? frames.count >= 2 : frames.contains { $0.isEnd } }
            let start = try await send(unfinished, by: peer, to: server)
            try await pass(to: start + Self.headerTimeout - .seconds(10), at: server)
            #expect(server.seen.violations == [])
            try await pass(to: start + Self.headerTimeout + .nanoseconds(1), at: server)
            let frames = try await peer.framesUntilClosed()
            #expect(frames.last?.kind == .goAway, "\(frames)")
            #expect(server.seen.violations == [.headerTimeout])
            try await server.stop()
        }
    }

    @Test("A header block that arrives byte by byte has the same time as one that stops")
    func drippingHeaderEndsTheConnection() async throws {
        let server = try await Self.patientServer()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        let start = try await send(RawFrame(.headers, stream: 3, payload: RawFrame.get).bytes, by: peer, to: server)
        for _ in 0..<3 {
            _ = try await send(RawFrame(.continuation, stream: 3, payload: RawFrame.field("a", "b")).bytes, by: peer, to: server)
            #expect(server.seen.violations == [])
        }
        try await pass(to: start + Self.headerTimeout + .nanoseconds(1), at: server)
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway, "\(frames)")
        #expect(server.seen.violations == [.headerTimeout])
        try await server.stop()
    }

    @Test("A connection whose reads all end within a frame goes on while its frames become complete")
    func readsThatEndWithinAFrame() async throws {
        let server = try await Self.patientServer()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        let ping = RawFrame(.ping, payload: Array(0..<8)).bytes
        var start = try await send(Array(ping.prefix(10)), by: peer, to: server)
        for _ in 0..<3 {
            start = try await send(Array(ping.dropFirst(10) + ping.prefix(10)), by: peer, to: server)
            // Longer than since the frame before began.
            try await pass(to: start + Self.headerTimeout, at: server)
        }
        try await peer.frames { frames, _ in frames.count { $0.kind == .ping } == 3 }
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    @Test("A body has the time limit of a body, not that of a header")
    func bodyHasItsOwnTime() async throws {
        let server = try await Self.patientServer()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        try await peer.frames { frames, _ in frames.count >= 2 }
        let body = RawFrame(.data, flags: RawFrame.endStream, stream: 1, payload: [1, 2, 3]).bytes
        let start = try await send(RawFrame.head(1, RawFrame.post, isEnd: false).bytes + body.dropLast(), by: peer, to: server)
        try await pass(to: start + Self.headerTimeout + .seconds(100), at: server)
        peer.send(Array(body.suffix(1)))
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    // MARK: FIN

    @Test("A request followed by FIN is answered", arguments: [0, 200])
    func requestBeforeFINIsAnswered(milliseconds: Int64) async throws {
        let server = try await RawServer.start { request, connection in
            let stream = request.stream
            let answer = {
                connection.respond(to: stream, HTTPResponse(status: 200, contentType: .text, body: ByteBuffer(string: "hello")))
            }
            if milliseconds == 0 { return answer() }
            connection.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { answer() }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.finish()
        let frames = try await peer.framesUntilClosed()
        #expect(frames.contains { $0.kind == .data && $0.isEnd && $0.payload == Array("hello".utf8) }, "\(frames)")
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    @Test("An event stream ends with the FIN of its peer, also while a request of the connection waits for its answer")
    func eventStreamEndsWithFIN() async throws {
        let server = try await RawServer.start { request, connection in
            if request.stream.number == 1 { RawServer.openStream(request, connection) }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, RawFrame.get), .head(3, RawFrame.get)])
        try await server.until { $0.seen.requests.count == 2 }
        try await peer.finish()
        try await server.until { $0.seen.streamsClosed == [.peerLeft] }
        #expect(server.seen.connections == 1)
        try await server.onLoop {
            $0.http.connections.first?.respond(
                to: StreamID(slot: 1, number: 3), HTTPResponse(status: 200, contentType: .text, body: ByteBuffer()))
        }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.contains { $0.stream == 3 && $0.isEnd }, "\(frames)")
        try await server.stop()
    }

    @Test("After FIN a connection closes when its last request is not answered in time")
    func unansweredRequestAfterFINIsCutOff() async throws {
        var limits = HTTPLimits()
        limits.stallTimeout = .milliseconds(500)
        let server = try await RawServer.start(limits) { _, _ in }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await server.until { $0.seen.requests.count == 1 }
        try await peer.finish()
        try await peer.framesUntilClosed()
        try await server.until { $0.seen.connections == 0 }
        try await server.stop()
    }
}
