import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import HTTP2

/// A client on a real socket that sends any text and keeps the bytes that arrive.
///
/// A wait ends after a minute.
final class HTTP1Peer: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias Condition = @Sendable (_ text: String, _ isClosed: Bool) -> Bool

    private struct State {
        var text = ""
        var isClosed = false
        var waiting: [(condition: Condition, promise: EventLoopPromise<Void>)] = []
    }

    struct TooLate: Error { let text: String }

    private let state = Mutex(State())
    private(set) var channel: (any Channel)!

    /// Connects. Without `isReading` the bytes of the server are left unread.
    static func connect(to port: Int, sending text: String = "", isReading: Bool = true) async throws -> HTTP1Peer {
        let peer = HTTP1Peer()
        peer.channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: isReading)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(peer) }
            }
            .connect(host: "127.0.0.1", port: port).get()
        if !text.isEmpty { peer.send(text) }
        return peer
    }

    func send(_ text: String) { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }

    /// Sends FIN, and goes on reading.
    func finish() async throws { try await channel.close(mode: .output).get() }

    func close() { channel.close(promise: nil) }

    /// The text so far when `condition` holds.
    @discardableResult func text(until condition: @escaping Condition) async throws -> String {
        let promise = channel.eventLoop.makePromise(of: Void.self)
        let isTrue = state.withLock { state in
            if condition(state.text, state.isClosed) { return true }
            state.waiting.append((condition, promise))
            return false
        }
        if isTrue { promise.succeed() }
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(60)) {
            promise.fail(TooLate(text: self.state.withLock { $0.text }))
        }
        defer { deadline.cancel() }
        try await promise.futureResult.get()
        return state.withLock { $0.text }
    }

    /// The text until the server closed its side.
    @discardableResult func textUntilClosed() async throws -> String { try await text { $1 } }

    /// The answer of a server to `text`, until it closes.
    static func talk(_ text: String, to server: HTTP1Server) async throws -> String {
        let peer = try await connect(to: server.port, sending: text)
        let answer = try await peer.textUntilClosed()
        peer.close()
        return answer
    }

    private func changed(_ change: (inout State) -> Void) {
        let ready = state.withLock { state in
            change(&state)
            let ready = state.waiting.filter { $0.condition(state.text, state.isClosed) }
            state.waiting.removeAll { $0.condition(state.text, state.isClosed) }
            return ready
        }
        for wait in ready { wait.promise.succeed() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = String(buffer: unwrapInboundIn(data))
        changed { $0.text += part }
    }

    func channelInactive(context: ChannelHandlerContext) { changed { $0.isClosed = true } }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { changed { $0.isClosed = true } }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// A server whose answers the test decides, and which records the delegate's calls.
///
/// Its state is used on its loop. The test reads copies.
final class HTTP1Server: HTTPServerDelegate, @unchecked Sendable {
    typealias Answer = (HTTPRequest, HTTPServerConnection) -> Void

    struct Seen {
        /// The paths, each with the body when there is one.
        var requests: [String] = []
        var violations: [HTTPViolation] = []
        var streamsClosed: [StreamEnd] = []
        var drained = 0
        var connections = 0
    }

    private let answer: Answer
    private(set) var http: HTTPLoop!
    private var listener: HTTPServer?
    private let counted = Mutex(Seen())

    private init(_ answer: @escaping Answer) { self.answer = answer }

    static func start(
        _ limits: HTTPLimits = HTTPLimits(), on eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next(),
        answering answer: @escaping Answer = HTTP1Server.sayHello
    ) async throws -> HTTP1Server {
        let server = HTTP1Server(answer)
        server.http = HTTPLoop(eventLoop: eventLoop, limits: limits, delegate: server)
        server.listener = try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [server.http])
        return server
    }

    static func sayHello(_ request: HTTPRequest, _ connection: HTTPServerConnection) {
        let status = request.refusedStatus ?? 200
        connection.respond(to: request.stream, HTTPResponse(status: status, contentType: .text, body: ByteBuffer(string: "hello")))
    }

    var port: Int { listener?.port ?? 0 }
    var seen: Seen { counted.withLock { $0 } }

    /// Runs `body` on the server's loop.
    func onLoop<Result: Sendable>(_ body: @escaping @Sendable (HTTP1Server) -> Result) async throws -> Result {
        try await http.eventLoop.submit { body(self) }.get()
    }

    /// Waits until `condition` holds on the server's loop, for at most a minute.
    func until(_ condition: @escaping @Sendable (HTTP1Server) -> Bool) async throws {
        let deadline = NIODeadline.now() + .seconds(60)
        while try await !http.eventLoop.scheduleTask(in: .milliseconds(5), { condition(self) }).futureResult.get() {
            try #require(.now() < deadline, "not within a minute")
        }
    }

    func stop() async throws {
        await listener?.stopListening()
        try await onLoop { $0.http.closeAll() }
    }

    /// Answers to `/large` may be large.
    func mayHaveLargeAnswer(_ target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool { target.equals("/large") }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        if request.refusedStatus == nil {
            let target = String(decoding: request.target, as: UTF8.self)
            let body = request.body.isEmpty ? "" : " " + String(decoding: request.body, as: UTF8.self)
            counted.withLock { $0.requests.append(target + body) }
        }
        answer(request, connection)
    }
    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {
        counted.withLock { $0.streamsClosed.append(reason) }
    }
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {
        counted.withLock { $0.drained += 1 }
    }
    func connectionOpened(_ connection: HTTPServerConnection) { counted.withLock { $0.connections += 1 } }
    func connectionClosed(_ connection: HTTPServerConnection) { counted.withLock { $0.connections -= 1 } }
    func violated(_ violation: HTTPViolation) { counted.withLock { $0.violations.append(violation) } }
}
