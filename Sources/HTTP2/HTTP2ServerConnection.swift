import CNGHTTP2
import NIOCore

/// The one channel handler of an HTTP/2 connection: no channel and no object a stream, one write and one flush a turn (design §7).
final class HTTP2ServerConnection: HTTPServerConnection, ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let session: HTTP2Session
    private var context: ChannelHandlerContext?
    private var isReading = false
    private var needsFlush = false
    private var isClosing = false
    /// Slots whose queue the application was told to be full.
    private var fullSlots: [Int] = []
    private var resetsCount = 0
    private var resetsSince: NIODeadline

    override init(channel: any Channel, server: HTTPLoop) {
        session = HTTP2Session(.server, limits: server.limits, chunk: server.chunk)
        resetsSince = .now()
        super.init(channel: channel, server: server)
    }

    override var isHTTP2: Bool { true }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        server.add(self)
        markDirty()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        lastReceivedAt = .now()
        isReading = true
        let isSound = buffer.withUnsafeReadableBytes { bytes in
            let isSound = session.receive(bytes, at: lastReceivedAt)
            session.takeEvents(handle)
            return isSound
        }
        guard isSound, !session.isOver else { return end(isSound ? nil : .protocolError) }
        countResets()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        flush()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { flush() }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        closeStreams()
        server.remove(self)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    private func closeStreams() {
        for slot in session.streams.indices where session.streams[slot].number != 0 && session.streams[slot].isEventStream {
            session.streams[slot].isEventStream = false
            server.delegate?.eventStreamClosed(session.id(of: slot), token: session.streams[slot].token, on: self, reason: .peerLeft)
        }
    }

    private func end(_ violation: HTTPViolation?) {
        if let violation { server.delegate?.violated(violation, on: self) }
        guard !isClosing else { return }
        isClosing = true
        isReading = false
        flush()
        context?.close(promise: nil)
    }

    // MARK: Events

    private func handle(_ event: HTTP2Session.Event) {
        switch event {
        case .request(let slot): request(slot)
        case .closed(let slot, _, let error): closed(slot, error: error)
        case .head, .data, .settings, .goAway: break
        }
    }

    private func request(_ slot: Int) {
        hasRequested = true
        let stream = session.id(of: slot)
        let state = session.streams[slot]
        guard !state.isAnswered else { return }
        var refused: Int?
        if state.isHeadTooLarge { (refused, _) = (431, server.delegate?.violated(.headerListTooLarge, on: self)) }
        if state.isBodyTooLarge { (refused, _) = (413, server.delegate?.violated(.bodyTooLarge, on: self)) }
        state.head.withUnsafeBufferPointer { head in
            state.body.withUnsafeBufferPointer { body in
                server.delegate?.requestReceived(HTTP2Request.make(stream, state, head: head, body: body, refused: refused), on: self)
            }
        }
    }

    private func closed(_ slot: Int, error: UInt32) {
        let state = session.streams[slot]
        fullSlots.removeAll { $0 == slot }
        guard state.isEventStream else { return }
        session.streams[slot].isEventStream = false
        let reason: StreamEnd = state.isFinished && error == 0 ? .finished : .peerLeft
        server.delegate?.eventStreamClosed(session.id(of: slot), token: state.token, on: self, reason: reason)
    }

    /// Ends a connection whose peer opens and resets streams in a flood (CVE-2023-44487).
    private func countResets() {
        resetsCount += session.takeResets()
        if lastReceivedAt - resetsSince > .seconds(10) { (resetsCount, resetsSince) = (0, lastReceivedAt) }
        guard resetsCount > server.limits.resetsMax else { return }
        session.goAway(error: UInt32(NGHTTP2_ENHANCE_YOUR_CALM.rawValue))
        end(.resetFlood)
    }

    // MARK: The application

    override func respond(to stream: StreamID, _ response: HTTPResponse) {
        guard let slot = session.slot(of: stream), !session.streams[slot].isAnswered else { return }
        session.streams[slot].isFinished = true
        session.streams[slot].append(response.body)
        HTTP2Headers.withFields(of: response) { session.respond(slot, $0) }
        if !session.streams[slot].isWhole { session.reset(afterAnswer: slot) }
        markDirty()
    }

    override func openEventStream(_ stream: StreamID, token: UInt32) {
        guard let slot = session.slot(of: stream), !session.streams[slot].isAnswered else { return }
        session.streams[slot].token = token
        session.streams[slot].isEventStream = true
        session.respond(slot, HTTP2Headers.eventStream)
        session.streams[slot].slim()
        markDirty()
    }

    override func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool {
        guard let slot = session.slot(of: stream) else { return false }
        let queued = session.push(payload, to: slot)
        markDirty()
        guard queued > server.limits.streamQueueBytesMax else { return false }
        if !session.streams[slot].isFull {
            session.streams[slot].isFull = true
            fullSlots.append(slot)
        }
        return true
    }

    override func finish(_ stream: StreamID) {
        guard let slot = session.slot(of: stream) else { return }
        session.finish(slot)
        markDirty()
    }

    override func reset(_ stream: StreamID) {
        guard let slot = session.slot(of: stream) else { return }
        session.reset(slot, error: UInt32(NGHTTP2_CANCEL.rawValue))
        markDirty()
    }

    override func ping() {
        session.ping()
        markDirty()
    }

    override func goAway() {
        session.goAway()
        markDirty()
    }

    // MARK: Sending

    private func markDirty() {
        guard !isReading, !needsFlush else { return }
        needsFlush = true
        server.setNeedsFlush(self)
    }

    override func flush() {
        needsFlush = false
        guard let context, !isReading else { return }
        var hasMore = true
        var hasWritten = false
        while hasMore, context.channel.isWritable {
            var buffer = ByteBuffer()
            swap(&buffer, &server.scratch)
            buffer.clear(minimumCapacity: 1_024)
            hasMore = session.send(into: &buffer, bytesMax: server.limits.unsentBytesTarget)
            if buffer.readableBytes > 0 {
                context.write(wrapOutboundOut(buffer), promise: nil)
                hasWritten = true
            }
            if hasMore || hasWritten { context.flush() }
            swap(&buffer, &server.scratch)
        }
        session.takeEvents(handle)
        if !fullSlots.isEmpty { reportDrained() }
        if session.isOver, !isClosing { end(nil) }
    }

    private func reportDrained() {
        let drained = fullSlots.filter { session.streams[$0].queuedBytes < server.limits.streamQueueBytesMax / 4 }
        fullSlots.removeAll { drained.contains($0) }
        for slot in drained {
            session.streams[slot].isFull = false
            server.delegate?.eventStreamDrained(session.id(of: slot), token: session.streams[slot].token, on: self)
        }
    }

    override func sweep(at now: NIODeadline) {
        if !hasRequested, session.openCount == 0, now - openedAt > server.limits.headerTimeout {
            server.delegate?.violated(.headerTimeout, on: self)
            session.goAway()
            return end(nil)
        }
        for slot in session.streams.indices where session.streams[slot].number != 0 {
            let state = session.streams[slot]
            guard !state.isWhole, !state.isAnswered, now - state.startedAt > server.limits.bodyTimeout else { continue }
            server.delegate?.violated(.bodyTimeout, on: self)
            session.reset(slot, error: UInt32(NGHTTP2_CANCEL.rawValue))
            markDirty()
        }
    }
}
