import CNGHTTP2
import NIOCore

/// The only channel handler of an HTTP/2 connection.
///
/// A stream has neither a channel nor an object of its own. Each turn of the loop makes one write and one flush.
final class HTTP2ServerConnection: HTTPServerConnection, ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let session: HTTP2Session
    private var context: ChannelHandlerContext?
    private var life = Life.open
    private var flushTurn = FlushTurn.none
    private var leaving = Leaving.no
    private var isWritable = true
    /// Nothing was received since memory was freed.
    private var isSlim = false
    /// The peer has sent FIN.
    private(set) var isInputClosed = false
    /// The slots of event streams in phase `.full`.
    private var fullSlots: [Int] = []
    /// The requests that wait, and the time for the others.
    private var requests = RequestTurn()
    /// Bytes that were given to the channel since its queue was counted last; at most 65,535.
    private var uncountedBytes: UInt16 = 0
    /// Bytes in the channel's queue at the last count. They do not count while an event stream is open.
    private var unsentBytes: Int32 = 0
    /// Bytes that were read and wait for the connection's turn to decode: see ``HTTPLoop/mayDecode(at:)``.
    private var heldBack: ByteBuffer?
    /// The last time at which no answer waited, or part of one had just been sent.
    private var progressAt: NIODeadline
    private var faults: FaultCounts

    override init(channel: any Channel, server: HTTPLoop) {
        session = HTTP2Session(.server, limits: server.sharedLimits, chunk: server.chunk)
        progressAt = .now()
        faults = FaultCounts(at: progressAt)
        super.init(channel: channel, server: server)
    }

    override var isHTTP2: Bool { true }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        do { try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true) } catch { return context.close(promise: nil) }
        server.add(self)
        markDirty()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if life == .closing { return }
        var bytes = unwrapInboundIn(data)
        lastReceivedAt = .now()
        server.date.refresh(at: lastReceivedAt)
        // The reads of one turn share its time.
        if flushTurn != .afterRead { requests.begin(at: lastReceivedAt, for: server.limits.turnTime) }
        flushTurn = .afterRead
        isSlim = false
        guard heldBack == nil else { return holdBackToo(bytes) }
        var (now, decoded) = (lastReceivedAt, DecodedHeads())
        while true {
            let hasTime = mayDecode(at: now)
            // Requests with ordinary header lists do not wait behind those with large ones. After large ones reading waits in any case.
            guard hasTime || (!isReadingLittle && decoded.isLittle) else { return holdBack(bytes, at: now) }
            guard let part = process(&bytes, headsMax: hasTime ? Self.headsAtOnceMax : Self.fewHeads, at: now) else { return }
            decoded += part
            if bytes.readableBytes == 0, hasTime || decoded.isLittle { return }
            now = .now()
        }
    }

    /// Processes bytes up to a number of requests. Returns their header lists; nil when the connection ends.
    private func process(_ bytes: inout ByteBuffer, headsMax: Int, at now: NIODeadline) -> DecodedHeads? {
        let takenBytes = bytes.withUnsafeReadableBytes { bytes in
            defer { session.takeEvents(handle) }
            return session.receive(bytes, headsMax: headsMax, at: now)
        }
        checkLife()
        let decoded = server.countDecoded(at: now)
        guard let takenBytes else {
            end(session.fault ?? .protocolError)
            return nil
        }
        bytes.moveReaderIndex(forwardBy: takenBytes)
        if session.isOver {
            end(session.isBroken ? .protocolError : nil)
            return nil
        }
        countFaults()
        boundFrames()
        server.boundHeldBytes()
        return life == .closing ? nil : decoded
    }

    /// Holds bytes back until the connection's turn to decode, and reads nothing until then.
    private func holdBack(_ bytes: ByteBuffer, at now: NIODeadline) {
        session.hold(bytes.readableBytes)
        // The memory of the read may be much larger.
        heldBack = ByteBuffer(bytes: bytes.readableBytesView)
        pauseReading(for: server.reserveDecodingTurn(at: now))
        server.boundHeldBytes()
    }

    /// Holds further bytes back, which arrive in the same turn or with the peer's FIN.
    private func holdBackToo(_ bytes: ByteBuffer) {
        session.hold(bytes.readableBytes)
        heldBack?.writeImmutableBuffer(bytes)
        server.boundHeldBytes()
    }

    override func processHeldBack() {
        guard life != .closing, var bytes = heldBack else { return }
        heldBack = nil
        session.hold(-bytes.readableBytes)
        server.beginDecodingTurn()
        var decoded = DecodedHeads()
        while let part = process(&bytes, headsMax: Self.headsAtOnceMax, at: .now()), bytes.readableBytes > 0 {
            decoded += part
            guard decoded.cost < HTTPLoop.decodedBytesPerTurn else {
                holdBack(bytes, at: .now())
                break
            }
        }
        markDirty()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // NIO also calls this at the end of the input. A write that fails closes the channel, which NIO expects to stay open until then.
        guard flushTurn == .afterRead else { return }
        flushTurn = .none
        flush()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable { flush() }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        // A FIN or RST counts as a sign of life.
        if life != .closing { lastReceivedAt = .now() }
        closeStreams()
        dropStreams()
        server.remove(self)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent {
            isInputClosed = true
            if life == .closing {
                context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in context.close(promise: nil) }
            }
            flush()
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Ends the streams that need further input of a peer that has sent FIN: event streams and incomplete requests.
    ///
    /// Complete requests are still answered.
    private func endWithoutInput() {
        let open = session.streams.indices.filter { session.streams[$0].number != 0 }
        for slot in open where session.streams[slot].needsInput {
            session.reset(slot, error: UInt32(NGHTTP2_CANCEL.rawValue))
            markDirty()
        }
        closeStreams()
        if open.isEmpty { end(nil) }
    }

    private func closeStreams() {
        for slot in session.streams.indices where session.streams[slot].number != 0 && session.streams[slot].detachReader() {
            server.delegate?.eventStreamClosed(session.id(of: slot), token: session.streams[slot].token, on: self, reason: .peerLeft)
        }
    }

    // MARK: Events

    private func handle(_ event: HTTP2Session.Event) {
        switch event {
        case .request(let slot):
            if !hasRequested {
                hasRequested = true
                if !isReadingLittle { readMuch() }
            }
            if requests.isEmpty, mayBegin, requests.takeOne(waitingBytes: session.waitingBytes) {
                _ = request(slot)
            } else {
                requests.hold(session.id(of: slot))
                if mayBegin { waitForTurn() }
            }
        case .closed(let slot, _, let error): closed(slot, error: error)
        case .overflow(let slot):
            guard !session.streams[slot].isClosed else { return }
            server.delegate?.violated(.bufferedTooMuch)
            session.reset(slot, error: UInt32(NGHTTP2_ENHANCE_YOUR_CALM.rawValue))
        case .head, .data, .settings, .goAway: break
        }
    }

    /// Has the loop call ``work()`` after the other connections have had their turn.
    private func waitForTurn() {
        guard requests.list() else { return }
        guard requests.pausedUntil > lastReceivedAt else { return server.continueLater(self) }
        eventLoop.assumeIsolated().scheduleTask(deadline: requests.pausedUntil) { [weak self] in
            if let self { server.continueLater(self) }
        }
    }

    override var requestsPausedUntil: NIODeadline { requests.pausedUntil }

    public override func work() {
        requests.beginListed(at: .now())
        beginHeld()
        // The loop flushes at the end of this turn, and the turn may have ended before any answer.
        markDirty()
    }

    /// Begins waiting requests, in order, while ``mayBegin`` holds and the turn has time, and counts their faults.
    private func beginHeld() {
        while mayBegin, let stream = requests.next() {
            if let slot = session.slot(of: stream), !session.streams[slot].isClosed, !request(slot) { break }
        }
        if requests.endTurn(), mayBegin { waitForTurn() }
        countFaults()
    }

    /// Hands a request to the application. Returns false if the request must wait, because its answer may be large.
    private func request(_ slot: Int) -> Bool {
        guard let delegate = server.delegate else {
            session.reset(slot, error: UInt32(NGHTTP2_REFUSED_STREAM.rawValue))
            return true
        }
        guard session.streams[slot].isAwaitingAnswer else { return true }
        let mayBeLarge = session.streams[slot].withRequest { delegate.mayHaveLargeAnswer($0, body: $1) }
        if mayBeLarge, !server.largeAnswers.begin(session.id(of: slot), on: self) {
            requests.postpone(session.id(of: slot))
            return false
        }
        var refused: Int?
        if session.streams[slot].hasTooLargeHead {
            (refused, _) = (431, delegate.violated(.headerListTooLarge))
            faults.countLargeHeader()
        }
        if session.streams[slot].hasTooLargeBody { (refused, _) = (413, delegate.violated(.bodyTooLarge)) }
        // The bytes are taken out of the slot, because the answer inside the call may write there.
        var (head, body) = session.takeRequest(slot)
        let (id, layout) = (session.id(of: slot), session.streams[slot].layout)
        head.withUnsafeBufferPointer { head in
            body.withUnsafeBufferPointer { body in
                delegate.requestReceived(layout.request(id, head, body, refused: refused), on: self)
            }
        }
        session.streams[slot].giveBack(head: &head, body: &body)
        return true
    }

    private func closed(_ slot: Int, error: UInt32) {
        checkLife()
        if leaving == .afterStream { leaving = .whenEmpty }
        if !fullSlots.isEmpty { fullSlots.removeAll { $0 == slot } }
        guard session.streams[slot].detachReader() else { return }
        let reason: StreamEnd = session.streams[slot].isFinishing && error == 0 ? .finished : .peerLeft
        server.delegate?.eventStreamClosed(session.id(of: slot), token: session.streams[slot].token, on: self, reason: reason)
    }

    /// Ends a connection whose peer resets too many streams (CVE-2023-44487), or sends too many large headers.
    private func countFaults() {
        if let fault = faults.count(resets: session.takeResets(), at: lastReceivedAt, server.limits) { end(fault) }
    }

    /// Ends a connection whose peer provokes too many frames and does not read them.
    private func boundFrames() {
        if session.waitingFramesCount > 4 * server.limits.streamsMax + server.limits.waitingFramesMax { end(.frameFlood) }
    }

    // MARK: The end

    /// Closes the connection at once. The end of the channel is then no sign of life of the client.
    override func close() {
        life = .closing
        super.close()
    }

    /// Lets the next flush look whether the session is over.
    private func checkLife() { if life == .open { life = .perhapsOver } }

    /// Ends the connection.
    ///
    /// Without a fault, all waiting bytes are sent first. After a fault of the peer, only a last GOAWAY with the reason follows.
    private func end(_ fault: HTTP2Fault?) {
        guard life != .closing, let context else { return }
        life = .closing
        if let fault { server.delegate?.violated(fault.violation) }
        if fault?.isFlood == true { paceAddress() }
        closeStreams()
        var last = ByteBuffer()
        if let fault {
            session.sendLastGoAway(for: fault, into: &last)
            dropStreams()
            context.writeAndFlush(wrapOutboundOut(last), promise: nil)
            return linger(context)
        }
        _ = session.send(into: &last, bytesMax: .max)
        let written = context.writeAndFlush(wrapOutboundOut(last)).assumeIsolated()
        written.whenComplete { [weak self] _ in self?.closeAfterPeer() }
        closeLater(server.limits.headerTimeout)
    }

    /// Closes when the peer closes, or after ``HTTPLoop/farewellTime``.
    ///
    /// After an earlier close the kernel would answer a request that crosses GOAWAY with a reset. The peer could lose an answer by it.
    private func closeAfterPeer() { if isInputClosed { context?.close(promise: nil) } else { closeLater(server.farewellTime) } }

    private func closeLater(_ time: TimeAmount) {
        eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in self?.context?.close(promise: nil) }
    }

    /// Closes after ``HTTPLoop/lingeringTime``, and reads nothing until then.
    ///
    /// When a socket with unread bytes is closed, the kernel sends a reset, which can overtake the last GOAWAY.
    private func linger(_ context: ChannelHandlerContext) {
        guard server.lingeringCount < HTTPLoop.lingeringMax, leaveUnread() else { return context.close(promise: nil) }
        server.lingeringCount += 1
        eventLoop.assumeIsolated().scheduleTask(in: server.lingeringTime) { [weak self, server] in
            server.lingeringCount -= 1
            self?.context?.close(promise: nil)
        }
    }

    private func dropStreams() {
        session.dropStreams()
        requests.drop()
        fullSlots = []
        heldBack = nil
        countUnsent()
    }

    override var heldBytes: Int { isCounted ? session.heldBytes + Int(unsentBytes) : 0 }

    /// Whether the bytes of the connection count among those that the connections of the loop hold together.
    private var isCounted: Bool { session.sharedLimits === server.sharedLimits }

    override func endForHeldBytes() { end(.heldTooMuch) }

    override func appendUnread(to answers: inout [UnreadAnswer]) {
        guard life != .closing, isCounted else { return }
        for slot in session.streams.indices where session.streams[slot].number != 0 && session.streams[slot].isAnswerUnread {
            answers.append(
                UnreadAnswer(
                    since: session.streams[slot].startedAt, bytesCount: session.streams[slot].keptBytes, connection: self,
                    stream: session.id(of: slot)))
        }
        guard unsentBytes > 0 else { return }
        answers.append(UnreadAnswer(since: progressAt, bytesCount: Int(unsentBytes), connection: self, stream: nil))
    }

    /// Resets the stream if the peer does not take it now. If the socket takes nothing, the connection ends.
    override func endUnread(_ stream: StreamID?) {
        guard let context, life != .closing else { return }
        let countedBytes = unsentBytes
        send(context)
        session.takeEvents(handle)
        countUnsent()
        // The peer has read some since the last count.
        if stream == nil, unsentBytes < countedBytes { return }
        guard isWritable, let stream else {
            end(.unreadTooMuch)
            return context.close(promise: nil)
        }
        guard let slot = session.slot(of: stream) else { return }
        server.delegate?.violated(.unreadTooMuch)
        session.reset(slot, error: UInt32(NGHTTP2_ENHANCE_YOUR_CALM.rawValue))
        // The memory of the stream is free when nghttp2 has closed it, which it does when it writes the reset.
        send(context)
        session.takeEvents(handle)
        markDirty()
    }

    private func countUnsent() {
        uncountedBytes = 0
        var count: Int32 = 0
        if isCounted, life != .closing, !session.hasEventStreams {
            count = Int32(clamping: ((try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? nil) ?? 0)
        }
        server.sharedLimits.heldBytes += Int(count - unsentBytes)
        unsentBytes = count
    }

    // MARK: The application

    override func isAwaitingAnswer(_ stream: StreamID) -> Bool {
        guard channel.isActive, life != .closing, let slot = session.slot(of: stream) else { return false }
        return session.streams[slot].isAwaitingAnswer
    }

    override func refusedOrigin(of stream: StreamID) -> String? {
        session.slot(of: stream).flatMap { server.origins.refusedValue(of: session.streams[$0].origin) }
    }

    override func respond(to stream: StreamID, _ response: HTTPResponse) {
        guard let slot = session.slot(of: stream), session.streams[slot].isAwaitingAnswer else { return }
        let accepted = session.streams[slot].accepted
        if server.compressesLater(response, accepted: accepted, to: stream, on: self) { return }
        let (head, body) = server.coded(response, accepted: accepted)
        if session.streams[slot].method != .head { session.streams[slot].append(body) }
        answer(slot, head)
    }

    override func respond(
        to stream: StreamID, status: Int, contentType: HTTPResponse.ContentType, body: UnsafeBufferPointer<UInt8>
    ) {
        guard let slot = session.slot(of: stream), session.streams[slot].isAwaitingAnswer else { return }
        requests.count(answerBytes: body.count)
        server.count(answerBytes: body.count)
        if body.count > ContentCoding.bytesAtOnceMax, session.streams[slot].accepted == .gzip {
            return respond(to: stream, HTTPResponse(status: status, contentType: contentType, body: ByteBuffer(bytes: body)))
        }
        var (head, bytes) = (HTTPAnswerHead(status: status, contentType: contentType, bodyBytesCount: body.count), body)
        if bytes.count >= ContentCoding.bytesMin { server.code(&head, &bytes, accepted: session.streams[slot].accepted) }
        if session.streams[slot].method != .head { session.streams[slot].append(answer: bytes) }
        answer(slot, head)
    }

    private func answer(_ slot: Int, _ head: HTTPAnswerHead) {
        let origin = head.isPublic ? .any : session.streams[slot].origin
        let isVaried = server.origins.areAnswersVaried
        requestID(session.streams[slot].number).withText { id in
            server.origins.withValue(of: origin) { origin in
                HTTP2Headers.withFields(of: head, server.date, origin, isVaried: isVaried, id: id) { session.respond(slot, $0) }
            }
        }
        markDirty()
    }

    override func openStream(_ stream: StreamID, of contentType: HTTPResponse.ContentType, token: UInt32) -> StreamCompressor? {
        guard let slot = session.slot(of: stream), session.streams[slot].isAwaitingAnswer else { return nil }
        session.streams[slot].token = token
        let coding = withStreamFields(contentType, slot) { session.openEvents(slot, $0) }
        session.streams[slot].slim()
        markDirty()
        return coding.compressor
    }

    override func respond(to stream: StreamID, headOfStream contentType: HTTPResponse.ContentType) {
        guard let slot = session.slot(of: stream), session.streams[slot].isAwaitingAnswer else { return }
        _ = withStreamFields(contentType, slot) { session.respond(slot, $0) }
        markDirty()
    }

    override func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool {
        guard let slot = session.slot(of: stream) else { return false }
        let queued = session.push(payload, to: slot)
        markDirty()
        guard queued > server.limits.streamQueueBytesMax else { return false }
        if session.streams[slot].fill() { fullSlots.append(slot) }
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

    override func countReset() { faults.countReset() }

    override func setLimits(_ limits: HTTPLimits) {
        let limits = SharedLimits(limits, origins: server.origins)
        (limits.heldBytes, session.sharedLimits.heldBytes) = (session.heldBytes, session.sharedLimits.heldBytes - session.heldBytes)
        session.sharedLimits = limits
    }

    override func ping() {
        session.ping()
        markDirty()
    }

    override func leave() { leaving = .afterStream }

    override func goAway() {
        leaving = .whenEmpty
        markDirty()
    }

    override func cutOff() {
        session.goAway()
        flush()
        close()
    }

    // MARK: Sending

    private func markDirty() {
        guard flushTurn == .none else { return }
        flushTurn = .listed
        server.setNeedsFlush(self)
    }

    override func flush() {
        guard flushTurn != .afterRead else { return }
        flushTurn = .none
        guard let context, life != .closing else { return }
        send(context)
        session.takeEvents(handle)
        if !fullSlots.isEmpty { reportDrained() }
        if requests.isWaitingForBytes { beginHeld() }
        server.boundHeldBytes()
        if isInputClosed, heldBack == nil { endWithoutInput() }
        guard life == .perhapsOver else { return }
        life = .open
        if session.isOver { end(session.isBroken ? .protocolError : nil) }
    }

    private func send(_ context: ChannelHandlerContext) {
        var hasMore = true
        while hasMore, isWritable {
            var buffer = ByteBuffer()
            swap(&buffer, &server.scratch)
            buffer.clear(minimumCapacity: 1_024)
            hasMore = session.send(into: &buffer, bytesMax: server.limits.unsentBytesTarget)
            if !hasMore, leaving != .no { appendGoAway(to: &buffer) }
            if buffer.readableBytes > 0 {
                uncountedBytes = UInt16(clamping: Int(uncountedBytes) + buffer.readableBytes)
                context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
            }
            swap(&buffer, &server.scratch)
        }
        if unsentBytes > 0 || uncountedBytes > Self.uncountedBytesMax.inFlush { countUnsent() }
    }

    /// Appends GOAWAY to the last answer, if it is due. In a later write it may cross the client's next request, which is then refused.
    private func appendGoAway(to buffer: inout ByteBuffer) {
        session.takeEvents(handle)
        // Not while a stream is open: some clients drop every stream of a connection at GOAWAY, also those that may continue.
        guard leaving == .whenEmpty, session.openCount == 0, !session.isLeaving else { return }
        session.goAway()
        checkLife()
        _ = session.send(into: &buffer, bytesMax: .max)
    }

    private func reportDrained() {
        let drained = fullSlots.filter { session.streams[$0].queuedBytes < server.limits.streamQueueBytesMax / 4 }
        fullSlots.removeAll { drained.contains($0) }
        for slot in drained where session.streams[slot].drain() {
            server.delegate?.eventStreamDrained(session.id(of: slot), token: session.streams[slot].token, on: self)
        }
    }

    /// Whether answers have waited for too long while no byte was sent.
    ///
    /// The heartbeat ends a silent connection with an event stream: its network may be dead, while a closed window is not proved.
    private func isStalled(at now: NIODeadline) -> Bool {
        let countedBytes = unsentBytes
        if unsentBytes > 0 || uncountedBytes > Self.uncountedBytesMax.atSweep { countUnsent() }
        if session.takeProgress() || unsentBytes < countedBytes || (session.waitingBytes == 0 && unsentBytes == 0) {
            progressAt = now
            return false
        }
        let limit = server.limits.stallTimeout
        return now - progressAt > limit && (lastReceivedAt - progressAt > limit || !session.hasEventStreams)
    }

    override func sweep(at now: NIODeadline) {
        if heldBack == nil, isHeaderLate(at: now) { return end(.headerTimeout) }
        if isStalled(at: now) { return end(.windowShut) }
        if isInputClosed, now - lastReceivedAt > server.limits.stallTimeout { return end(nil) }
        if session.openCount == 0, now - lastReceivedAt > server.limits.idleTimeout {
            session.goAway()
            return end(nil)
        }
        if !isSlim, now - lastReceivedAt > .seconds(5) {
            isSlim = true
            session.slim()
        }
        for slot in session.streams.indices where session.streams[slot].number != 0 {
            let isLate = session.streams[slot].isLate(at: now, server.limits)
            guard isLate || session.streams[slot].isStuck(at: now, server.limits) else { continue }
            server.delegate?.violated(isLate ? .bodyTimeout : .answerTimeout)
            session.reset(slot, error: UInt32(NGHTTP2_CANCEL.rawValue))
            markDirty()
        }
    }
}
