import Foundation
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import HTTP2

/// Connections on real sockets, all on one loop.
@Suite struct ConnectionTests {
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()

    /// The system refuses TCP to a multicast address before `connect` returns.
    @Test("A connection that fails at once is reported after the caller has it")
    func failureAtOnce() async throws {
        let isReported = try await eventLoop.flatSubmit { [eventLoop] in
            let caller = Caller(isReported: eventLoop.makePromise(of: Bool.self))
            let loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
            caller.connection = HTTPClientConnection.connect(host: "224.0.0.1", port: 7601, on: loop, delegate: caller)
            return caller.isReported.futureResult.map { isReported in withExtendedLifetime(caller) { isReported } }
        }.get()
        #expect(isReported)
    }

    private final class Caller: HTTPClientDelegate, @unchecked Sendable {
        let isReported: EventLoopPromise<Bool>
        var connection: HTTPClientConnection?

        init(isReported: EventLoopPromise<Bool>) { self.isReported = isReported }

        func connected(_ connection: HTTPClientConnection) {}
        func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {}
        func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {}
        func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {}
        func closed(_ connection: HTTPClientConnection, error: (any Error)?) { isReported.succeed(connection === self.connection) }
    }

    @Test("A connection that is closed before it is open does not stay open", .timeLimit(.minutes(1)))
    func closedWhileConnecting() async throws {
        let ended = eventLoop.makePromise(of: Void.self)
        let listener = try await ServerBootstrap(group: eventLoop, childGroup: eventLoop)
            .childChannelInitializer { channel in
                channel.closeFuture.cascade(to: ended)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        try await eventLoop.flatSubmit { [eventLoop] in
            let caller = Caller(isReported: eventLoop.makePromise(of: Bool.self))
            let loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
            caller.connection = HTTPClientConnection.connect(host: "127.0.0.1", port: port, on: loop, delegate: caller)
            eventLoop.assumeIsolated().execute { caller.connection?.close() }
            return ended.futureResult.map { withExtendedLifetime(caller) {} }
        }.get()
        try await listener.close()
    }

    @Test("An HTTP/1.1 connection ends with the first answer after the server has begun to leave")
    func leavingEndsHTTP1() async throws {
        let server = try await Server.start(on: eventLoop)
        let received = eventLoop.makePromise(of: String.self)
        let channel = try await ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RepeatingClient(all: received) { server.http.leave() })
                }
            }
            .connect(host: "127.0.0.1", port: server.port).get()
        let answers = try await received.futureResult.get().components(separatedBy: "HTTP/1.1 200 OK").dropFirst()
        #expect(answers.map { $0.contains("connection: close") } == [false, true])
        try await channel.closeFuture.get()
        await server.stop()
    }

    /// Sends `bytes`, and returns what comes back until the server closes the connection.
    private func talk(_ bytes: [UInt8], to server: Server) async throws -> [UInt8] {
        let received = eventLoop.makePromise(of: [UInt8].self)
        let bytes = ByteBuffer(bytes: bytes)
        _ = try await ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(OneShot(bytes, all: received)) }
            }
            .connect(host: "127.0.0.1", port: server.port).get()
        return try await received.futureResult.get()
    }

    private func talk(_ text: String, to server: Server) async throws -> String {
        String(decoding: try await talk(Array(text.utf8), to: server), as: UTF8.self)
    }

    @Test("A connection without open streams ends after the idle timeout")
    func idleConnection() async throws {
        var limits = HTTPLimits()
        limits.idleTimeout = .milliseconds(100)
        let server = try await Server.start(on: eventLoop, limits)
        let answer = try await talk("GET /first HTTP/1.1\r\nHost: a\r\n\r\n", to: server)
        #expect(answer.hasPrefix("HTTP/1.1 200 OK") && answer.components(separatedBy: "HTTP/1.1 ").count == 2)
        let frames = try await talk(Self.http2("GET"), to: server)
        #expect(frames.count > 9 && Array(frames.suffix(17))[3] == 7, "the last frame is GOAWAY")
        #expect(server.targets == ["/first", "/x"])
        #expect(try await eventLoop.submit { server.http.connectionsCount }.get() == 0)
        await server.stop()
    }

    /// The bytes of an HTTP/2 client for one request.
    private static func http2(_ method: String) -> [UInt8] {
        let client = HTTP2Session(.client, limits: HTTPLimits(), chunk: FrameChunk())
        let fields = [
            HTTP2Headers.field(":method", method == "HEAD" ? "HEAD" : "GET"), HTTP2Headers.field(":scheme", "http"),
            HTTP2Headers.field(":path", "/x"),
            HTTP2Headers.field(":authority", "a"),
        ]
        _ = client.request(fields, body: nil, token: 1, at: .distantPast)
        var bytes = ByteBuffer()
        _ = client.send(into: &bytes, bytesMax: 1 << 20)
        return Array(bytes.readableBytesView)
    }

    @Test("The answer to HEAD has no body", arguments: ["GET", "HEAD"])
    func head(method: String) async throws {
        var limits = HTTPLimits()
        limits.idleTimeout = .milliseconds(100)
        let server = try await Server.start(on: eventLoop, limits, answering: "body")
        let text = try await talk("\(method) / HTTP/1.1\r\nHost: a\r\n\r\n", to: server)
        #expect(text.contains("content-length: 4\r\n") && text.hasSuffix("body") == (method == "GET"))
        let frames = String(decoding: try await talk(Self.http2(method), to: server), as: UTF8.self)
        #expect(frames.contains("body") == (method == "GET"))
        await server.stop()
    }

    @Test("A target with a host stands for the path behind it")
    func absoluteTarget() async throws {
        let server = try await Server.start(on: eventLoop)
        for target in ["http://a:7600/v1/logout", "https://a/x?y=http://b/c", "http://a", "http://a?q", "/plain?u=http://b/c"] {
            _ = try await talk("GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", to: server)
        }
        #expect(server.targets == ["/v1/logout", "/x?y=http://b/c", "/", "/?q", "/plain?u=http://b/c"])
        await server.stop()
    }

    /// The server could carry it out, but the client would not get the answer.
    @Test("A request behind the last one is not begun")
    func requestBehindTheLast() async throws {
        let server = try await Server.start(on: eventLoop)
        let requests = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /behind HTTP/1.1\r\nHost: a\r\n\r\n"
        let answers = try await talk(requests, to: server)
        #expect(answers.components(separatedBy: "HTTP/1.1 200 OK").count == 2)
        #expect(server.targets == ["/last"])
        await server.stop()
    }

    /// Sends its bytes as soon as it is connected, and collects the bytes that arrive.
    ///
    /// The server would not wait until a busy pool of threads has time for the test.
    private final class OneShot: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let bytesToSend: ByteBuffer
        private let all: EventLoopPromise<[UInt8]>
        private var bytes: [UInt8] = []

        init(_ bytes: ByteBuffer, all: EventLoopPromise<[UInt8]>) { (bytesToSend, self.all) = (bytes, all) }

        func channelActive(context: ChannelHandlerContext) { context.writeAndFlush(NIOAny(bytesToSend), promise: nil) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { bytes += unwrapInboundIn(data).readableBytesView }

        func channelInactive(context: ChannelHandlerContext) { all.succeed(bytes) }
    }

    #if os(Linux)
        @Test("TCP gets the limit for unacknowledged bytes")
        func unacknowledgedBytes() async throws {
            let server = try await Server.start(on: eventLoop)
            let asked = eventLoop.makePromise(of: Int.self)
            let channel = try await ClientBootstrap(group: eventLoop)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let received = channel.eventLoop.makePromise(of: String.self)
                        try channel.pipeline.syncOperations.addHandler(
                            RepeatingClient(all: received) {
                                let connection = server.http.connections[0]
                                connection.boundUnacknowledged(.seconds(60))
                                let option = ChannelOptions.Types.SocketOption(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT))
                                asked.completeWith(connection.channel.getOption(option).map { Int($0) })
                            })
                    }
                }
                .connect(host: "127.0.0.1", port: server.port).get()
            #expect(try await asked.futureResult.get() == 60_000)
            try await channel.close().get()
            await server.stop()
        }
    #endif

    /// Sends a request, calls `announce` after the answer, and sends the request again.
    private final class RepeatingClient: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let all: EventLoopPromise<String>
        private let announce: () -> Void
        private var text = ""

        init(all: EventLoopPromise<String>, announce: @escaping () -> Void) {
            self.all = all
            self.announce = announce
        }

        func channelActive(context: ChannelHandlerContext) { ask(context) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let isFirst = text.isEmpty
            text += String(buffer: unwrapInboundIn(data))
            guard isFirst else { return }
            announce()
            ask(context)
        }

        func channelInactive(context: ChannelHandlerContext) { all.succeed(text) }

        private func ask(_ context: ChannelHandlerContext) {
            context.writeAndFlush(NIOAny(ByteBuffer(string: "GET / HTTP/1.1\r\nHost: a\r\n\r\n")), promise: nil)
        }
    }

    /// A server that gives every request the same answer.
    private final class Server: HTTPServerDelegate, @unchecked Sendable {
        let http: HTTPLoop
        /// The targets of the requests.
        let seen = Mutex<[String]>([])
        private let body: String
        private var listener: HTTPServer?

        var targets: [String] { seen.withLock { $0 } }

        private init(on eventLoop: any EventLoop, _ limits: HTTPLimits, _ body: String) {
            http = HTTPLoop(eventLoop: eventLoop, limits: limits, delegate: nil)
            self.body = body
        }

        static func start(on eventLoop: any EventLoop, _ limits: HTTPLimits = HTTPLimits(), answering body: String = "") async throws
            -> Server
        {
            let server = Server(on: eventLoop, limits, body)
            server.http.delegate = server
            server.listener = try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [server.http])
            return server
        }

        var port: Int { listener?.port ?? 0 }

        func stop() async { await listener?.stopListening() }

        func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
            seen.withLock { $0.append(String(decoding: request.target, as: UTF8.self)) }
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: ByteBuffer(string: body)))
        }
        func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
        func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
        func connectionOpened(_ connection: HTTPServerConnection) {}
        func connectionClosed(_ connection: HTTPServerConnection) {}
        func violated(_ violation: HTTPViolation) {}
    }
}
