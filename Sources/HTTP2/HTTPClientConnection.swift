import CNGHTTP2
import NIOCore
import NIOPosix
import NIOSSL

/// Receives the answers of a client's requests, on the connection's event loop.
public protocol HTTPClientDelegate: AnyObject {
    /// The peer's settings have arrived: requests may be sent.
    func connected(_ connection: HTTPClientConnection)
    /// The head of a response has arrived.
    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int)
    /// A part of a response's body has arrived. Its bytes are valid only inside the call.
    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer)
    /// A stream is closed: with 0 in good order, else with an HTTP/2 error code. Called once for each request.
    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32)
    /// The connection is closed, or could not be opened. Its streams were closed before.
    func closed(_ connection: HTTPClientConnection, error: (any Error)?)
}

/// An HTTP/2 connection to a server. Used on its event loop only.
///
/// The links between nodes and the load simulator use it.
public final class HTTPClientConnection: ChannelInboundHandler {
    public typealias InboundIn = ByteBuffer
    public typealias OutboundOut = ByteBuffer

    /// The state that the connections of one event loop share.
    public final class Loop {
        public let eventLoop: any EventLoop
        let chunk = FrameChunk()
        var scratch = ByteBuffer()
        /// The connections that the next task flushes. It is scheduled while there are any.
        private var dirty: [HTTPClientConnection] = []

        public init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

        fileprivate func setNeedsFlush(_ connection: HTTPClientConnection) {
            dirty.append(connection)
            guard dirty.count == 1 else { return }
            eventLoop.assumeIsolated().execute {
                while let connection = self.dirty.popLast() { connection.flush() }
            }
        }
    }

    /// A connection is connected once the peer's settings have arrived.
    private enum Phase { case connecting, connected, closed }

    private let loop: Loop
    private weak var delegate: (any HTTPClientDelegate)?
    private let session: HTTP2Session
    private var context: ChannelHandlerContext?
    private var flushTurn = FlushTurn.none
    private var phase = Phase.connecting
    private var failure: (any Error)?
    private let authority: [UInt8]
    private let scheme: StaticString
    /// The time at which the last bytes arrived.
    public private(set) var lastReceivedAt = NIODeadline.now()
    /// Free for the application.
    public var token: UInt32 = 0

    /// Makes a connection for a channel of the caller.
    package init(loop: Loop, authority: String, isTLS: Bool, delegate: any HTTPClientDelegate) {
        self.loop = loop
        self.delegate = delegate
        self.authority = Array(authority.utf8)
        scheme = isTLS ? "https" : "http"
        session = HTTP2Session(.client, limits: HTTPLimits(), chunk: loop.chunk)
    }

    /// Begins to connect, and reports the outcome to `delegate`. Must be called on `loop`.
    ///
    /// - Parameter sourceAddress: a local address to use, such as 127.0.0.2, when one address has too few ports.
    public static func connect(
        host: String, port: Int, on loop: Loop, sourceAddress: String? = nil, tls: NIOSSLContext? = nil,
        retransmission: Retransmission = .usual, timeout: TimeAmount = .seconds(5), delegate: any HTTPClientDelegate
    ) -> HTTPClientConnection {
        let connection = HTTPClientConnection(loop: loop, authority: "\(host):\(port)", isTLS: tls != nil, delegate: delegate)
        let bound = Unchecked(connection: connection)
        // An IP address does not need the resolver, which takes a thread and some 50 ms for each connection.
        let address = try? SocketAddress(ipAddress: host, port: port)
        var bootstrap = ClientBootstrap(group: loop.eventLoop)
            .connectTimeout(timeout)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 1_024, initial: 1_024, maximum: 262_144))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        try channel.pipeline.syncOperations.addHandler(
                            try NIOSSLClientHandler(context: tls, serverHostname: address == nil ? host : nil))
                    }
                    try channel.pipeline.syncOperations.addHandler(bound.connection)
                }
            }
        for option in retransmission.options { bootstrap = bootstrap.channelOption(option.name, value: option.value) }
        do {
            if let sourceAddress { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: sourceAddress, port: 0)) }
        } catch {
            loop.eventLoop.assumeIsolated().execute { connection.fail(error) }
            return connection
        }
        let connected = address.map { bootstrap.connect(to: $0) } ?? bootstrap.connect(host: host, port: port)
        // A failure at once, such as a network without a route, is reported after the caller has the connection.
        connected.assumeIsolated().whenFailure { error in loop.eventLoop.assumeIsolated().execute { connection.fail(error) } }
        return connection
    }

    /// Carries the connection into the channel's initializer, which runs on the same loop.
    private struct Unchecked: @unchecked Sendable { let connection: HTTPClientConnection }

    /// The number of open streams.
    public var openCount: Int { session.openCount }

    /// Whether requests may be sent.
    public var isConnected: Bool { phase == .connected && !session.isGoingAway }

    // MARK: Requests

    /// Sends a request. Returns nil when the peer takes no more streams now. Header names are in lower case.
    public func send(
        _ method: HTTPRequest.Method, path: String, headers: [(name: StaticString, value: String)] = [], body: ByteBuffer? = nil,
        token: UInt32
    ) -> StreamID? {
        guard phase != .closed else { return nil }
        var fields = [
            HTTP2Headers.field(":method", method == .post ? "POST" : method == .head ? "HEAD" : "GET"),
            HTTP2Headers.field(":scheme", scheme),
        ]
        var values = [authority, Array(path.utf8)]
        values += headers.map { Array($0.value.utf8) }
        let joined = values.flatMap { $0 }
        let stream = joined.withUnsafeBufferPointer { joined in
            var start = 0
            var names: [StaticString] = [":authority", ":path"]
            names += headers.map(\.name)
            for (name, value) in zip(names, values) {
                fields.append(HTTP2Headers.field(name, copying: UnsafeBufferPointer(rebasing: joined[start..<start + value.count])))
                start += value.count
            }
            return session.request(fields, body: body, token: token, at: .now())
        }
        markDirty()
        return stream
    }

    /// Ends a stream at once.
    public func reset(_ stream: StreamID) {
        guard let slot = session.slot(of: stream) else { return }
        session.reset(slot, error: UInt32(NGHTTP2_CANCEL.rawValue))
        markDirty()
    }

    /// Sends PING.
    public func ping() {
        session.ping()
        markDirty()
    }

    /// Closes the connection at once.
    public func close() {
        if let context { context.close(promise: nil) } else { fail(ChannelError.ioOnClosedChannel) }
    }

    // MARK: The channel

    public func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    public func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    public func channelActive(context: ChannelHandlerContext) {
        // It was closed before it was open.
        guard phase != .closed else { return context.close(promise: nil) }
        flush()
        context.fireChannelActive()
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastReceivedAt = .now()
        flushTurn = .afterRead
        let isSound = unwrapInboundIn(data).withUnsafeReadableBytes { bytes in
            let isSound = session.receive(bytes, at: lastReceivedAt)
            session.takeEvents(handle)
            return isSound
        }
        flushTurn = .none
        if !isSound || session.isOver {
            flush()
            context.close(promise: nil)
        }
    }

    public func channelReadComplete(context: ChannelHandlerContext) { flush() }

    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { flush() }
        context.fireChannelWritabilityChanged()
    }

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        failure = error
        context.close(promise: nil)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        fail(failure)
        context.fireChannelInactive()
    }

    private func fail(_ error: (any Error)?) {
        guard phase != .closed else { return }
        phase = .closed
        for slot in session.streams.indices where session.streams[slot].number != 0 {
            let stream = session.id(of: slot)
            session.streams[slot].number = 0
            delegate?.streamClosed(
                self, stream: stream, token: session.streams[slot].token, error: UInt32(NGHTTP2_CANCEL.rawValue))
        }
        delegate?.closed(self, error: error)
    }

    private func handle(_ event: HTTP2Session.Event) {
        switch event {
        case .settings:
            guard phase == .connecting else { return }
            phase = .connected
            delegate?.connected(self)
        case .head(let slot):
            let (token, status) = (session.streams[slot].token, Int(session.streams[slot].status))
            delegate?.responseHead(self, stream: session.id(of: slot), token: token, status: status)
        case .data(let slot, let bytes):
            delegate?.responseBody(self, stream: session.id(of: slot), token: session.streams[slot].token, bytes: bytes)
        case .closed(let slot, let number, let error):
            guard session.streams[slot].number == number else { return }
            delegate?.streamClosed(self, stream: session.id(of: slot), token: session.streams[slot].token, error: error)
        case .request, .overflow, .goAway: break
        }
    }

    private func markDirty() {
        guard flushTurn == .none else { return }
        flushTurn = .listed
        loop.setNeedsFlush(self)
    }

    private func flush() {
        guard flushTurn != .afterRead else { return }
        flushTurn = .none
        guard let context, context.channel.isActive else { return }
        var hasMore = true
        while hasMore, context.channel.isWritable {
            var buffer = ByteBuffer()
            swap(&buffer, &loop.scratch)
            buffer.clear(minimumCapacity: 1_024)
            hasMore = session.send(into: &buffer, bytesMax: 256 << 10)
            if buffer.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
            swap(&buffer, &loop.scratch)
        }
        session.takeEvents(handle)
    }
}
