import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import HTTP2

/// An HTTP/2 client on a real socket that sends any bytes and keeps the frames that arrive.
///
/// A wait ends after a minute, because the loops are shared with all other tests.
final class RawPeer: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    /// A condition on the frames so far, and on whether the server has closed.
    typealias Condition = @Sendable ([RawFrame], _ isClosed: Bool) -> Bool

    private struct State {
        var frames: [RawFrame] = []
        var isClosed = false
        var waiting: [(condition: Condition, promise: EventLoopPromise<Void>)] = []
    }

    private let state = Mutex(State())
    private var received = ByteBuffer()
    private(set) var channel: (any Channel)!

    /// Connects and sends `bytes`. Without `isReading`, or with `receiveBytes`, the bytes of the server are left unread.
    static func connect(
        to port: Int, sending bytes: [UInt8], isReading: Bool = true, receiveBytes: Int? = nil
    ) async throws -> RawPeer {
        let peer = RawPeer()
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: isReading && receiveBytes == nil)
        if let receiveBytes { bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: receiveBytes) }
        peer.channel =
            try await bootstrap
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(peer) }
            }
            .connect(host: "127.0.0.1", port: port).get()
        peer.send(bytes)
        return peer
    }

    var frames: [RawFrame] { state.withLock { $0.frames } }

    func send(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }

    func send(_ frames: [RawFrame]) { send(frames.flatMap(\.bytes)) }

    /// Sends FIN, and goes on reading.
    func finish() async throws { try await channel.close(mode: .output).get() }

    /// Closes the connection, if the server has not.
    func close() async throws {
        do { try await channel.close().get() } catch ChannelError.alreadyClosed { return }
    }

    /// The frames so far when `condition` holds.
    @discardableResult func frames(until condition: @escaping Condition) async throws -> [RawFrame] {
        let promise = channel.eventLoop.makePromise(of: Void.self)
        let isTrue = state.withLock { state in
            if condition(state.frames, state.isClosed) { return true }
            state.waiting.append((condition, promise))
            return false
        }
        if isTrue { promise.succeed() }
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(60)) { promise.fail(TooLate(frames: self.frames)) }
        defer { deadline.cancel() }
        try await promise.futureResult.get()
        return frames
    }

    /// The frames until the server closed the connection.
    @discardableResult func framesUntilClosed() async throws -> [RawFrame] { try await frames { $1 } }

    struct TooLate: Error { let frames: [RawFrame] }

    private func changed(_ change: (inout State) -> Void) {
        let ready = state.withLock { state in
            change(&state)
            let ready = state.waiting.filter { $0.condition(state.frames, state.isClosed) }
            state.waiting.removeAll { $0.condition(state.frames, state.isClosed) }
            return ready
        }
        for wait in ready { wait.promise.succeed() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var part = unwrapInboundIn(data)
        received.writeBuffer(&part)
        let frames = RawFrame.read(from: &received)
        changed { $0.frames += frames }
    }

    func channelInactive(context: ChannelHandlerContext) { changed { $0.isClosed = true } }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// A server whose answers the test decides, and which records the delegate's calls.
///
/// Its state is used on its loop. The test reads copies.
final class RawServer: HTTPServerDelegate, @unchecked Sendable {
    typealias Answer = (HTTPRequest, HTTPServerConnection) -> Void

    private let answer: Answer
    private(set) var http: HTTPLoop!
    private var listener: HTTPServer?
    private let counted = Mutex(Counted())

    struct Counted {
        var violations: [HTTPViolation] = []
        var requests: [String] = []
        var streamsClosed: [StreamEnd] = []
        var connections = 0
    }

    private init(_ answer: @escaping Answer) { self.answer = answer }

    static func start(
        _ limits: HTTPLimits = HTTPLimits(), limits connectionLimits: ConnectionLimits? = nil, addresses: ClientAddresses = .ofConnections,
        answering answer: @escaping Answer = RawServer.sayHello
    ) async throws -> RawServer {
        let server = RawServer(answer)
        server.http = HTTPLoop(eventLoop: MultiThreadedEventLoopGroup.singleton.next(), limits: limits, delegate: server)
        server.listener = try await HTTPServer.bind(
            host: "127.0.0.1", port: 0, loops: [server.http], limits: connectionLimits, addresses: addresses)
        return server
    }

    static func sayHello(_ request: HTTPRequest, _ connection: HTTPServerConnection) {
        let status = request.refusedStatus ?? 200
        connection.respond(to: request.stream, HTTPResponse(status: status, contentType: .text, body: ByteBuffer(string: "hello")))
    }

    static func openStream(_ request: HTTPRequest, _ connection: HTTPServerConnection) {
        connection.openEventStream(request.stream, token: 1)
    }

    var port: Int { listener?.port ?? 0 }
    var seen: Counted { counted.withLock { $0 } }

    /// Runs `body` on the server's loop.
    func onLoop<Result: Sendable>(_ body: @escaping @Sendable (RawServer) -> Result) async throws -> Result {
        try await http.eventLoop.submit { body(self) }.get()
    }

    /// Waits until `condition` holds on the server's loop, for at most a minute.
    func until(_ condition: @escaping @Sendable (RawServer) -> Bool) async throws {
        let deadline = NIODeadline.now() + .seconds(60)
        while try await !http.eventLoop.scheduleTask(in: .milliseconds(5), { condition(self) }).futureResult.get() {
            try #require(.now() < deadline, "not within a minute: \(seen)")
        }
    }

    func stop() async throws {
        await listener?.stopListening()
        try await onLoop { $0.http.closeAll() }
    }

    /// Answers to `/large` may be large.
    func mayHaveLargeAnswer(_ target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool { target.equals("/large") }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        let target = String(decoding: request.target, as: UTF8.self)
        counted.withLock { $0.requests.append(target) }
        answer(request, connection)
    }
    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {
        counted.withLock { $0.streamsClosed.append(reason) }
    }
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
    func connectionOpened(_ connection: HTTPServerConnection) { counted.withLock { $0.connections += 1 } }
    func connectionClosed(_ connection: HTTPServerConnection) { counted.withLock { $0.connections -= 1 } }
    func violated(_ violation: HTTPViolation) { counted.withLock { $0.violations.append(violation) } }
}
