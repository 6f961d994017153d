import NIOCore
import Testing

@testable import HTTP2

/// Connections take turns to decode requests, because few bytes on the wire can be a large header list.
@Suite(.timeLimit(.minutes(1))) struct DecodingTurnTests {
    private static let ping = RawFrame(.ping, payload: Array("01234567".utf8))

    private static func requests(_ numbers: Range<UInt32>) -> [RawFrame] { numbers.map { .head(2 * $0 + 1, RawFrame.get) } }

    /// Requests with header lists of 12 KB that are nine bytes on the wire, after ``connect(to:)``.
    private static func largeRequests(_ numbers: Range<UInt32>) -> [RawFrame] {
        numbers.map { .head(2 * $0 + 1, RawFrame.get + [UInt8](repeating: RawFrame.lastIndexed, count: 3)) }
    }

    /// A client whose first request, number 0, is answered, and has put a large field into HPACK's table.
    private static func connect(to server: RawServer) async throws -> RawPeer {
        let fields = RawFrame.get + RawFrame.field("x", String(repeating: "v", count: 3_900), isIndexed: true)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, fields).bytes)
        try await peer.frames { frames, _ in frames.contains(where: \.isEnd) }
        return peer
    }

    /// A server on whose loop header lists have used up their share of the time for the next ten minutes.
    private static func startBusy() async throws -> RawServer {
        let server = try await RawServer.start()
        try await server.onLoop { server in
            server.http.sharedLimits.decodedBytes = 600_000 * HTTPLoop.decodedBytesPerTurn
            _ = server.http.countDecoded(at: .now())
        }
        return server
    }

    @Test("A session takes bytes up to a number of HEADERS frames, and goes on behind them")
    func headsMax() throws {
        let session = HTTP2Session(.server, limits: HTTPLimits(), chunk: FrameChunk())
        let first = RawFrame.hello + Self.requests(0..<3).flatMap(\.bytes) + Self.ping.bytes
        let bytes = first + Self.requests(3..<5).flatMap(\.bytes)
        var requestsCount = 0
        func take(_ bytes: ArraySlice<UInt8>) -> Int? {
            let takenBytes = bytes.withUnsafeBytes { session.receive($0, headsMax: 3, at: .distantPast) }
            session.takeEvents { if case .request = $0 { requestsCount += 1 } }
            return takenBytes
        }
        #expect(take(bytes[...]) == first.count && requestsCount == 3)
        #expect(take(bytes[first.count...]) == bytes.count - first.count && requestsCount == 5)
    }

    @Test("A session takes bytes up to a number of window updates, which count as decoding")
    func updatesMax() {
        let limits = SharedLimits(HTTPLimits())
        let session = HTTP2Session(.server, limits: limits, chunk: FrameChunk())
        let update = RawFrame.update(0, by: 1).bytes
        let bytes = RawFrame.hello + (0..<40).flatMap { _ in update }
        let takenBytes = bytes.withUnsafeBytes { session.receive($0, headsMax: 2, at: .distantPast) }
        // The SETTINGS frame of the hello is one of them.
        let updatesCount = 2 * IncomingFrames.updatesPerHead - 1
        #expect(takenBytes == RawFrame.hello.count + updatesCount * update.count)
        #expect(limits.decodedBytes == updatesCount * HTTP2Session.updateBytes)
    }

    @Test("Header lists count as decoding by their number, because a small one takes a stream and its memory as well")
    func smallHeaderListsCount() {
        let limits = SharedLimits(HTTPLimits())
        let session = HTTP2Session(.server, limits: limits, chunk: FrameChunk())
        let bytes = RawFrame.hello + Self.requests(0..<100).flatMap(\.bytes)
        let isTaken = bytes.withUnsafeBytes { session.receive($0, at: .distantPast) }
        let decoded = DecodedHeads(count: limits.decodedCount, bytes: limits.decodedBytes)
        #expect(isTaken && decoded.count == 100 && !decoded.isLittle)
        #expect(decoded.cost == decoded.bytes + 100 * DecodedHeads.headBytes)
    }

    @Test("On a busy loop window updates wait for the connection's turn, and a few do not")
    func updatesAreHeldBack() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        peer.send((0..<10).map { _ in RawFrame.update(0, by: 1) } + [Self.ping])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        peer.send((0..<1_000).map { _ in RawFrame.update(0, by: 1) } + [Self.ping])
        try await server.until { $0.http.connections.first?.isReadingPaused ?? false }
        #expect(peer.frames.count { $0.kind == .ping } == 1)
        try await server.stop()
    }

    @Test("On a busy loop large header lists wait for the connection's turn, and are answered in order")
    func largeHeaderListsAreHeldBack() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        let requests = Self.largeRequests(1..<20)
        peer.send(requests)
        try await server.until { $0.http.connections.first?.isReadingPaused ?? false }
        #expect(server.seen.requests.count == 1 + 8)
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 11 * requests[0].bytes.count)
        try await server.onLoop { $0.http.connections.first?.processHeldBack() }
        let frames = try await peer.frames { frames, _ in frames.count(where: \.isEnd) == 20 }
        #expect(frames.filter(\.isEnd).map(\.stream) == (0..<20).map { 2 * $0 + 1 })
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 0)
        try await server.stop()
    }

    @Test("On a busy loop a hundred small header lists of a read are decoded, and the others wait for the connection's turn")
    func smallHeaderListsAreHeldBack() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        // All requests come in one read.
        let isSet = try await server.onLoop { server in
            let allocator = FixedSizeRecvByteBufferAllocator(capacity: 8_192)
            return (try? server.http.connections.first?.channel.syncOptions?.setOption(.recvAllocator, value: allocator)) != nil
        }
        #expect(isSet)
        let requests = Self.requests(1..<200)
        peer.send(requests)
        // Thirteen times eight of them are decoded, and answered.
        try await server.until { $0.http.sharedLimits.heldBytes == 95 * requests[0].bytes.count && $0.seen.requests.count == 1 + 104 }
        #expect(try await server.onLoop { $0.http.connections.first?.isReadingPaused } == true)
        try await server.onLoop { $0.http.connections.first?.processHeldBack() }
        let frames = try await peer.frames { frames, _ in frames.count(where: \.isEnd) == 200 }
        #expect(frames.filter(\.isEnd).map(\.stream) == (0..<200).map { 2 * $0 + 1 })
        try await server.stop()
    }

    @Test("A busy loop answers requests with ordinary header lists at once and in order, while large ones wait for their turn")
    func ordinaryRequestsDoNotWait() async throws {
        let server = try await Self.startBusy()
        let waiting = try await Self.connect(to: server)
        let peer = try await Self.connect(to: server)
        let large = Self.largeRequests(1..<20)
        waiting.send(large)
        // Eight of its requests are decoded at once. The others wait for ten minutes.
        try await server.until { $0.http.sharedLimits.heldBytes == 11 * large[0].bytes.count }
        try await waiting.frames { frames, _ in frames.count(where: \.isEnd) == 1 + 8 }
        peer.send(Self.requests(1..<100))
        let frames = try await peer.frames { frames, _ in frames.count(where: \.isEnd) == 100 }
        #expect(frames.filter(\.isEnd).map(\.stream) == (0..<100).map { 2 * $0 + 1 })
        #expect(server.seen.requests.count == 2 + 8 + 99)
        // Nothing of this connection has waited: the bytes that are held back are those of the other one.
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 11 * large[0].bytes.count)
        #expect(try await server.onLoop { $0.http.connections.count(where: \.isReadingPaused) } == 1)
        #expect(waiting.frames.count(where: \.isEnd) == 1 + 8)
        try await server.stop()
    }

    @Test("A trusted connection does not wait for the header lists of others")
    func trustedConnectionDoesNotWait() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        try await server.onLoop { ($0.http.connections.first as? HTTP2ServerConnection)?.setLimits(HTTPLimits()) }
        peer.send(Self.largeRequests(1..<100))
        try await peer.frames { frames, _ in frames.count(where: \.isEnd) == 100 }
        try await server.stop()
    }

    @Test("Held-back requests of a client that has sent FIN are answered")
    func heldBackRequestsOutliveFIN() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        peer.send(Self.largeRequests(1..<20))
        try await server.until { $0.http.connections.first?.isReadingPaused ?? false }
        try await peer.finish()
        try await server.until { ($0.http.connections.first as? HTTP2ServerConnection)?.isInputClosed ?? false }
        try await server.onLoop { $0.http.connections.first?.processHeldBack() }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.count(where: \.isEnd) == 20)
        try await server.stop()
    }

    @Test("The held-back bytes of a closed connection no longer count")
    func heldBackBytesOfAClosedConnection() async throws {
        let server = try await Self.startBusy()
        let peer = try await Self.connect(to: server)
        peer.send(Self.largeRequests(1..<20))
        try await server.until { $0.http.sharedLimits.heldBytes > 0 && $0.http.connections.first?.isReadingPaused == true }
        try await peer.close()
        try await server.until { $0.http.connectionsCount == 0 }
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 0)
        try await server.stop()
    }
}
