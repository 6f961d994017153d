import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

/// The limits of ``HTTPLimits`` over real sockets: the end of a peer that breaks one, and the counted violation.
@Suite struct HTTPLimitsTests {
    /// Records violations, and answers nothing. Used on its loop.
    private final class ViolationRecorder: HTTPServerDelegate, @unchecked Sendable {
        var seen: [HTTPViolation] = []
        func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {}
        func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
        func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
        func connectionOpened(_ connection: HTTPServerConnection) {}
        func connectionClosed(_ connection: HTTPServerConnection) {}
        func violated(_ violation: HTTPViolation) { seen.append(violation) }
    }

    /// The violations that the server counts when a peer sends `bytes` on one connection, and then is silent until it is cut off.
    private func violations(_ limits: HTTPLimits, sending bytes: [UInt8]) async throws -> [HTTPViolation] {
        let group = MultiThreadedEventLoopGroup.singleton
        let loop = group.next()
        let recorder = ViolationRecorder()
        nonisolated(unsafe) let http = HTTPLoop(eventLoop: loop, limits: limits, delegate: recorder)
        let server = try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [http])
        let client = try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: server.port).get()
        client.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
        try await client.closeFuture.get()
        await server.stopListening()
        return try await loop.submit { recorder.seen }.get()
    }

    /// The bytes of a client that begins `requests` requests, each with a body of `bodyBytes`, cut off after `bytesMax`.
    private func request(bodyBytes: Int, requests: Int = 1, resetting: Bool = false, bytesMax: Int = .max) -> [UInt8] {
        let client = HTTP2Session(.client, limits: HTTPLimits(), chunk: FrameChunk())
        let fields = [
            HTTP2Headers.field(":method", "POST"), HTTP2Headers.field(":scheme", "http"), HTTP2Headers.field(":path", "/x"),
            HTTP2Headers.field(":authority", "a"),
        ]
        var bytes = ByteBuffer()
        for _ in 0..<requests {
            let body = bodyBytes == 0 ? nil : ByteBuffer(repeating: 7, count: bodyBytes)
            guard let stream = client.request(fields, body: body, token: 1, at: .distantPast) else { break }
            _ = client.send(into: &bytes, bytesMax: 1 << 24)
            guard resetting, let slot = client.slot(of: stream) else { continue }
            client.reset(slot, error: 8)
            _ = client.send(into: &bytes, bytesMax: 1 << 24)
            client.takeEvents { _ in }
        }
        return Array(bytes.readableBytesView.prefix(bytesMax))
    }

    @Test("A connection without a request is cut off")
    func connectionWithoutRequest() async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .milliseconds(300)
        #expect(try await violations(limits, sending: request(bodyBytes: 0, bytesMax: 60)) == [.headerTimeout])
    }

    @Test("A silent connection is cut off")
    func silentConnection() async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .milliseconds(300)
        #expect(try await violations(limits, sending: Array("PRI".utf8)) == [.headerTimeout])
    }

    @Test("A flood of resets ends the connection")
    func resetFlood() async throws {
        var limits = HTTPLimits()
        limits.resetsMax = 50
        limits.headerTimeout = .hours(1)
        #expect(try await violations(limits, sending: request(bodyBytes: 0, requests: 60, resetting: true)) == [.resetFlood])
    }

    /// The peer never acknowledges the settings, so nghttp2 refuses each stream above the limit with a frame.
    @Test("A peer that provokes frames and does not read them is cut off")
    func frameFlood() async throws {
        var limits = HTTPLimits()
        (limits.streamsMax, limits.waitingFramesMax) = (1, 20)
        limits.headerTimeout = .hours(1)
        #expect(try await violations(limits, sending: request(bodyBytes: 0, requests: 5_000)) == [.frameFlood])
    }

    @Test("Bytes that are not HTTP/2 end the connection")
    func invalidBytes() async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .hours(1)
        let bytes = request(bodyBytes: 0) + Array(repeating: 255, count: 100)
        #expect(try await violations(limits, sending: bytes) == [.protocolError])
    }

    /// Two unfinished bodies: the second does not fit into the connection's buffer, and the first takes too long.
    @Test("Unfinished bodies are reset")
    func unfinishedBodies() {
        var limits = HTTPLimits()
        limits.bufferedBytesMax = 50_000
        let server = HTTP2Session(.server, limits: limits, chunk: FrameChunk())
        let bytes = request(bodyBytes: 60_000, requests: 1, bytesMax: 59_000)
        #expect(bytes.withUnsafeBytes { server.receive($0, at: .distantPast) })
        var overflows = 0
        server.takeEvents { if case .overflow = $0 { overflows += 1 } }
        #expect(overflows > 0)
        #expect(server.bufferedBytes <= 50_000)
        #expect(server.streams[0].isLate(at: .distantPast + .seconds(31), limits))
        #expect(!server.streams[0].isLate(at: .distantPast + .seconds(29), limits))
    }
}
