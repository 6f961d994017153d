import NIOCore

/// An HTTP/1.1 connection, which serves one request after the other.
///
/// While an answer is missing, or the peer does not read its answers, the connection begins no request and reads nothing. Further requests
/// wait at the peer. The connection holds one request, the bytes of one read, and one answer more than the channel's queue.
final class HTTP1ServerConnection: HTTPServerConnection, ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var phase = HTTP1Phase.head
    private var turn = HTTP1Turn.idle
    private var needsFlush = false
    private var isReadWanted = false
    private var isInputClosed = false
    /// The beginning of the phase; in ``HTTP1Phase/head``, the arrival of the first byte of the head.
    private var phaseBeganAt = NIODeadline.distantPast
    private var parser = HTTP1HeadParser()
    private var head = HTTP1Head()
    /// The head of a request whose body comes in chunks. Other heads stay in ``received``, before their body.
    private var headBytes = ByteBuffer()
    private var chunks = HTTP1ChunkedBody()
    private var form = HTTP1AnswerForm()
    private var number: Int32 = 0
    /// Bytes that were received and not consumed.
    private var received = ByteBuffer()
    /// Bytes of requests that are not complete or must wait, as counted in ``SharedLimits/heldBytes``.
    private var requestBytes = 0
    /// The answers in the channel's queue. Event streams do not count.
    private var unsentAnswers = UnsentAnswers()
    /// Answers and events that are not yet in the channel's queue.
    private var outgoing = ByteBuffer()
    /// The bytes in the channel's queue at the last sweep, and the time since which they have not become fewer.
    private var unsent = (bytesCount: -1, since: NIODeadline.distantPast)

    override var isHTTP2: Bool { false }
    // The channel keeps a buffer of the size of one read.
    override var messagesPerRead: UInt { 4 }
    override var receiveAllocator: any RecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: Self.readBytesMax / 4)
    }

    private var stream: StreamID { StreamID(slot: 0, number: number) }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        do {
            // Without the first option the peer's FIN would close the connection before its last request is answered.
            try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
            try channel.syncOptions?.setOption(.maxMessagesPerRead, value: messagesPerRead)
            try channel.syncOptions?.setOption(.recvAllocator, value: receiveAllocator)
        } catch { return }  // The channel is closed already.
        server.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        lastReceivedAt = .now()
        server.date.refresh(at: lastReceivedAt)
        guard !isDiscarding(bytes.readableBytes) else { return }
        if received.readableBytes == 0 { received = bytes } else { received.writeBuffer(&bytes) }
        let limits = server.limits
        // Only after the peer's FIN are bytes read beyond the request in progress.
        if received.readableBytes > limits.bodyBytesMax + limits.headerBytesMax + Self.unworkedBytesMax {
            server.delegate?.violated(.bufferedTooMuch)
            return close()
        }
        if turn.isQueued { return countBytes() }
        // After its first request, a client with little input does not wait behind new clients and clients that send much.
        let isLittle = hasRequested && received.readableBytes <= Self.littleBytes
        if isLittle || server.mayWork(at: lastReceivedAt) { return work() }
        continueLater()
        countBytes()
    }

    private func continueLater() {
        turn.queue()
        server.continueLater(self)
    }

    /// Whether received bytes are dropped.
    private func isDiscarding(_ bytesCount: Int) -> Bool {
        switch phase {
        case .head, .body, .answering: return false
        case .streaming: return true
        case .closing(let answer, let discardedBytes):
            phase = .closing(answer, discardedBytes: discardedBytes + bytesCount)
            if discardedBytes + bytesCount > Self.discardedBytesMax { close() }
            if !turn.isQueued, !server.mayWork(at: lastReceivedAt) { continueLater() }
            return true
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        switch phase {
        case .head, .body, .answering: server.flush()
        // NIO also calls this at the end of the input. A write that fails closes the channel, which NIO expects to stay open until then.
        case .streaming, .closing: break
        }
        context.fireChannelReadComplete()
    }

    /// Delays the channel's read until the connection can process the bytes.
    func read(context: ChannelHandlerContext) {
        if isReadingHeld { isReadWanted = true } else { context.read() }
    }

    private var isReadingHeld: Bool {
        switch phase {
        case .head, .body, .closing: turn.isHeldBack
        // The channel still reports that the peer has closed.
        case .answering, .streaming: true
        }
    }

    private func readOn() {
        guard isReadWanted, !isReadingHeld, !isReadingPaused else { return }
        isReadWanted = false
        context?.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, turn == .heldBack { continueLater() }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        closeStream(.peerLeft)
        phase = .closing(.written, discardedBytes: 0)
        outgoing = ByteBuffer()
        dropRequest()
        setUnsent(0)
        server.remove(self)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent {
            isInputClosed = true
            switch phase {
            case .streaming, .closing: close()
            case .head, .body: if !turn.isHeldBack { closeAfterAnswers() }
            case .answering: break
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func closeStream(_ reason: StreamEnd) {
        guard case .streaming(let events) = phase else { return }
        phase = .closing(.written, discardedBytes: 0)
        server.delegate?.eventStreamClosed(stream, token: events.token, on: self, reason: reason)
    }

    // MARK: Requests

    /// Processes received bytes, as far as answers and fairness allow.
    public override func work() {
        guard turn.begin() else { return }
        var begun = 0
        do throws(HTTP1Refusal) {
            while try advance(&begun) {}
        } catch { refuse(error) }
        turn.end()
        keepLittle()
        countBytes()
        server.boundHeldBytes()
        if isInputClosed, !turn.isHeldBack { endAfterInput() }
        readOn()
    }

    /// Does one step. Returns whether another step may be possible.
    private func advance(_ begun: inout Int) throws(HTTP1Refusal) -> Bool {
        switch phase {
        case .head:
            guard received.readableBytes > 0, mayBegin(&begun) else { return false }
            let isWhole = try received.withUnsafeReadableBytes { bytes throws(HTTP1Refusal) in
                try parser.parse(bytes.bindMemory(to: UInt8.self), server.limits)
            }
            guard isWhole else {
                if phaseBeganAt == .distantPast { phaseBeganAt = .now() }
                return false
            }
            beginBody()
            return true
        case .body: return try advanceBody()
        case .answering: return false
        case .streaming, .closing:
            received = ByteBuffer()
            return false
        }
    }

    /// Delivers the request if its body is complete and it need not wait. Returns whether it did.
    private func advanceBody() throws(HTTP1Refusal) -> Bool {
        if head.body == .chunked {
            guard try chunks.read(&received, server.limits) else { return false }
            head.body = .length(chunks.bytes.readableBytes)
            headBytes.writeImmutableBuffer(chunks.bytes)
            headBytes.writeImmutableBuffer(received)
            (received, headBytes, chunks) = (headBytes, ByteBuffer(), HTTP1ChunkedBody())
        }
        guard case .length(let length) = head.body, received.readableBytes >= head.bytesCount + length else { return false }
        let mayBeLarge = received.withUnsafeReadableBytes {
            head.mayHaveLargeAnswer($0.bindMemory(to: UInt8.self), bodyBytesCount: length, by: server.delegate)
        }
        if mayBeLarge, !server.largeAnswers.begin(stream, on: self) {
            turn.queue()
            return false
        }
        guard let bytes = received.readSlice(length: head.bytesCount + length) else { return false }
        bytes.withUnsafeReadableBytes { deliver($0, body: UnsafeRawBufferPointer(rebasing: $0[head.bytesCount...])) }
        return true
    }

    /// Whether another request may begin now.
    private func mayBegin(_ begun: inout Int) -> Bool {
        if outgoing.readableBytes >= server.limits.unsentBytesTarget { send() }
        guard channel.isWritable else {
            turn.hold()
            return false
        }
        begun += 1
        // The clock is looked at before every second request. Most turns have one.
        guard begun > 2, begun > Self.requestsPerTurnMax || (begun % 2 == 1 && !server.mayWork(at: .now())) else { return true }
        continueLater()
        return false
    }

    /// Begins the body after a complete head.
    private func beginBody() {
        head = parser.head
        parser = HTTP1HeadParser()
        hasRequested = true
        number &+= 1
        form = HTTP1AnswerForm(head, origin: origin(in: head))
        phase = .body
        switch head.body {
        case .length(let length): if received.readableBytes >= head.bytesCount + length { return }
        case .chunked:
            if let bytes = received.readSlice(length: head.bytesCount) { headBytes = ByteBuffer(bytes: bytes.readableBytesView) }
        }
        phaseBeganAt = .now()
        if head.expectsContinue {
            outgoing.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n")
            markDirty()
        }
    }

    /// The origin in a head that begins with the first received byte.
    private func origin(in head: HTTP1Head) -> OriginTable.Number {
        guard let range = head.origin else { return .absent }
        return received.withUnsafeReadableBytes { server.origins.number(of: $0.bindMemory(to: UInt8.self).part(range)) }
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer) {
        phase = .answering
        phaseBeganAt = .now()
        let bytes = bytes.bindMemory(to: UInt8.self), body = body.bindMemory(to: UInt8.self)
        head.withTarget(in: bytes) { target in
            let request = head.request(stream, bytes, target: target, body: body, origin: form.origin.public)
            server.delegate?.requestReceived(request, on: self)
        }
    }

    /// Refuses a request that is not complete. The rest of it is dropped, and the connection ends.
    private func refuse(_ refusal: HTTP1Refusal) {
        server.delegate?.violated(refusal.violation)
        if case .head = phase {
            number &+= 1
            form.origin = origin(in: parser.head)
        }
        phase = .answering
        form.refuse()
        let empty = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        let request = HTTPRequest(
            stream: stream, method: .other, target: empty, authorization: empty, lastEventID: empty, idempotencyKey: nil, body: empty,
            origin: form.origin.public, refusedStatus: refusal.status, refusedReason: refusal.reason)
        server.delegate?.requestReceived(request, on: self)
    }

    /// Ends the connection after the peer's FIN, once all received bytes are processed.
    private func endAfterInput() {
        switch phase {
        case .head, .body: closeAfterAnswers()
        case .streaming: close()
        case .answering, .closing: break
        }
    }

    private func dropRequest() {
        received = ByteBuffer()
        (headBytes, chunks) = (ByteBuffer(), HTTP1ChunkedBody())
        countBytes()
    }

    /// Copies the remaining bytes when the memory into which they were read is much larger.
    private func keepLittle() {
        let count = received.readableBytes
        guard count > 0 else {
            received = ByteBuffer()
            return
        }
        if received.storageCapacity > 4 * count + 1_024 { received = ByteBuffer(bytes: received.readableBytesView) }
    }

    override var heldBytes: Int { requestBytes + unsentAnswers.bytesCount }

    private func countBytes() {
        let count = received.readableBytes + headBytes.readableBytes + chunks.bytes.readableBytes
        server.sharedLimits.heldBytes += count - requestBytes
        requestBytes = count
    }

    private func setUnsent(_ count: Int) { server.sharedLimits.heldBytes += unsentAnswers.count(queuedBytes: count) }

    /// Counts the bytes in the channel's queue, which the channel does not report by itself.
    private func countUnsent() {
        if case .streaming = phase { return setUnsent(0) }
        setUnsent(((try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? nil) ?? 0)
    }

    override func endForHeldBytes() {
        // If the peer has read some since the last count, another connection may hold more.
        guard !hasLessUnsent() else { return }
        switch phase {
        case .head where !turn.isHeldBack && unsentAnswers.bytesCount < requestBytes, .body where unsentAnswers.bytesCount < requestBytes:
            refuse(HTTP1Refusal(503, "this node holds too many bytes of incomplete requests; retry after 1 s", .heldTooMuch))
        case .head, .body, .answering, .streaming, .closing: drop(.heldTooMuch)
        }
    }

    override func appendUnread(to answers: inout [UnreadAnswer]) {
        guard unsentAnswers.bytesCount > 0 else { return }
        answers.append(UnreadAnswer(since: unsentAnswers.since, bytesCount: unsentAnswers.bytesCount, connection: self, stream: nil))
    }

    override func endUnread(_ stream: StreamID?) { if !hasLessUnsent() { drop(.unreadTooMuch) } }

    /// Gives the socket what it takes, and counts the channel's queue. Returns whether it holds less than before.
    private func hasLessUnsent() -> Bool {
        let countedBytes = unsentAnswers.bytesCount
        send()
        context?.flush()
        countUnsent()
        return unsentAnswers.bytesCount < countedBytes
    }

    private func drop(_ violation: HTTPViolation) {
        server.delegate?.violated(violation)
        dropRequest()
        setUnsent(0)
        close()
    }

    // MARK: Answers

    override func isAwaitingAnswer(_ stream: StreamID) -> Bool { isAnswering(stream) && channel.isActive }

    override func refusedOrigin(of stream: StreamID) -> String? {
        isAnswering(stream) ? server.origins.refusedValue(of: form.origin) : nil
    }

    private func isAnswering(_ stream: StreamID) -> Bool {
        guard case .answering = phase else { return false }
        return stream == self.stream
    }

    override func respond(to stream: StreamID, _ response: HTTPResponse) {
        guard isAnswering(stream) else { return }
        if server.compressesLater(response, accepted: head.accepted, to: stream, on: self) { return }
        let (answer, body) = server.coded(response, accepted: head.accepted)
        writeHead(answer)
        if form.hasBody, response.status != 204 {
            if body.readableBytes < Self.readBytesMax {
                outgoing.writeImmutableBuffer(body)
            } else {  // Large answers share their bytes with others, and are not copied.
                send()
                unsentAnswers.add(body.readableBytes)
                context?.write(wrapOutboundOut(body), promise: nil)
            }
        }
        answered()
    }

    override func respond(
        to stream: StreamID, status: Int, contentType: HTTPResponse.ContentType, body: UnsafeBufferPointer<UInt8>
    ) {
        guard isAnswering(stream) else { return }
        server.count(answerBytes: body.count)
        if body.count > ContentCoding.bytesAtOnceMax, head.accepted == .gzip {
            return respond(to: stream, HTTPResponse(status: status, contentType: contentType, body: ByteBuffer(bytes: body)))
        }
        var (answer, body) = (HTTPAnswerHead(status: status, contentType: contentType, bodyBytesCount: body.count), body)
        if body.count >= ContentCoding.bytesMin { server.code(&answer, &body, accepted: head.accepted) }
        writeHead(answer)
        if form.hasBody { outgoing.writeBytes(body) }
        answered()
    }

    private func writeHead(_ answer: HTTPAnswerHead) {
        if server.isLeaving || (isInputClosed && received.readableBytes == 0) { form.end() }
        outgoing.reserveCapacity(minimumWritableBytes: 256 + min(answer.bodyBytesCount, Self.readBytesMax))
        outgoing.write(answer, form, server.date, server.origins, requestID(number))
    }

    private func answered() {
        guard form.sequel == .nextRequest else { return closeAfterAnswers() }
        // Counted at once, because many large answers may come in one turn.
        if outgoing.readableBytes >= server.limits.unsentBytesTarget {
            send()
            countUnsent()
        }
        phase = .head
        phaseBeganAt = .distantPast
        // The flush continues with the next request.
        if turn != .working { turn.hold() }
        markDirty()
    }

    /// Closes the connection once all answers have been sent.
    private func closeAfterAnswers() {
        guard let context else { return }
        // Closing while the peer still sends causes a reset, by which the peer may lose the answer.
        let isPeerSending = form.sequel == .endOfRefused || received.readableBytes > 0
        phase = .closing(.written, discardedBytes: 0)
        turn.release()
        dropRequest()
        let bytes = outgoing
        outgoing = ByteBuffer()
        unsentAnswers.add(bytes.readableBytes)
        defer { countUnsent() }
        context.writeAndFlush(wrapOutboundOut(bytes)).assumeIsolated().whenComplete { _ in
            if case .closing(_, let discardedBytes) = self.phase { self.phase = .closing(.sent, discardedBytes: discardedBytes) }
            self.setUnsent(0)
            self.phaseBeganAt = .now()
            // Not at once: the bytes may leave while NIO reports an end of input, and NIO then expects the channel to be open.
            context.eventLoop.assumeIsolated().execute {
                if isPeerSending, !self.isInputClosed { context.close(mode: .output, promise: nil) } else { context.close(promise: nil) }
            }
        }
        if turn != .working { readOn() }
    }

    override func openStream(_ stream: StreamID, of contentType: HTTPResponse.ContentType, token: UInt32) -> StreamCompressor? {
        guard isAnswering(stream) else { return nil }
        phase = .streaming(HTTP1Phase.EventStream(token: token))
        received = ByteBuffer()
        setUnsent(0)
        let coding = writeStreamHead(of: contentType)
        markDirty()
        return coding.compressor
    }

    override func respond(to stream: StreamID, headOfStream contentType: HTTPResponse.ContentType) {
        guard isAnswering(stream) else { return }
        _ = writeStreamHead(of: contentType)
        closeAfterAnswers()
    }

    private func writeStreamHead(of contentType: HTTPResponse.ContentType) -> ContentCoding {
        let coding = contentType.streamCoding(accepted: head.accepted)
        outgoing.writeStreamHead(of: contentType, coding, form, server.date, server.origins, requestID(number))
        return coding
    }

    override func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool {
        guard case .streaming(var events) = phase, stream == self.stream else { return false }
        outgoing.write(chunk: payload, form)
        markDirty()
        guard events.reader == .hasRoom else { return true }
        guard events.queuedBytes + outgoing.readableBytes > server.limits.streamQueueBytesMax else { return false }
        events.reader = .full
        phase = .streaming(events)
        return true
    }

    private func sent(_ count: Int) {
        guard case .streaming(var events) = phase else { return }
        events.queuedBytes -= count
        let isDrained =
            events.reader == .full && events.queuedBytes + outgoing.readableBytes < server.limits.streamQueueBytesMax / 4
        if isDrained { events.reader = .hasRoom }
        phase = .streaming(events)
        if isDrained { server.delegate?.eventStreamDrained(stream, token: events.token, on: self) }
    }

    override func finish(_ stream: StreamID) {
        guard case .streaming = phase, stream == self.stream else { return }
        closeStream(.finished)
        if form.minorVersion > 0 { outgoing.writeStaticString("0\r\n\r\n") }
        closeAfterAnswers()
    }

    override func reset(_ stream: StreamID) {
        if stream == self.stream { close() }
    }

    /// Sends a comment on the event stream.
    override func ping() {
        guard case .streaming = phase else { return }
        outgoing.write(chunk: ByteBuffer(staticString: ":\n\n"), form)
        markDirty()
    }

    /// Does nothing: while the loop leaves, every answer carries `connection: close` (RFC 9112 §9.6).
    ///
    /// A request that is on its way now is therefore still answered.
    override func leave() {}

    override func goAway() {
        if case .head = phase, !turn.isHeldBack, received.readableBytes == 0 { closeAfterAnswers() }
    }

    // MARK: Sending

    private func markDirty() {
        guard !needsFlush else { return }
        needsFlush = true
        server.setNeedsFlush(self)
    }

    override func flush() {
        needsFlush = false
        send()
        context?.flush()
        if unsentAnswers.isCountDue {
            countUnsent()
            server.boundHeldBytes()
        }
        if case .streaming = phase, isInputClosed { return close() }
        if turn == .heldBack { work() }
    }

    /// Gives the waiting bytes to the channel.
    private func send() {
        guard outgoing.readableBytes > 0, let context else { return }
        let bytes = outgoing
        outgoing = ByteBuffer()
        let count = bytes.readableBytes
        guard case .streaming(var events) = phase else {
            unsentAnswers.add(count)
            return context.write(wrapOutboundOut(bytes), promise: nil)
        }
        events.queuedBytes += count
        phase = .streaming(events)
        context.write(wrapOutboundOut(bytes)).assumeIsolated().whenComplete { [weak self] _ in self?.sent(count) }
    }

    // MARK: Time

    override func sweep(at now: NIODeadline) {
        let limits = server.limits
        if unsentAnswers.isCountDue { countUnsent() }
        switch phase {
        case .streaming: return
        case .closing(.sent, _): if now - phaseBeganAt > Self.lingeringTime { close() }
        case .closing: return endIfStalled(at: now)
        case .answering where !channel.isWritable, .head where !channel.isWritable, .body where !channel.isWritable:
            return endIfStalled(at: now)
        case .answering:
            guard now - phaseBeganAt > limits.idleTimeout else { return }
            server.delegate?.violated(.answerTimeout)
            close()
        case .body where !turn.isHeldBack && now - phaseBeganAt > limits.bodyTimeout:
            refuse(HTTP1Refusal(408, "the body was not complete in time", .bodyTimeout))
        case .head where turn.isHeldBack || isReadingPaused, .body: return
        case .head where received.readableBytes > 0:
            guard now - phaseBeganAt > limits.headerTimeout else { return }
            refuse(HTTP1Refusal(408, "the header was not complete in time", .headerTimeout))
        case .head where !hasRequested:
            guard now - openedAt > limits.headerTimeout else { return }
            server.delegate?.violated(.headerTimeout)
            close()
        case .head: if now - lastReceivedAt > limits.idleTimeout { close() }
        }
        unsent.bytesCount = -1
    }

    /// Ends a connection whose peer has not read a byte of its answers for ``HTTPLimits/stallTimeout``.
    private func endIfStalled(at now: NIODeadline) {
        guard let bytesCount = try? channel.syncOptions?.getOption(.bufferedWritableBytes) else { return }
        guard bytesCount == unsent.bytesCount else { return unsent = (bytesCount, now) }
        guard now - unsent.since > server.limits.stallTimeout else { return }
        server.delegate?.violated(.windowShut)
        close()
    }
}
