import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// Why an event stream is over.
public enum StreamEnd: Sendable {
    /// The peer reset it, or its connection is gone.
    case peerLeft
    /// This side finished it.
    case finished
}

/// What serves requests: one for each event loop; its methods are called on that loop only, and none is called from inside another
/// connection's call.
public protocol HTTPServerDelegate: AnyObject {
    /// A whole request is here. Answer it now or later with ``HTTPServerConnection/respond(to:_:)`` or ``HTTPServerConnection/openEventStream(_:token:)``.
    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection)
    /// An event stream is over. Called exactly once for each that was opened.
    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd)
    /// An event stream that was full has room again.
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection)
    /// A connection is ready for requests.
    func connectionOpened(_ connection: HTTPServerConnection)
    /// A connection is gone; its event streams were closed before.
    func connectionClosed(_ connection: HTTPServerConnection)
    /// A peer broke a rule.
    func violated(_ violation: HTTPViolation)
}

/// A request. Its bytes are valid only inside ``HTTPServerDelegate/requestReceived(_:on:)``.
public struct HTTPRequest {
    /// The method.
    public enum Method: Sendable { case get, post, other }

    public let stream: StreamID
    public let method: Method
    /// Path and query.
    public let target: UnsafeBufferPointer<UInt8>
    /// The value of `authorization`, empty when there is none.
    public let authorization: UnsafeBufferPointer<UInt8>
    /// The value of `last-event-id`, empty when there is none.
    public let lastEventID: UnsafeBufferPointer<UInt8>
    public let body: UnsafeBufferPointer<UInt8>
    /// A limit that the request broke; it is to be answered with this status.
    public let refusedStatus: Int?
    /// Says what was wrong and what would be right, where ``refusedStatus`` does not say it.
    public var refusedReason: StaticString?
}

/// An answer with a body.
public struct HTTPResponse {
    /// What the body is.
    public enum ContentType: Sendable { case json, problem, text, html, octets, metrics }

    public var status: Int
    public var contentType: ContentType
    public var body: ByteBuffer
    /// The `Retry-After` field, in seconds.
    public var retryAfter: Int?
    /// The `Allow` field.
    public var allow: StaticString?

    public init(status: Int, contentType: ContentType, body: ByteBuffer, retryAfter: Int? = nil, allow: StaticString? = nil) {
        self.status = status
        self.contentType = contentType
        self.body = body
        self.retryAfter = retryAfter
        self.allow = allow
    }
}

extension HTTPResponse {
    var head: HTTPAnswerHead {
        HTTPAnswerHead(
            status: status, contentType: contentType, bodyBytesCount: body.readableBytes, retryAfter: retryAfter, allow: allow)
    }
}

/// What goes before an answer's body.
struct HTTPAnswerHead {
    var status: Int
    var contentType: HTTPResponse.ContentType
    var bodyBytesCount: Int
    var retryAfter: Int?
    var allow: StaticString?
}

extension HTTPResponse.ContentType {
    var name: StaticString {
        switch self {
        case .json: "application/json"
        case .problem: "application/problem+json"
        case .text: "text/plain; charset=utf-8"
        case .html: "text/html; charset=utf-8"
        case .octets: "application/octet-stream"
        case .metrics: "text/plain; version=0.0.4; charset=utf-8"
        }
    }
}

/// One client's connection, HTTP/2 or HTTP/1.1: to the application they look the same. Used on its event loop only.
open class HTTPServerConnection: UnorderedListElement {
    /// How long a peer may say nothing.
    public struct SilenceLimits: Sendable {
        /// Then it is asked for a sign of life.
        public let ping: TimeAmount
        /// Then what it has opened ends.
        public let end: TimeAmount

        public init(ping: TimeAmount, end: TimeAmount) {
            self.ping = ping
            self.end = end
        }
    }

    public let channel: any Channel
    /// When the peer was last heard: any bytes, the answer to a ping included.
    public internal(set) var lastReceivedAt: NIODeadline
    /// For the application: what it knows of the caller.
    public var applicationState: AnyObject?
    /// When the application last asked for a sign of life.
    public var lastPingAt = NIODeadline.distantPast
    /// For the application: event streams it has opened here.
    public var applicationCount = 0
    /// The application's; nil while it has opened nothing here.
    public var silenceLimits: SilenceLimits?
    let server: HTTPLoop
    /// The index in ``HTTPLoop/connections``.
    var listIndex = -1
    let openedAt: NIODeadline
    private var readingResumedAt = NIODeadline.distantPast
    private var readingPausedUntil: NIODeadline?
    // Behind the byte that says whether there is a pause: each connection pays for the gaps between its fields.
    private(set) var isReadingLittle = false
    var hasRequested = false

    init(channel: any Channel, server: HTTPLoop) {
        self.channel = channel
        self.server = server
        openedAt = .now()
        lastReceivedAt = openedAt
    }

    public var eventLoop: any EventLoop { channel.eventLoop }

    /// Reads without a turn of the other connections.
    var messagesPerRead: UInt { HTTPServer.messagesPerRead }

    /// Decides how much is read at a time.
    var receiveAllocator: any RecvByteBufferAllocator { HTTPServer.receiveAllocator }

    /// The bounds on what the peer may ask for.
    public var limits: HTTPLimits { server.limits }

    /// Whether what the peer sends is left unread for a while.
    var isReadingPaused: Bool { readingPausedUntil != nil }

    /// Whether it speaks HTTP/2.
    open var isHTTP2: Bool { preconditionFailure("a connection speaks HTTP/1.1 or HTTP/2") }

    /// Whether the peer still waits for the answer to this request.
    open func isAwaitingAnswer(_ stream: StreamID) -> Bool { preconditionFailure("to be overridden") }

    /// Answers a request, whole.
    open func respond(to stream: StreamID, _ response: HTTPResponse) { preconditionFailure("to be overridden") }

    /// Answers a request with a body that is copied: nothing is allocated for it.
    open func respond(
        to stream: StreamID, status: Int, contentType: HTTPResponse.ContentType, body: UnsafeBufferPointer<UInt8>
    ) {
        respond(to: stream, HTTPResponse(status: status, contentType: contentType, body: ByteBuffer(bytes: body)))
    }

    /// Answers a request with 200 and an endless `text/event-stream`; `token` comes back with all that happens to it.
    open func openEventStream(_ stream: StreamID, token: UInt32) { preconditionFailure("to be overridden") }

    /// Queues an event. Returns true when the stream's queue is full: hold back until ``HTTPServerDelegate/eventStreamDrained(_:token:on:)``.
    open func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool { preconditionFailure("to be overridden") }

    /// Ends an event stream after what is queued.
    open func finish(_ stream: StreamID) { preconditionFailure("to be overridden") }

    /// Ends a stream at once.
    open func reset(_ stream: StreamID) { preconditionFailure("to be overridden") }

    /// Bounds what the peer may send from now on by other limits than those of its loop, over HTTP/2: for one that has proved who it is. Its
    /// bytes no longer count among those that the loop's connections hold together.
    open func setLimits(_ limits: HTTPLimits) {}

    /// Counts a request that the application refused as a stream that the peer has reset: see ``HTTPLimits/resetsMax``.
    open func countReset() {}

    /// Has the next connections of the peer's address begin one after the other, because it asked again for what it was just refused. Each begins
    /// 5 ms after the one before, until the peer has not asked so for a second.
    public func paceAddress() { server.pacedAddresses.pace(origin, at: .now()) }

    /// Asks for a sign of life.
    open func ping() { preconditionFailure("to be overridden") }

    /// Asks the peer to go elsewhere as soon as that can cost it nothing: with the end of the last answer or event stream that is open. Until then
    /// requests are served.
    open func leave() { preconditionFailure("to be overridden") }

    /// As ``leave()``, but its time is over: where nothing is open, the peer is asked at once. Event streams are to be finished before.
    open func goAway() { preconditionFailure("to be overridden") }

    /// Closes the connection, and says goodbye where that was not done.
    open func cutOff() { close() }

    /// Has TCP give up when what was sent has not been acknowledged for so long (RFC 5482), on Linux; without it that takes some 15 minutes.
    public func boundUnacknowledged(_ time: TimeAmount) {
        #if os(Linux)
            let option = ChannelOptions.Types.SocketOption(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT))
            // This fails on a socket alone that is gone already.
            _ = channel.setOption(option, value: Int(time.nanoseconds / 1_000_000))
        #endif
    }

    /// Sends what is waiting; called once a turn.
    func flush() { preconditionFailure("to be overridden") }

    /// Ends what has taken too long.
    func sweep(at now: NIODeadline) { preconditionFailure("to be overridden") }

    /// Leaves what the peer sends unread for a while, so that it waits at the peer and costs nothing here; then, until it has not been
    /// paused for a second, reads 4 KiB at a time, some twenty requests. What was read already is not held back, and that the peer has
    /// closed is noticed all the same.
    public func pauseReading(for duration: TimeAmount) {
        guard readingPausedUntil == nil, let options = channel.syncOptions else { return }
        do {
            if !isReadingLittle {
                try options.setOption(.maxMessagesPerRead, value: 1)
                try options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 4_096))
                isReadingLittle = true
            }
            try options.setOption(.autoRead, value: false)
        } catch { return }  // The channel is closed: it reads nothing any more.
        let until = NIODeadline.now() + duration
        readingPausedUntil = until
        eventLoop.assumeIsolated().scheduleTask(deadline: until) { [weak self] in self?.resumeReading() }
    }

    private func resumeReading() {
        readingPausedUntil = nil
        readingResumedAt = .now()
        do { try channel.syncOptions?.setOption(.autoRead, value: true) } catch { return }  // As above.
    }

    /// Reads nothing more until it is closed, and gives back the buffer for it. Returns false when it is closed already.
    func leaveUnread() -> Bool {
        guard let options = channel.syncOptions else { return false }
        do {
            try options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 512))
            try options.setOption(.autoRead, value: false)
        } catch { return false }
        return true
    }

    /// Reads as much at a time as it did before it was first paused.
    func readMuchAgain(at now: NIODeadline) {
        guard isReadingLittle, readingPausedUntil == nil, now - readingResumedAt > .seconds(1) else { return }
        isReadingLittle = false
        readMuch()
        do { try channel.syncOptions?.setOption(.recvAllocator, value: receiveAllocator) } catch { return }  // As above.
    }

    /// Reads several times in a turn of the loop, for a client that has sent a request. Until then a connection has one read in each turn, so that
    /// a flood of connections without requests leaves the turns short.
    func readMuch() {
        do { try channel.syncOptions?.setOption(.maxMessagesPerRead, value: messagesPerRead) } catch { return }  // As above.
    }

    /// Bytes that count towards ``HTTPLimits/heldBytesMax``.
    var heldBytes: Int { 0 }

    /// Ends the connection because it holds more than any other and all hold too much.
    func endForHeldBytes() {}

    /// Cuts the connection.
    public func close() { channel.close(promise: nil) }

    /// The peer's address, as the limits count it.
    public var origin: ConnectionLimits.Address { ConnectionLimits.Address(channel.remoteAddress) }

    /// The peer's address, for logs.
    public var remoteAddress: String { channel.remoteAddress?.description ?? "unknown" }
}

/// What the connections of one event loop share.
public final class HTTPLoop {
    public let eventLoop: any EventLoop
    let sharedLimits: SharedLimits
    public weak var delegate: (any HTTPServerDelegate)?
    let chunk = FrameChunk()
    /// The buffer that outgoing bytes are collected in; taken out while in use.
    var scratch = ByteBuffer()
    private var dirty: [HTTPServerConnection] = []
    private var isScheduled = false
    /// The open connections, in no particular order.
    public var connections: [HTTPServerConnection] { openConnections.elements }
    private var openConnections = UnorderedList<HTTPServerConnection>()
    /// New connections whose protocol is not known. The list replaces a timer for each, which kept a closed connection's memory until it fired.
    private(set) var undecided = UnorderedList<ProtocolDetector>()
    var pacedAddresses = PacedAddresses()
    private var isSweeping = false
    /// Each answer over HTTP/1.1 ends its connection.
    private(set) var isLeaving = false
    /// Connections that have had their last word and wait for the peer to read it.
    var lingeringCount = 0
    static let lingeringMax = 256
    /// How long such a connection waits. A variable for tests on a busy machine alone.
    var lingeringTime = TimeAmount.milliseconds(250)
    /// How long a connection that ends in good order waits for its peer to close, so that nothing of what was sent is lost.
    static let farewellTime = TimeAmount.seconds(1)
    /// Connections with requests that are left for the next turn.
    private var continuing: [HTTP1ServerConnection] = []
    private var isContinuing = false
    /// When the time of the turn is over, if one has begun.
    private var turnEnd: NIODeadline?
    /// For the answers of this loop.
    let date = HTTPDate()

    public init(eventLoop: any EventLoop, limits: HTTPLimits, delegate: (any HTTPServerDelegate)?) {
        self.eventLoop = eventLoop
        sharedLimits = SharedLimits(limits)
        self.delegate = delegate
    }

    public var limits: HTTPLimits { sharedLimits.limits }

    /// Open connections.
    public var connectionsCount: Int { connections.count }

    func add(_ connection: HTTPServerConnection) {
        openConnections.add(connection)
        if isLeaving { connection.leave() }
        scheduleSweep()
        delegate?.connectionOpened(connection)
    }

    func remove(_ connection: HTTPServerConnection) {
        if openConnections.remove(connection) { delegate?.connectionClosed(connection) }
    }

    func add(_ detector: ProtocolDetector) {
        undecided.add(detector)
        scheduleSweep()
    }

    /// Removes a connection that has closed, or whose protocol is known now.
    func remove(_ detector: ProtocolDetector) { _ = undecided.remove(detector) }

    /// Ends the connections that hold most until all together hold no more than they may.
    func boundHeldBytes() {
        while sharedLimits.heldBytes > limits.heldBytesMax {
            let heldBytes = sharedLimits.heldBytes
            connections.max { $0.heldBytes < $1.heldBytes }?.endForHeldBytes()
            guard sharedLimits.heldBytes < heldBytes else { return }
        }
    }

    /// Has the connection flushed at the end of this turn.
    func setNeedsFlush(_ connection: HTTPServerConnection) {
        dirty.append(connection)
        guard !isScheduled else { return }
        isScheduled = true
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes and flushes every connection that has something to say, once.
    public func flush() {
        isScheduled = false
        while let connection = dirty.popLast() { connection.flush() }
        boundHeldBytes()
    }

    /// Whether there is time left in this turn for what connections have received, one millisecond for all of them.
    func mayWork(at now: NIODeadline) -> Bool {
        if let turnEnd { return now < turnEnd }
        turnEnd = now + .milliseconds(1)
        eventLoop.assumeIsolated().execute { self.turnEnd = nil }
        return true
    }

    /// Has the connection go on with its requests after the others have had their turn.
    func continueLater(_ connection: HTTP1ServerConnection) {
        continuing.append(connection)
        if continuing.count == 1, !isContinuing { scheduleContinuation() }
    }

    /// Each of these may read again, which takes about as long as what it does.
    private static let continuedAtOnceMax = 16

    /// Lets those that wait longest go on, for half a millisecond, and the others later.
    ///
    /// An event loop runs its tasks until none is due, and only then reads. So the next time is a little after everything else is done.
    private func scheduleContinuation() {
        eventLoop.assumeIsolated().scheduleTask(in: .microseconds(200)) {
            let connections = self.continuing
            self.continuing = []
            self.isContinuing = true
            let end = NIODeadline.now() + .microseconds(500)
            var count = 0
            while count < min(connections.count, Self.continuedAtOnceMax), .now() < end {
                connections[count].work()
                count += 1
            }
            self.continuing.insert(contentsOf: connections.dropFirst(count), at: 0)
            self.flush()
            self.isContinuing = false
            if !self.continuing.isEmpty { self.scheduleContinuation() }
        }
    }

    /// Looks after all connections once a second, while there are any.
    private func scheduleSweep() {
        guard !isSweeping, !connections.isEmpty || !undecided.elements.isEmpty else { return }
        isSweeping = true
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
            self.isSweeping = false
            self.date.refresh(at: .now())
            self.sweep(at: .now())
            self.scheduleSweep()
        }
    }

    /// Ends connections and streams whose time is over.
    func sweep(at now: NIODeadline) {
        for detector in undecided.elements { detector.sweep(at: now) }
        pacedAddresses.sweep(at: now)
        for connection in connections {
            connection.sweep(at: now)
            connection.readMuchAgain(at: now)
        }
        boundHeldBytes()
    }

    /// Has every connection end once nothing is open there, those too that are accepted from now on. See ``HTTPServerConnection/leave()``.
    public func leave() {
        isLeaving = true
        for connection in connections { connection.leave() }
    }

    /// As ``leave()``, but those on which nothing is open end now.
    public func goAway() {
        isLeaving = true
        for connection in connections { connection.goAway() }
    }

    /// Cuts every connection.
    public func closeAll() {
        for connection in connections { connection.cutOff() }
        for detector in undecided.elements { detector.context?.close(promise: nil) }
    }
}
