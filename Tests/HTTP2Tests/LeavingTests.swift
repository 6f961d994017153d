import NIOCore
import Synchronization
import Testing

@testable import HTTP2

/// A server that leaves does not interrupt open streams (RFC 9113 §6.8), over real sockets.
///
/// Python's h2 and httpx lose every stream of a connection with GOAWAY, whatever its last stream ID is.
@Suite(.timeLimit(.minutes(1))) struct LeavingTests {
    private static let ping = RawFrame(.ping, payload: Array(0..<8))

    /// Starts a server that opens an event stream for stream 1 and answers all others, with a client that has the event stream open.
    private func start() async throws -> (RawServer, RawPeer) {
        let server = try await RawServer.start { request, connection in
            if request.stream.number == 1 { RawServer.openStream(request, connection) } else { RawServer.sayHello(request, connection) }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.kind == .headers } }
        return (server, peer)
    }

    private static let stream = StreamID(slot: 0, number: 1)

    @Test("The hint arrives without GOAWAY, requests are served, and GOAWAY follows the end of the event stream")
    func goAwayAfterTheLastStream() async throws {
        let (server, peer) = try await start()
        try await server.onLoop { server in
            _ = server.http.connections.first?.push(ByteBuffer(string: "hint"), to: Self.stream)
            server.http.leave()
        }
        try await peer.frames { frames, _ in frames.contains { $0.payload == Array("hint".utf8) } }
        peer.send([.head(3, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.stream == 3 && $0.isEnd } }
        peer.send([Self.ping])
        let before = try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(!before.contains { $0.kind == .goAway }, "\(before)")
        peer.send([RawFrame(.reset, stream: 1, payload: RawFrame.big(8))])
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.payload == RawFrame.big(3) + RawFrame.big(0), "\(frames)")
        #expect(server.seen.violations == [] && server.seen.streamsClosed == [.peerLeft])
        try await server.stop()
    }

    @Test("A connection without open streams goes on until its next answer")
    func goAwayFollowsAnAnswer() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        try await server.until { $0.seen.connections == 1 }
        try await server.onLoop { $0.http.leave() }
        peer.send([Self.ping])
        let before = try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(!before.contains { $0.kind == .goAway }, "\(before)")
        peer.send([.head(1, RawFrame.get)])
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.payload == RawFrame.big(1) + RawFrame.big(0) && frames.dropLast().last?.isEnd == true, "\(frames)")
        try await server.stop()
    }

    /// Records the buffers that a connection gives to its channel.
    private final class Writes: ChannelOutboundHandler, Sendable {
        typealias OutboundIn = ByteBuffer

        let buffers = Mutex<[[UInt8]]>([])

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            let bytes = Array(unwrapOutboundIn(data).readableBytesView)
            buffers.withLock { $0.append(bytes) }
            context.write(data, promise: promise)
        }
    }

    @Test("GOAWAY leaves in one write with the last answer, so that a client that has read the answer makes its next request elsewhere")
    func goAwayWithTheAnswer() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        try await server.until { $0.seen.connections == 1 }
        let writes = Writes()
        try await server.onLoop { server in
            let pipeline = server.http.connections.first?.channel.pipeline
            do { try pipeline?.syncOperations.addHandler(writes, position: .first) } catch { return }  // No write is recorded.
            server.http.leave()
        }
        peer.send([.head(1, RawFrame.get)])
        try await peer.framesUntilClosed()
        let goAway = RawFrame(.goAway, payload: RawFrame.big(1) + RawFrame.big(0)).bytes
        let last = try #require(writes.buffers.withLock { buffers in buffers.last { !$0.isEmpty } })
        #expect(last.suffix(goAway.count) == goAway[...] && last.count > goAway.count, "\(last)")
        try await server.stop()
    }

    @Test("A connection that is accepted while the server leaves is served, and gets GOAWAY after its answer")
    func newConnectionIsServed() async throws {
        let server = try await RawServer.start()
        try await server.onLoop { $0.http.leave() }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.contains { $0.stream == 1 && $0.isEnd }, "\(frames)")
        try await server.stop()
    }

    @Test("When the server goes away an event stream gets END_STREAM before GOAWAY, and a waiting request its answer")
    func streamEndsBeforeGoAway() async throws {
        let server = try await RawServer.start { request, connection in
            if request.stream.number == 1 { RawServer.openStream(request, connection) }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, RawFrame.get), .head(3, RawFrame.get)])
        try await server.until { $0.seen.requests.count == 2 }
        try await server.onLoop { server in
            server.http.leave()
            server.http.connections.first?.finish(Self.stream)
            server.http.goAway()
        }
        let before = try await peer.frames { frames, _ in frames.contains { $0.stream == 1 && $0.isEnd } }
        #expect(!before.contains { $0.kind == .goAway }, "\(before)")
        try await server.onLoop { server in
            let answer = HTTPResponse(status: 200, contentType: .text, body: ByteBuffer(string: "late"))
            server.http.connections.first?.respond(to: StreamID(slot: 1, number: 3), answer)
        }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.suffix(2).map(\.kind) == [.data, .goAway] && frames.dropLast().last?.payload == Array("late".utf8), "\(frames)")
        #expect(server.seen.streamsClosed == [.finished])
        try await server.stop()
    }

    @Test("A request that crosses GOAWAY does not lose the answers before it")
    func requestCrossesGoAway() async throws {
        let server = try await RawServer.start()
        // On a busy machine the requests below may be sent late; a closed socket would answer them with a reset.
        try await server.onLoop { $0.http.farewellTime = .seconds(30) }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello, isReading: false)
        try await server.until { $0.seen.connections == 1 }
        try await server.onLoop { $0.http.leave() }
        peer.send([.head(1, RawFrame.get)])
        try await server.until { $0.seen.requests.count == 1 }
        for stream in 1..<50 { peer.send([.head(UInt32(2 * stream + 1), RawFrame.get)]) }
        try await peer.channel.setOption(.autoRead, value: true).get()
        let frames = try await peer.framesUntilClosed()
        #expect(frames.contains { $0.stream == 1 && $0.isEnd }, "\(frames)")
        let last = try #require(frames.last { $0.kind == .goAway }).payload.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        let answered = Set(frames.filter(\.isEnd).map(\.stream))
        #expect(answered == Set(stride(from: 1, through: last, by: 2)), "exactly the streams up to the last one are answered")
        try await server.stop()
    }

    @Test("A connection that is cut off gets GOAWAY")
    func cutOffSaysGoAway() async throws {
        let (server, peer) = try await start()
        try await server.onLoop { $0.http.closeAll() }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == 0, "\(frames)")
        try await server.stop()
    }
}
