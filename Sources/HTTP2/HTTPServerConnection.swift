import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

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
