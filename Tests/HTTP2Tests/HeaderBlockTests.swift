import NIOCore
import Testing

@testable import HTTP2

/// Header blocks that cost the server more than the peer (RFC 9113 §10.5.1, CVE-2016-6581), over real sockets.
@Suite(.timeLimit(.minutes(1))) struct HeaderBlockTests {
    private static let enhanceYourCalm: UInt32 = 11

    /// A large field for HPACK's table, and references to it. Each is a byte that decodes to 4 KB.
    private static func bomb(references: Int) -> [UInt8] {
        RawFrame.field("x", String(repeating: "v", count: 4_000), isIndexed: true)
            + [UInt8](repeating: RawFrame.lastIndexed, count: references)
    }

    /// The answer to `frames` after the client's preface, until the server closes.
    private func answer(
        to frames: [RawFrame], _ limits: HTTPLimits = HTTPLimits()
    ) async throws -> (frames: [RawFrame], violations: [HTTPViolation], requests: Int) {
        let server = try await RawServer.start(limits)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + frames.flatMap(\.bytes))
        let received = try await peer.framesUntilClosed()
        let seen = server.seen
        try await server.stop()
        return (received, seen.violations, seen.requests.count)
    }

    @Test("A header block that decodes far beyond the limit ends the connection with ENHANCE_YOUR_CALM")
    func bombEndsTheConnection() async throws {
        let answer = try await answer(to: [.head(1, RawFrame.get + Self.bomb(references: 10_000))])
        #expect(answer.frames.last?.kind == .goAway && answer.frames.last?.error == Self.enhanceYourCalm, "\(answer.frames)")
        #expect(answer.violations == [.headerFlood] && answer.requests == 0)
    }

    @Test("A trailer that decodes far beyond the limit ends the connection with ENHANCE_YOUR_CALM")
    func bombInATrailerEndsTheConnection() async throws {
        let answer = try await answer(to: [.head(1, RawFrame.post, isEnd: false), .head(1, Self.bomb(references: 10_000))])
        #expect(answer.frames.last?.kind == .goAway && answer.frames.last?.error == Self.enhanceYourCalm, "\(answer.frames)")
        #expect(answer.violations == [.headerFlood] && answer.requests == 0)
    }

    @Test(
        "Requests with too large a header are answered with 431, and after eight of them the connection ends, also if they wait for a turn",
        arguments: [TimeAmount.milliseconds(1), .zero]
    ) func manyLargeHeadersEndTheConnection(turnTime: TimeAmount) async throws {
        var limits = HTTPLimits()
        limits.turnTime = turnTime
        let first = RawFrame.head(1, RawFrame.get + Self.bomb(references: 4))
        let others = (1...20).map { RawFrame.head(UInt32(2 * $0 + 1), RawFrame.get + [UInt8](repeating: RawFrame.lastIndexed, count: 5)) }
        let answer = try await answer(to: [first] + others, limits)
        #expect(answer.frames.last?.kind == .goAway && answer.frames.last?.error == Self.enhanceYourCalm, "\(answer.frames)")
        #expect(answer.violations.count { $0 == .headerListTooLarge } == answer.requests)
        #expect(answer.violations.last == .headerFlood)
    }

    @Test("A few requests with too large a header are answered with 431, and the connection goes on")
    func fewLargeHeadersAreAnswered() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, RawFrame.get + Self.bomb(references: 4)), .head(3, RawFrame.get)])
        try await peer.frames { frames, _ in Set(frames.filter(\.isEnd).map(\.stream)) == [1, 3] }
        #expect(server.seen.violations == [.headerListTooLarge])
        try await server.stop()
    }

    @Test("A header block that is too long before it is decoded ends the connection, also on a stream that is closed")
    func longBlockEndsTheConnection() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        let part = [UInt8](repeating: 0x90, count: 16_000)  // `accept-encoding: gzip, deflate`, again and again
        peer.send([RawFrame(.headers, stream: 1, payload: part)])
        peer.send((0..<5).map { _ in RawFrame(.continuation, stream: 1, payload: part) })
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.enhanceYourCalm, "\(frames)")
        #expect(server.seen.violations == [.headerFlood])
        try await server.stop()
    }

    @Test("Empty CONTINUATION frames end the connection with ENHANCE_YOUR_CALM")
    func emptyContinuationsEndTheConnection() async throws {
        let parts = (0..<100).map { _ in RawFrame(.continuation, stream: 1) }
        let answer = try await answer(to: [RawFrame(.headers, stream: 1, payload: RawFrame.get)] + parts)
        #expect(answer.frames.last?.kind == .goAway && answer.frames.last?.error == Self.enhanceYourCalm, "\(answer.frames)")
        #expect(answer.violations == [.headerFlood] && answer.requests == 0)
    }

    @Test("Header blocks for closed streams count as resets")
    func blocksForClosedStreamsAreCounted() async throws {
        let late = (0..<2_100).map { _ in RawFrame.head(1, RawFrame.get) }
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, RawFrame.post, isEnd: false), RawFrame(.reset, stream: 1, payload: RawFrame.big(8)), .head(3, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        peer.send(late)
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.enhanceYourCalm, "\(frames)")
        #expect(server.seen.violations == [.resetFlood])
        try await server.stop()
    }
}
