import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

/// Connections on real sockets, all on one loop.
@Suite struct ConnectionTests {
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()

    /// A multicast address has no TCP: the system says so before `connect` returns.
    @Test func aConnectionThatFailsAtOnceIsToldToWhoBeganIt() async throws {
        let isKnown = try await eventLoop.flatSubmit { [eventLoop] in
            let caller = Caller(isKnown: eventLoop.makePromise(of: Bool.self))
            let loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
            caller.connection = HTTPClientConnection.connect(host: "224.0.0.1", port: 7601, on: loop, delegate: caller)
            return caller.isKnown.futureResult.map { isKnown in withExtendedLifetime(caller) { isKnown } }
        }.get()
        #expect(isKnown)
    }

    private final class Caller: HTTPClientDelegate, @unchecked Sendable {
        let isKnown: EventLoopPromise<Bool>
        var connection: HTTPClientConnection?

        init(isKnown: EventLoopPromise<Bool>) { self.isKnown = isKnown }

        func connected(_ connection: HTTPClientConnection) {}
        func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {}
        func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {}
        func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {}
        func closed(_ connection: HTTPClientConnection, error: (any Error)?) { isKnown.succeed(connection === self.connection) }
    }

    @Test func anHTTP1ConnectionEndsWithTheFirstAnswerAfterTheServerHasAnnouncedThatItLeaves() async throws {
        let server = try await Server.start(on: eventLoop)
        let received = eventLoop.makePromise(of: String.self)
        let channel = try await ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Asker(all: received) { server.http.announceGoAway() })
                }
            }
            .connect(host: "127.0.0.1", port: server.port).get()
        let answers = try await received.futureResult.get().components(separatedBy: "HTTP/1.1 200 OK").dropFirst()
        #expect(answers.map { $0.contains("connection: close") } == [false, true])
        try await channel.closeFuture.get()
        await server.stop()
    }

    #if os(Linux)
        @Test func tcpIsToldHowLongWhatItSendsMayStayUnacknowledged() async throws {
            let server = try await Server.start(on: eventLoop)
            let asked = eventLoop.makePromise(of: Int.self)
            let channel = try await ClientBootstrap(group: eventLoop)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let received = channel.eventLoop.makePromise(of: String.self)
                        try channel.pipeline.syncOperations.addHandler(
                            Asker(all: received) {
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

    /// Asks, announces after the answer that the server leaves, and asks again.
    private final class Asker: ChannelInboundHandler {
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

    /// Answers everything with an empty body.
    private final class Server: HTTPServerDelegate, @unchecked Sendable {
        let http: HTTPLoop
        private var listener: HTTPServer?

        private init(on eventLoop: any EventLoop) { http = HTTPLoop(eventLoop: eventLoop, limits: HTTPLimits(), delegate: nil) }

        static func start(on eventLoop: any EventLoop) async throws -> Server {
            let server = Server(on: eventLoop)
            server.http.delegate = server
            server.listener = try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [server.http])
            return server
        }

        var port: Int { listener?.port ?? 0 }

        func stop() async { await listener?.stopListening() }

        func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: ByteBuffer()))
        }
        func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
        func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
        func connectionOpened(_ connection: HTTPServerConnection) {}
        func connectionClosed(_ connection: HTTPServerConnection) {}
        func violated(_ violation: HTTPViolation) {}
    }
}
