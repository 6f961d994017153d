import NIOCore
import Testing

@testable import HTTP2

/// Rules of RFC 9113 that libnghttp2 1.52 breaks, or that this target implements itself.
@Suite(.timeLimit(.minutes(1))) struct ConformanceTests {
    private static let (protocolError, flowControlError): (UInt32, UInt32) = (1, 3)
    private static let windowMax = UInt32(Int32.max)

    /// Sends `frames` after the client's preface, and returns the answer until the server closes.
    private func answer(to frames: [RawFrame], _ server: RawServer) async throws -> [RawFrame] {
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + frames.flatMap(\.bytes))
        return try await peer.framesUntilClosed()
    }

    @Test("WINDOW_UPDATE within a header block is a PROTOCOL_ERROR", arguments: [UInt32(0), 1])
    func updateWithinHeaderBlock(stream: UInt32) async throws {
        let server = try await RawServer.start()
        let frames = try await answer(
            to: [
                RawFrame(.headers, flags: RawFrame.endStream, stream: 1, payload: RawFrame.get), .update(stream, by: 1),
                RawFrame(.continuation, flags: RawFrame.endHeaders, stream: 1),
            ], server)
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.protocolError, "\(frames)")
        #expect(server.seen.requests == [] && server.seen.violations == [.protocolError])
        try await server.stop()
    }

    /// The server counts the windows of event streams itself, and their bytes in the connection's window.
    @Test("WINDOW_UPDATE for an event stream within a header block is a PROTOCOL_ERROR", arguments: [UInt32(0), 1])
    func updateOfEventStreamWithinHeaderBlock(stream: UInt32) async throws {
        let server = try await RawServer.start { request, connection in
            RawServer.openStream(request, connection)
            _ = connection.push(ByteBuffer(repeating: 1, count: 100), to: request.stream)
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.payload.count == 100 } }
        peer.send([
            RawFrame(.headers, flags: RawFrame.endStream, stream: 3, payload: RawFrame.get), .update(stream, by: 1),
            RawFrame(.continuation, flags: RawFrame.endHeaders, stream: 3),
        ])
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.protocolError, "\(frames)")
        #expect(server.seen.requests.count == 1 && server.seen.violations == [.protocolError])
        try await server.stop()
    }

    // MARK: Stream IDs (RFC 9113 §5.1.1)

    @Test("A skipped stream ID cannot be used", arguments: [UInt32(3), 5, 9])
    func lowerStreamIsAProtocolError(stream: UInt32) async throws {
        let server = try await RawServer.start()
        let frames = try await answer(
            to: [.head(1, RawFrame.get), .head(7, RawFrame.get), .head(11, RawFrame.get), .head(stream, RawFrame.get)], server)
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.protocolError, "\(frames)")
        #expect(server.seen.violations == [.protocolError])
        try await server.stop()
    }

    @Test("A trailer for a stream that the server has reset is ignored")
    func trailerForClosedStreamIsIgnored() async throws {
        let server = try await RawServer.start { request, connection in
            RawServer.sayHello(request, connection)
            if request.stream.number == 3 { connection.reset(StreamID(slot: 0, number: 1)) }
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, RawFrame.post, isEnd: false), .head(3, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .reset && $0.stream == 1 } }
        peer.send([.head(1, RawFrame.field("a", "b")), .head(5, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.stream == 5 && $0.isEnd } }
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    // MARK: Windows (RFC 9113 §6.9.2)

    @Test("SETTINGS that make a stream's window larger than 2³¹ - 1 end the connection", arguments: [true, false])
    func settingsThatOverflowAWindow(isEventStream: Bool) async throws {
        let server = try await RawServer.start { if isEventStream { RawServer.openStream($0, $1) } }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await server.until { $0.seen.requests.count == 1 }
        peer.send([.update(1, by: 1_000), .initialWindow(Self.windowMax)])
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.flowControlError, "\(frames)")
        #expect(server.seen.violations == [.protocolError])
        try await server.stop()
    }

    /// The window grew by 1,000 before the answer. 2,000 bytes were sent since, which nghttp2 does not count.
    @Test("SETTINGS that an event stream's window allows do not reset it")
    func settingsThatFitTheWindow() async throws {
        let server = try await RawServer.start { request, connection in
            guard request.stream.number == 3 else { return }
            connection.openEventStream(StreamID(slot: 0, number: 1), token: 1)
            _ = connection.push(ByteBuffer(repeating: 1, count: 2_000), to: StreamID(slot: 0, number: 1))
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        peer.send([.update(1, by: 1_000), .head(3, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.payload.count == 2_000 } }
        peer.send([.initialWindow(Self.windowMax), RawFrame(.ping, payload: Array(0..<8))])
        let frames = try await peer.frames { frames, isClosed in isClosed || frames.contains { $0.kind == .ping } }
        #expect(!frames.contains { $0.kind == .reset || $0.kind == .goAway }, "\(frames)")
        try await server.onLoop {
            _ = $0.http.connections.first?.push(ByteBuffer(repeating: 1, count: 100), to: StreamID(slot: 0, number: 1))
        }
        try await peer.frames { frames, _ in frames.contains { $0.payload.count == 100 } }
        #expect(server.seen.violations == [])
        try await server.stop()
    }

    /// The first setting makes the window too large, though the second does not.
    @Test("Each SETTINGS_INITIAL_WINDOW_SIZE of a frame counts, in order")
    func settingsAreTakenInOrder() async throws {
        let server = try await RawServer.start { _, _ in }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        peer.send([.update(1, by: 1_000)])
        let both = RawFrame.initialWindow(Self.windowMax).payload + RawFrame.initialWindow(1).payload
        peer.send([RawFrame(.settings, payload: both)])
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == Self.flowControlError, "\(frames)")
        try await server.stop()
    }

    // MARK: The end of a stream (RFC 9113 §5.1)

    @Test("Nothing is sent on an event stream after END_STREAM", arguments: [UInt32(0), 1_000])
    func nothingAfterTheEndOfAnEventStream(window: UInt32) async throws {
        let server = try await RawServer.start(answering: RawServer.openStream)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(window).bytes)
        peer.send([.head(1, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains { $0.kind == .headers } }
        try await server.onLoop { $0.http.connections.first?.finish(StreamID(slot: 0, number: 1)) }
        try await peer.frames { frames, _ in frames.contains { $0.stream == 1 && $0.isEnd } }
        peer.send([RawFrame(.ping, payload: Array(0..<8))])
        let frames = try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(frames.last { $0.stream == 1 }?.isEnd == true, "\(frames)")
        #expect(server.seen.streamsClosed == [.finished])
        try await server.stop()
    }

    @Test("A request that becomes complete before its early answer is sent is not reset")
    func noResetOfAWholeRequest() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 10
        let server = try await RawServer.start(limits)
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.preface + RawFrame.initialWindow(0).bytes)
        peer.send([.head(1, RawFrame.post, isEnd: false), RawFrame(.data, stream: 1, payload: Array(repeating: 1, count: 20))])
        try await peer.frames { frames, _ in frames.contains { $0.stream == 1 && $0.kind == .headers } }
        peer.send([RawFrame(.data, flags: RawFrame.endStream, stream: 1), .update(1, by: 100)])
        try await peer.frames { frames, _ in frames.contains { $0.stream == 1 && $0.isEnd } }
        peer.send([RawFrame(.ping, payload: Array(0..<8))])
        let frames = try await peer.frames { frames, _ in frames.contains { $0.kind == .ping } }
        #expect(!frames.contains { $0.kind == .reset }, "\(frames)")
        try await server.stop()
    }

    // MARK: The end of a connection (RFC 9113 §5.4.1)

    /// The peer goes on sending. If the server closed at once, the kernel would reset the connection, and GOAWAY would be lost.
    @Test("A peer that floods the server gets a GOAWAY with the reason")
    func floodIsToldWhy() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        let opened = (0..<100_000).map {
            RawFrame.head(2 * $0 + 1, RawFrame.get).bytes + RawFrame(.reset, stream: 2 * $0 + 1, payload: RawFrame.big(8)).bytes
        }
        for part in stride(from: 0, to: opened.count, by: 100) { peer.send(Array(opened[part..<part + 100].joined())) }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == 11, "\(frames.suffix(3))")
        #expect(server.seen.violations == [.resetFlood])
        try await server.stop()
    }

    @Test("A peer that sends invalid frames gets a GOAWAY, even while it goes on sending")
    func junkIsToldSo() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        for _ in 0..<200 { peer.send([UInt8](repeating: 255, count: 65_536)) }
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway, "\(frames)")
        #expect(server.seen.violations == [.protocolError])
        try await server.stop()
    }

    @Test("A peer that reads late finds the GOAWAY with the reason")
    func silentReaderIsToldWhy() async throws {
        var limits = HTTPLimits()
        (limits.streamsMax, limits.waitingFramesMax) = (1, 20)
        let server = try await RawServer.start(limits)
        try await server.onLoop { $0.http.lingeringTime = .seconds(10) }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello, isReading: false)
        peer.send((0..<5_000).map { .head(2 * $0 + 1, RawFrame.get) })
        try await server.until { !$0.seen.violations.isEmpty }
        try await peer.channel.setOption(.autoRead, value: true).get()
        let frames = try await peer.framesUntilClosed()
        #expect(frames.last?.kind == .goAway && frames.last?.error == 11, "\(frames.suffix(3))")
        #expect(server.seen.violations == [.frameFlood])
        try await server.stop()
    }
}
