import NIOCore

/// One stream's place in its connection's table. The arrays keep their memory when the place is used again.
struct HTTP2Stream {
    /// A header field's value as offsets into ``head``.
    struct Field {
        var start: UInt32 = 0
        var end: UInt32 = 0
    }

    /// The HTTP/2 stream ID; 0 when the place is free.
    var number: Int32 = 0
    /// What the application knows the stream by.
    var token: UInt32 = 0
    var isEventStream = false
    /// The peer has sent END_STREAM.
    var isWhole = false
    /// The application was told of the request.
    var isReported = false
    var isAnswered = false
    var isHeadTooLarge = false
    var isBodyTooLarge = false
    /// A part of the body was thrown away, because the connection has too much on its way.
    var isOverflown = false
    /// This side has reset it.
    var isReset = false
    /// HEAD: the answer has no body (RFC 9110 §9.3.2).
    var isHead = false
    /// The application was told that the queue is full.
    var isFull = false
    /// nghttp2 has no data to send for it and waits for a resume.
    var isDeferred = false
    /// The rest of the request is refused once the answer is out.
    var isCutAfterAnswer = false
    /// Nothing comes after the queue.
    var isFinished = false
    /// Its DATA frames are written by hand, within ``window``.
    var isByHand = false
    /// It waits in its session's list of streams with something to send; outlives the stream.
    var isReady = false
    /// nghttp2 has closed it.
    var isOver = false
    var method = HTTPRequest.Method.other
    // Small fields stand side by side: a place takes 160 bytes, and one more would take 192 of the allocator's.
    /// The status of a response, for a client.
    var status: Int32 = 0
    var headersCount: Int32 = 0
    /// What the header list counts for (RFC 9113 §6.5.2).
    var headBytesCount: Int32 = 0
    /// Where ``rest`` begins.
    private var restStart: Int32 = 0
    /// The bytes that the peer's window for the stream allows, when it is kept by hand.
    var window = 0
    var startedAt = NIODeadline.distantPast
    /// The values of the header fields that the application reads, one after the other.
    var head: [UInt8] = []
    var target = Field()
    var authorization = Field()
    var lastEventID = Field()
    var body: [UInt8] = []
    /// The body of an answer, and how much of it was sent.
    var answer: [UInt8] = []
    var answerSent = 0
    /// Payloads that wait; the first may be sent in part.
    var first: ByteBuffer?
    /// Those that wait behind it, from ``restStart`` on. Most streams never have any, and an empty array takes no memory.
    private var rest: [ByteBuffer] = []
    var queuedBytes = 0

    /// Makes the place ready for a new stream.
    mutating func open(_ number: Int32, at now: NIODeadline) {
        self.number = number
        startedAt = now
        token = 0
        status = 0
        headersCount = 0
        headBytesCount = 0
        isEventStream = false
        isWhole = false
        isAnswered = false
        isReported = false
        isHeadTooLarge = false
        isBodyTooLarge = false
        isOverflown = false
        isReset = false
        isHead = false
        isFull = false
        isDeferred = false
        isFinished = false
        isCutAfterAnswer = false
        isByHand = false
        isOver = false
        method = .other
        target = Field()
        authorization = Field()
        lastEventID = Field()
    }

    /// Empties an array and keeps its memory, unless that is more than most requests need.
    private static func empty(_ bytes: inout [UInt8]) {
        if bytes.isEmpty { return }
        bytes.removeAll(keepingCapacity: bytes.capacity <= 4_096)
    }

    /// Gives back what an idle stream does not need.
    mutating func slim() {
        head = []
        body = []
        answer = []
    }

    /// Bytes of the request that are kept here.
    var bufferedBytes: Int { head.count + body.count }

    /// Empties the place of a stream that is over.
    mutating func dropAll() {
        dropQueue()
        Self.empty(&head)
        Self.empty(&body)
    }

    mutating func dropQueue() {
        Self.empty(&answer)
        answerSent = 0
        if queuedBytes == 0 { return }
        first = nil
        (rest, restStart) = ([], 0)
        queuedBytes = 0
    }

    /// Gives back the memory of a queue that is empty.
    mutating func slimQueue() {
        if queuedBytes == 0 { rest = [] }
    }

    /// Takes out the payload that comes after the first.
    private mutating func nextPayload() -> ByteBuffer? {
        guard restStart < rest.count else { return nil }
        var payload = ByteBuffer()
        swap(&payload, &rest[Int(restStart)])
        restStart += 1
        if restStart == rest.count {
            rest.removeAll(keepingCapacity: true)
            restStart = 0
        }
        return payload
    }

    /// Counts one field of a request's head or trailer.
    mutating func count(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, limits: HTTPLimits) {
        headersCount += 1
        headBytesCount &+= Int32(truncatingIfNeeded: 32 + name.count + value.count)
        if headersCount > limits.headersCountMax || Int(headBytesCount) > limits.headerBytesMax { isHeadTooLarge = true }
    }

    /// Whether the head is so large that the rest of it is not even decoded.
    func isHeadFarTooLarge(_ limits: HTTPLimits) -> Bool {
        headersCount > 4 * limits.headersCountMax || Int(headBytesCount) > 4 * limits.headerBytesMax
    }

    /// Takes one field of a request's head; of those that the application reads the first is kept. Returns how many bytes that takes.
    mutating func receive(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, limits: HTTPLimits) -> Int {
        count(name: name, value: value, limits: limits)
        guard !isHeadTooLarge else { return 0 }
        let keptBytes = head.count
        switch name.count {
        case 5 where name.equals(":path"): target = target.end == 0 ? keep(value) : target
        case 7 where name.equals(":method"):
            method = value.equals("POST") ? .post : value.equals("GET") ? .get : .other
            isHead = value.equals("HEAD")
        case 13 where name.equals("authorization"): authorization = authorization.end == 0 ? keep(value) : authorization
        case 13 where name.equals("last-event-id"): lastEventID = lastEventID.end == 0 ? keep(value) : lastEventID
        default: return 0
        }
        return head.count - keptBytes
    }

    private mutating func keep(_ value: UnsafeBufferPointer<UInt8>) -> Field {
        let start = head.count
        head.append(contentsOf: value)
        return Field(start: UInt32(start), end: UInt32(head.count))
    }

    /// The request, over bytes that ``takeHead()`` and ``takeBody()`` returned.
    func request(
        _ id: StreamID, _ head: UnsafeBufferPointer<UInt8>, _ body: UnsafeBufferPointer<UInt8>, refused: Int?
    ) -> HTTPRequest {
        HTTPRequest(
            stream: id, method: method, target: target.value(in: head), authorization: authorization.value(in: head),
            lastEventID: lastEventID.value(in: head), body: body, refusedStatus: refused)
    }

    mutating func takeHead() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &head)
        return taken
    }

    mutating func takeBody() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &body)
        return taken
    }

    /// Puts the memory back for the next request; not for an event stream, which has none.
    mutating func giveBack(head: inout [UInt8], body: inout [UInt8]) {
        guard !isEventStream else { return }
        swap(&self.head, &head)
        swap(&self.body, &body)
        Self.empty(&self.head)
        Self.empty(&self.body)
    }

    /// Whether it is to be reset when its peer sends no more: an event stream, or a request that will not become whole.
    var isOfNoUseWithoutInput: Bool { !isReset && (isByHand || (!isWhole && !isAnswered)) }

    /// Whether the request has taken too long to come.
    func isLate(at now: NIODeadline, _ limits: HTTPLimits) -> Bool {
        !isWhole && !isAnswered && now - startedAt > limits.bodyTimeout
    }

    /// Whether the answer has taken too long to go, because the peer does not read.
    func isStuck(at now: NIODeadline, _ limits: HTTPLimits) -> Bool {
        isAnswered && !isEventStream && now - startedAt > limits.idleTimeout
    }

    mutating func append(_ payload: ByteBuffer) {
        queuedBytes += payload.readableBytes
        if first == nil { first = payload } else { rest.append(payload) }
    }

    /// Queues a payload of an event stream. Returns the bytes that wait, and whether the stream had nothing to send before.
    mutating func push(_ payload: ByteBuffer) -> (queuedBytes: Int, becameReady: Bool) {
        append(payload)
        return (queuedBytes, becomesReady())
    }

    /// Notes that it waits for its turn. Returns whether it did not.
    mutating func becomesReady() -> Bool {
        defer { isReady = true }
        return !isReady
    }

    /// What became of a stream's turn to send.
    enum Turn {
        /// Nothing is left that its window allows.
        case over
        /// Nothing comes any more.
        case ended
        /// The connection's window is used up; it stays in its turn.
        case starved
    }

    /// Appends DATA frames of what is queued, as far as its window and the connection's, `window`, allow.
    mutating func sendEvents(within window: inout Int, into buffer: inout ByteBuffer) -> Turn {
        if isByHand, !isOver {
            while queuedBytes > 0, self.window > 0 {
                let count = min(queuedBytes, Self.frameBytesMax, self.window, window)
                guard count > 0 else { return .starved }
                writeFrame(count, into: &buffer)
                self.window -= count
                window -= count
            }
        }
        isReady = false
        return isByHand && !isOver && isFinished && queuedBytes == 0 ? .ended : .over
    }

    /// Appends an empty DATA frame with END_STREAM.
    func writeEnd(into buffer: inout ByteBuffer) { writeDataHeader(bytesCount: 0, flags: 1, into: &buffer) }

    private static let frameBytesMax = 16_384
    private static let frameHeaderBytes = 9

    /// Appends a DATA frame with the next `count` bytes of the queue.
    private mutating func writeFrame(_ count: Int, into buffer: inout ByteBuffer) {
        guard first?.readableBytes == count, answer.isEmpty else {
            writeDataHeader(bytesCount: count, into: &buffer)
            return take(count, into: &buffer)
        }
        // Nearly every push: one whole payload. Each call of `ByteBuffer` checks anew what one call checks for header and payload.
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.frameHeaderBytes + count) { frame in
            storeHeader(bytesCount: count, flags: 0, in: frame)
            first.unsafelyUnwrapped.withUnsafeReadableBytes { payload in
                (frame.baseAddress.unsafelyUnwrapped + Self.frameHeaderBytes)
                    .copyMemory(from: payload.baseAddress.unsafelyUnwrapped, byteCount: count)
            }
            return Self.frameHeaderBytes + count
        }
        queuedBytes -= count
        // The array lies elsewhere: to look into it, though it is empty, was a quarter of a multiplexed push.
        first = queuedBytes == 0 ? nil : nextPayload()
    }

    private func writeDataHeader(bytesCount: Int, flags: UInt8 = 0, into buffer: inout ByteBuffer) {
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.frameHeaderBytes) { header in
            storeHeader(bytesCount: bytesCount, flags: flags, in: header)
            return Self.frameHeaderBytes
        }
    }

    @inline(__always)
    private func storeHeader(bytesCount: Int, flags: UInt8, in header: UnsafeMutableRawBufferPointer) {
        header.storeBytes(of: UInt32(bytesCount << 8).bigEndian, as: UInt32.self)  // 24 bits of length, then type 0: DATA
        header.storeBytes(of: flags, toByteOffset: 4, as: UInt8.self)
        header.storeBytes(of: UInt32(number).bigEndian, toByteOffset: 5, as: UInt32.self)
    }

    /// Queues the body of an answer.
    mutating func append(answer bytes: UnsafeBufferPointer<UInt8>) {
        answer.append(contentsOf: bytes)
        queuedBytes += bytes.count
    }

    /// Moves `count` bytes of the queue to `buffer`: first the answer, then the payloads.
    mutating func take(_ count: Int, into buffer: inout ByteBuffer) {
        var missing = count
        queuedBytes -= count
        if answerSent < answer.count {
            let part = min(missing, answer.count - answerSent)
            answer.withUnsafeBytes { bytes in
                _ = buffer.writeBytes(UnsafeRawBufferPointer(rebasing: bytes[answerSent..<answerSent + part]))
            }
            answerSent += part
            missing -= part
        }
        while missing > 0, let available = first?.readableBytes {
            if available <= missing {
                buffer.writeImmutableBuffer(first.unsafelyUnwrapped)
                missing -= available
                first = nextPayload()
            } else {
                first!.readWithUnsafeReadableBytes { bytes in
                    buffer.writeBytes(UnsafeRawBufferPointer(rebasing: bytes[..<missing]))
                    return missing
                }
                missing = 0
            }
        }
    }
}
