import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// A client's connection. Used on its event loop only.
///
/// The application uses HTTP/2 and HTTP/1.1 connections in the same way.
open class HTTPServerConnection: UnorderedListElement, ContinuedWork {
    /// The times for which a peer may send nothing.
    public struct SilenceLimits: Sendable {
        /// The silence after which the peer gets PING.
        public let ping: TimeAmount
        /// The silence after which the sessions of the connection end.
        public let end: TimeAmount

        public init(ping: TimeAmount, end: TimeAmount) {
            self.ping = ping
            self.end = end
        }
    }

    public let channel: any Channel
    /// The time at which the last bytes arrived, the answer to PING included.
    public internal(set) var lastReceivedAt: NIODeadline
    /// The application's state for the caller.
    public var applicationState: AnyObject?
    /// The time of the application's last PING.
    public var lastPingAt = NIODeadline.distantPast
    /// The application's count of its event streams on this connection.
    public var applicationCount = 0
    /// The application's limits; nil while it has no event stream on this connection.
    public var silenceLimits: SilenceLimits?
    let server: HTTPLoop
    /// The index in ``HTTPLoop/connections``.
    var listIndex = -1
    let openedAt: NIODeadline
    private var reading = Reading.much
    // This field fills the gap behind the phase: each connection pays for the gaps between its fields.
    var hasRequested = false
    /// The number of the connection on its loop, for ``RequestID``. It fits into the same gap.
    let serial: UInt32

    private enum Reading {
        /// Reads have the size of ``receiveAllocator``.
        case much
        /// A read takes 4 KiB, because of a pause that ended then.
        case little(since: NIODeadline)
        /// The peer's bytes are left unread for a while.
        case paused
        /// Nothing more is read until the close.
        case ended
    }

    init(channel: any Channel, server: HTTPLoop) {
        self.channel = channel
        self.server = server
        serial = server.nextSerial()
        openedAt = .now()
        lastReceivedAt = openedAt
    }

    public var eventLoop: any EventLoop { channel.eventLoop }

    /// The reads in one turn of the loop.
    var messagesPerRead: UInt { HTTPServer.messagesPerRead }

    /// Decides the size of a read.
    var receiveAllocator: any RecvByteBufferAllocator { HTTPServer.receiveAllocator }

    /// The limits of the peer.
    public var limits: HTTPLimits { server.limits }

    /// Whether the peer's bytes are left unread.
    var isReadingPaused: Bool {
        switch reading {
        case .paused, .ended: true
        case .much, .little: false
        }
    }

    /// Whether the connection reads little at a time, or will after its pause.
    var isReadingLittle: Bool {
        switch reading {
        case .little, .paused: true
        case .much, .ended: false
        }
    }

    /// Whether the connection speaks HTTP/2.
    open var isHTTP2: Bool { preconditionFailure("a connection speaks HTTP/1.1 or HTTP/2") }

    /// Whether the peer still waits for an answer on this stream.
    open func isAwaitingAnswer(_ stream: StreamID) -> Bool { preconditionFailure("to be overridden") }

    /// The origin of a request that is not answered yet, if its pages may not read answers. For logs.
    ///
    /// Nil for a text that no browser sends, and after too many different ones.
    open func refusedOrigin(of stream: StreamID) -> String? { nil }

    /// Answers a request with a complete body.
    open func respond(to stream: StreamID, _ response: HTTPResponse) { preconditionFailure("to be overridden") }

    /// Answers a request with a body that is copied, without an allocation.
    open func respond(
        to stream: StreamID, status: Int, contentType: HTTPResponse.ContentType, body: UnsafeBufferPointer<UInt8>
    ) {
        respond(to: stream, HTTPResponse(status: status, contentType: contentType, body: ByteBuffer(bytes: body)))
    }

    /// Answers a request with 200 and an endless `text/event-stream`. `token` identifies the stream in the delegate's calls.
    public func openEventStream(_ stream: StreamID, token: UInt32) { openStream(stream, of: .eventStream, token: token) }

    /// Answers a request with 200 and a body without a known end, as ``openEventStream(_:token:)``.
    ///
    /// - Returns: the compressor for all payloads that are pushed; nil if they are pushed as they are.
    @discardableResult
    open func openStream(_ stream: StreamID, of contentType: HTTPResponse.ContentType, token: UInt32) -> StreamCompressor? {
        preconditionFailure("to be overridden")
    }

    /// Answers HEAD with the head of ``openStream(_:of:token:)``. No stream is opened.
    open func respond(to stream: StreamID, headOfStream contentType: HTTPResponse.ContentType) {
        preconditionFailure("to be overridden")
    }

    /// Queues an event. Returns true when the stream's queue is full.
    ///
    /// Push nothing more then until ``HTTPServerDelegate/eventStreamDrained(_:token:on:)``.
    open func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool { preconditionFailure("to be overridden") }

    /// Ends an event stream after its queue.
    open func finish(_ stream: StreamID) { preconditionFailure("to be overridden") }

    /// Ends a stream at once.
    open func reset(_ stream: StreamID) { preconditionFailure("to be overridden") }

    /// Replaces the limits of an HTTP/2 peer that is authenticated.
    ///
    /// Its bytes no longer count among those that the connections of the loop hold together.
    open func setLimits(_ limits: HTTPLimits) {}

    /// Counts a request that the application refused as a stream that the peer has reset: see ``HTTPLimits/resetsMax``.
    open func countReset() {}

    /// Paces the new connections of the peer's address, because the peer has repeated a refused request or has sent a flood.
    ///
    /// Each begins 5 ms after the one before, until a second has passed without such a peer.
    public func paceAddress() { server.pacedAddresses.pace(origin, at: .now()) }

    /// Sends PING, or a comment on an HTTP/1.1 event stream.
    open func ping() { preconditionFailure("to be overridden") }

    /// Ends the connection after its last answer or event stream. Until then requests are served.
    open func leave() { preconditionFailure("to be overridden") }

    /// Ends the connection at once when nothing is open, else as ``leave()``. Event streams must be finished before.
    open func goAway() { preconditionFailure("to be overridden") }

    /// Closes the connection. An HTTP/2 peer gets GOAWAY first.
    open func cutOff() { close() }

    /// Limits the time for which sent bytes may stay unacknowledged (RFC 5482), on Linux.
    ///
    /// Without it TCP gives up after some 15 minutes.
    public func boundUnacknowledged(_ time: TimeAmount) {
        #if os(Linux)
            let option = ChannelOptions.Types.SocketOption(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT))
            // This fails only on a closed socket.
            _ = channel.setOption(option, value: Int(time.nanoseconds / 1_000_000))
        #endif
    }

    /// Sends the waiting bytes. Called once a turn.
    func flush() { preconditionFailure("to be overridden") }

    /// The time before which the connection should begin no further request, because of a large answer.
    open var requestsPausedUntil: NIODeadline { .distantPast }

    /// Continues with the requests of the connection that wait for their turn: see ``HTTPLoop/continueLater(_:)``.
    public func work() { preconditionFailure("to be overridden") }

    /// Ends the connection or its streams whose time is over. Called once a second.
    func sweep(at now: NIODeadline) { preconditionFailure("to be overridden") }

    /// Leaves the peer's bytes unread for a while, so that they wait at the peer.
    ///
    /// Then the connection reads 4 KiB at a time, some twenty requests, until it has not been paused for a second. Bytes that were read
    /// before are processed, and a close of the peer is noticed.
    public func pauseReading(for duration: TimeAmount) {
        guard !isReadingPaused, let options = channel.syncOptions else { return }
        do {
            if case .much = reading {
                try options.setOption(.maxMessagesPerRead, value: 1)
                try options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 4_096))
            }
            try options.setOption(.autoRead, value: false)
        } catch { return }  // The channel is closed, and reads nothing.
        reading = .paused
        eventLoop.assumeIsolated().scheduleTask(in: duration) { [weak self] in self?.resumeReading() }
    }

    private func resumeReading() {
        guard case .paused = reading else { return }
        reading = .little(since: .now())
        processHeldBack()
        guard !isReadingPaused else { return }
        do { try channel.syncOptions?.setOption(.autoRead, value: true) } catch { return }  // As above.
    }

    /// Processes bytes that were read and held back.
    func processHeldBack() {}

    /// Stops reading until the close, and frees the read buffer. Returns false when the channel is closed.
    func leaveUnread() -> Bool {
        guard let options = channel.syncOptions else { return false }
        do {
            try options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 512))
            try options.setOption(.autoRead, value: false)
        } catch { return false }
        reading = .ended
        return true
    }

    /// Restores the size of reads from before the first pause.
    func readMuchAgain(at now: NIODeadline) {
        guard case .little(let since) = reading, now - since > .seconds(1) else { return }
        reading = .much
        readMuch()
        do { try channel.syncOptions?.setOption(.recvAllocator, value: receiveAllocator) } catch { return }  // As above.
    }

    /// Allows several reads in a turn of the loop, for a client that has sent a request.
    ///
    /// Before its first request a connection has one read a turn, so that a flood of new connections leaves the turns short.
    func readMuch() {
        do { try channel.syncOptions?.setOption(.maxMessagesPerRead, value: messagesPerRead) } catch { return }  // As above.
    }

    /// The bytes of the connection that count towards ``HTTPLimits/heldBytesMax``.
    var heldBytes: Int { 0 }

    /// Ends the connection, because the connections of the loop hold too many bytes and this one holds most.
    func endForHeldBytes() {}

    /// Appends the answers that the peer has not read and that hold memory.
    func appendUnread(to answers: inout [UnreadAnswer]) {}

    /// Ends an answer that the peer has not read, because the connections of the loop hold too many bytes of such answers.
    ///
    /// - Parameter stream: the stream of the answer; nil if the answer waits for the socket.
    func endUnread(_ stream: StreamID?) {}

    /// Closes the connection at once.
    public func close() { channel.close(promise: nil) }

    /// The client's address as the limits count it.
    public var origin: ConnectionLimits.Address { ConnectionLimits.Address(clientAddress) }

    /// The client's address, for logs.
    public var remoteAddress: String { clientAddress?.description ?? "unknown" }

    /// The address of the peer, or of the client that a proxy has named.
    private var clientAddress: SocketAddress? {
        server.sharedLimits.clientAddresses == .ofConnections ? channel.remoteAddress : channel.clientBehindProxy
    }
}
