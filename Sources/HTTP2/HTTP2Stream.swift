import NIOCore

/// A slot of a connection's stream table: the phase, the request and the queue of one HTTP/2 stream.
///
/// The arrays keep their memory when the slot is used again. A slot is free while ``number`` is 0.
///
/// ``Phase`` says what this side may do with the stream. Each transition is one method; in every other phase the method changes nothing.
///
/// | phase | method | next phase |
/// |---|---|---|
/// | any | ``open(_:at:)`` | `receiving` |
/// | `receiving` | ``report()`` | `reported` |
/// | `receiving` | ``overflow()`` | `overflowed` |
/// | `receiving` | ``beginRequest(token:)`` (client) | `sending` |
/// | `reported` | ``beginAnswer()`` | `sending` |
/// | `reported` | ``beginEvents()`` | `streaming(.hasRoom)` |
/// | `sending` | ``starve()`` | `starved` |
/// | `starved` | ``resume()`` | `sending` |
/// | `streaming(x)` | ``finishEvents()`` | `finishing(x)` |
/// | `streaming(.hasRoom)`, `finishing(.hasRoom)` | ``fill()`` | the same with `.full` |
/// | `streaming(.full)`, `finishing(.full)` | ``drain()`` | the same with `.hasRoom` |
/// | `streaming(x)`, `finishing(x)` | ``detachReader()`` | the same with `.detached` |
///
/// Three facts are independent of the phase:
/// - The peer's END_STREAM may arrive in any phase (``isRequestComplete``).
/// - nghttp2 may close the stream in any phase (``closure``). The application may still answer it until the slot is released.
/// - A slot stays in its session's list of ready streams after its stream is released (``isReady``).
struct HTTP2Stream {
    /// The life of a stream, as this side sees it.
    enum Phase: Equatable {
        /// The request arrives. The application does not have it.
        case receiving
        /// The application has the request, or a request event is recorded. It may be refused before it is complete: see ``Excess``.
        case reported
        /// The connection buffers too many bytes of requests. The application does not get this one, and the stream is reset.
        case overflowed
        /// An answer, or a client's request, is being sent. END_STREAM follows the queue.
        case sending
        /// As `sending`, but the connection's window is used up, and nghttp2 waits for a resume.
        case starved
        /// An event stream. Its DATA frames are written by hand, within ``window``.
        case streaming(Reader)
        /// An event stream whose END_STREAM follows the queue.
        case finishing(Reader)
    }

    /// The last report about an event stream that the application got.
    enum Reader: Equatable {
        /// The queue takes more.
        case hasRoom
        /// The queue is full.
        case full
        /// The event stream is over. It gets no further report.
        case detached
    }

    /// Whether the stream is open on the wire.
    enum Closure: Equatable {
        case open
        /// This side has reset the stream.
        case resetHere
        /// nghttp2 has closed the stream.
        case closed
    }

    /// The limits that a request has broken.
    enum Excess: Equatable {
        case none
        case head
        case body
        /// The body is too large, and the trailer after it too.
        case bodyAndTrailer
    }

    /// The request methods that this server tells apart. The answer to HEAD has no body (RFC 9110 §9.3.2).
    enum Method: Equatable { case get, head, post, options, other }

    /// The small values of a request's head.
    struct Sender {
        var method = Method.other
        /// The origin of the web page that has sent the request.
        var origin = OriginTable.Number.absent
        var accepted = ContentCoding.Accepted.identity
    }

    /// A header field's value as offsets into ``Head/bytes``, which is shorter than 64 KiB (``HTTPLimits/headerBytesMax``).
    struct Field {
        var start: UInt16 = 0
        var end: UInt16 = 0
    }

    /// The header fields that the application reads; each is empty without its field.
    struct HeadFields {
        var target = Field()
        var authorization = Field()
        var lastEventID = Field()
        var idempotencyKey = Field()
        /// Empty behind the path when there is more than one.
        var traceparent = Field()
    }

    /// The head of a request.
    private struct Head {
        /// The values of ``fields``, one after the other.
        var bytes: [UInt8] = []
        var fields = HeadFields()

        /// The capacity that a new head gets: most fit, with their token.
        private static let capacity = 512

        mutating func keep(_ value: UnsafeBufferPointer<UInt8>) -> Field {
            let start = bytes.count
            if bytes.capacity == 0 { bytes.reserveCapacity(Self.capacity) }
            bytes.append(contentsOf: value)
            return Field(start: UInt16(clamping: start), end: UInt16(clamping: bytes.count))
        }
    }

    /// The size of a header list (RFC 9113 §6.5.2).
    struct HeaderListSize {
        private(set) var bytesCount: Int32 = 0
        private var fieldsCount: Int32 = 0

        mutating func count(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
            fieldsCount += 1
            bytesCount &+= Int32(truncatingIfNeeded: 32 + name.count + value.count)
        }

        /// Whether the list is larger than `factor` times what the limits allow.
        func isAbove(_ limits: HTTPLimits, times factor: Int = 1) -> Bool {
            Int(fieldsCount) > factor * limits.headersCountMax || Int(bytesCount) > factor * limits.headerBytesMax
        }
    }

    // A push reads and writes the fields up to ``answer``. They stand together and take 64 bytes: one or two lines of the cache.
    /// The HTTP/2 stream ID; 0 when the slot is free.
    var number: Int32 = 0
    /// The application's name for the stream.
    var token: UInt32 = 0
    private(set) var phase = Phase.receiving
    private(set) var closure = Closure.open
    private(set) var excess = Excess.none
    private var sender = Sender()
    /// The peer has sent END_STREAM.
    private(set) var isRequestComplete = false
    /// The slot is in its session's list of streams with something to send.
    private(set) var isReady = false
    /// The bytes that the peer's window for an event stream allows.
    var window = 0
    private(set) var queuedBytes = 0
    /// The first queued payload. Part of it may have been sent.
    private var first: ByteBuffer?
    /// The body of an answer; the first ``answerSent`` bytes have been sent.
    private var answer: [UInt8] = []
    private var answerSent = 0
    /// The payloads behind ``first``, from ``restStart`` on. Most streams never have any, and an empty array takes no memory.
    private var rest: [ByteBuffer] = []
    // Small fields stand side by side: a slot takes 160 bytes, and one more would take 192 of the allocator's.
    /// The index of the first payload in ``rest``.
    private var restStart: Int32 = 0
    /// The status of a response, for a client.
    var status: Int32 = 0
    /// The size of the head and the trailer.
    private(set) var headerListSize = HeaderListSize()
    private(set) var startedAt = NIODeadline.distantPast
    private var head = Head()
    private(set) var body: [UInt8] = []

    // MARK: Transitions

    /// Makes the slot ready for a new stream.
    mutating func open(_ number: Int32, at now: NIODeadline) {
        self.number = number
        startedAt = now
        token = 0
        status = 0
        headerListSize = HeaderListSize()
        phase = .receiving
        closure = .open
        excess = .none
        sender = Sender()
        isRequestComplete = false
        head.fields = HeadFields()
    }

    /// Records that the application gets the request. Returns false when it has it already, or will not get it.
    mutating func report() -> Bool {
        guard isReceiving else { return false }
        phase = .reported
        return true
    }

    /// Records that the request does not fit into the connection's buffer. Returns false when the application has the request.
    mutating func overflow() -> Bool {
        guard isReceiving else { return false }
        phase = .overflowed
        return true
    }

    /// Begins a client's request. END_STREAM follows the queue.
    mutating func beginRequest(token: UInt32) {
        guard isReceiving else { return }
        phase = .sending
        self.token = token
    }

    /// Begins an answer. END_STREAM follows the queue. Returns false when the stream does not await one.
    mutating func beginAnswer() -> Bool {
        guard isAwaitingAnswer else { return false }
        phase = .sending
        return true
    }

    /// Answers with an event stream. Returns false when the stream does not await an answer.
    mutating func beginEvents() -> Bool {
        guard isAwaitingAnswer else { return false }
        phase = .streaming(.hasRoom)
        return true
    }

    /// Records that the connection's window is used up.
    mutating func starve() { if case .sending = phase { phase = .starved } }

    /// Records that the connection's window has grown. Returns false when the stream did not wait for it.
    mutating func resume() -> Bool {
        guard case .starved = phase else { return false }
        phase = .sending
        return true
    }

    /// Ends an event stream after the queue.
    mutating func finishEvents() { if case .streaming(let reader) = phase { phase = .finishing(reader) } }

    /// Records that an event stream's queue is full. Returns false when it was full before, or has no reader.
    mutating func fill() -> Bool { replace(.hasRoom, by: .full) }

    /// Records that a full queue has room again. Returns false when it was not full, or has no reader.
    mutating func drain() -> Bool { replace(.full, by: .hasRoom) }

    /// Records that the application gets the end of its event stream.
    ///
    /// Returns false when the stream is not an event stream, or the application has its end already.
    mutating func detachReader() -> Bool { replace(.hasRoom, by: .detached) || replace(.full, by: .detached) }

    private mutating func replace(_ old: Reader, by new: Reader) -> Bool {
        switch phase {
        case .streaming(old): phase = .streaming(new)
        case .finishing(old): phase = .finishing(new)
        default: return false
        }
        return true
    }

    /// Records the peer's END_STREAM.
    mutating func completeRequest() { isRequestComplete = true }

    /// Records a reset. When the peer caused it, it counts among the resets of the peer.
    mutating func reset(isPeersFault: Bool) {
        if closure != .closed { closure = isPeersFault ? .open : .resetHere }
    }

    /// Records that nghttp2 has closed the stream. Returns whether this side had reset it.
    mutating func close() -> Bool {
        defer { closure = .closed }
        return closure == .resetHere
    }

    // MARK: Questions

    var method: Method { sender.method }
    var origin: OriginTable.Number { sender.origin }
    var accepted: ContentCoding.Accepted { sender.accepted }

    var isClosed: Bool { closure == .closed }

    /// The application has the request, and no answer has begun.
    var isAwaitingAnswer: Bool { if case .reported = phase { true } else { false } }

    /// The request arrives, and the application does not have it.
    var isReceiving: Bool { if case .receiving = phase { true } else { false } }

    /// An answer, or a client's request, has begun.
    private var hasBegunToSend: Bool { phase == .sending || phase == .starved || isEventStream }

    /// The DATA frames of the stream are written by hand.
    var isEventStream: Bool {
        switch phase {
        case .streaming, .finishing: true
        case .receiving, .reported, .overflowed, .sending, .starved: false
        }
    }

    /// The stream is an event stream, and its end has not been reported to the application.
    var hasReader: Bool { isEventStream && phase != .streaming(.detached) && phase != .finishing(.detached) }

    /// The stream is an event stream that this side ends.
    var isFinishing: Bool { if case .finishing = phase { true } else { false } }

    var hasTooLargeHead: Bool { excess == .head || excess == .bodyAndTrailer }
    var hasTooLargeBody: Bool { excess == .body || excess == .bodyAndTrailer }

    // MARK: Memory

    /// Empties an array and keeps its memory, unless that is more than most requests need.
    private static func empty(_ bytes: inout [UInt8]) {
        if bytes.isEmpty { return }
        bytes.removeAll(keepingCapacity: bytes.capacity <= 4_096)
    }

    /// Frees the memory that an idle slot keeps.
    mutating func slim() {
        head.bytes = []
        body = []
        answer = []
    }

    /// The bytes of the request that the slot holds.
    var bufferedBytes: Int { head.bytes.count + body.count }

    /// The bytes of the queue, and of the part of an answer that was sent: an answer's memory is freed as a whole.
    var keptBytes: Int { queuedBytes + answerSent }

    /// The peer has not read all of an answer.
    var isAnswerUnread: Bool { closure == .open && keptBytes > 0 && !isEventStream }

    /// Frees the slot of a closed stream.
    mutating func free() {
        number = 0
        dropQueue()
        Self.empty(&head.bytes)
        Self.empty(&body)
    }

    private mutating func dropQueue() {
        Self.empty(&answer)
        answerSent = 0
        if queuedBytes == 0 { return }
        first = nil
        (rest, restStart) = ([], 0)
        queuedBytes = 0
    }

    /// Frees the memory of an empty queue.
    mutating func slimQueue() {
        if queuedBytes == 0 { rest = [] }
    }

    /// Takes out the payload behind the first.
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
        headerListSize.count(name: name, value: value)
        if headerListSize.isAbove(limits) { excess = hasTooLargeBody ? .bodyAndTrailer : .head }
    }

    /// Whether the head is so large that not even the rest of it is decoded.
    func isHeadFarTooLarge(_ limits: HTTPLimits) -> Bool {
        hasTooLargeHead && headerListSize.isAbove(limits, times: 4)
    }

    /// Takes one field of a request's head. Of repeated fields that the application reads, it keeps the first. Returns the bytes kept.
    mutating func receive(
        name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, limits: HTTPLimits, origins: OriginTable
    ) -> Int {
        count(name: name, value: value, limits: limits)
        guard !hasTooLargeHead else { return 0 }
        let keptBytes = head.bytes.count
        switch name.count {
        case 5 where name.equals(":path"): if head.fields.target.end == 0 { head.fields.target = head.keep(value) }
        case 7 where name.equals(":method"):
            sender.method =
                value.equals("POST")
                ? .post : value.equals("GET") ? .get : value.equals("HEAD") ? .head : value.equals("OPTIONS") ? .options : .other
        case 6 where name.equals("origin"):
            if sender.origin == .absent { sender.origin = origins.number(of: value) }
            return 0
        case 13 where name.equals("authorization"):
            if head.fields.authorization.end == 0 { head.fields.authorization = head.keep(value) }
        case 13 where name.equals("last-event-id"):
            if head.fields.lastEventID.end == 0 { head.fields.lastEventID = head.keep(value) }
        case 15 where name.equals("accept-encoding"):
            if ContentCoding.acceptsGzip(value) { sender.accepted = .gzip }
            return 0
        case 11 where name.equals("traceparent"):
            head.fields.traceparent = head.fields.traceparent.end == 0 ? head.keep(value) : Field(start: 1, end: 1)
        // The path stands before it, so an empty value does not end at 0 either.
        case 15 where name.equals("idempotency-key"):
            if head.fields.idempotencyKey.end == 0 { head.fields.idempotencyKey = head.keep(value) }
        default: return 0
        }
        return head.bytes.count - keptBytes
    }

    /// Appends a part of the request's body.
    mutating func receive(body data: UnsafeRawBufferPointer) { body.append(contentsOf: data) }

    /// Drops the body, because it is longer than it may be. Returns the bytes freed.
    mutating func refuseBody() -> Int {
        defer { body = [] }
        excess = .body
        return body.count
    }

    /// The meaning of the head's bytes.
    var layout: RequestLayout { @inline(__always) get { RequestLayout(fields: head.fields, sender: sender) } }

    /// Calls `read` with the target and the body of a request that the application does not have.
    func withRequest<Result>(_ read: (_ target: UnsafeBufferPointer<UInt8>, _ body: UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        // Closures that use `self` would have the whole slot copied.
        let (target, head, body) = (self.head.fields.target, self.head.bytes, self.body)
        return head.withUnsafeBufferPointer { bytes in body.withUnsafeBufferPointer { read(target.value(in: bytes), $0) } }
    }

    mutating func takeHead() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &head.bytes)
        return taken
    }

    mutating func takeBody() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &body)
        return taken
    }

    /// Returns the memory for the next request. An event stream receives none, and keeps no memory.
    mutating func giveBack(head: inout [UInt8], body: inout [UInt8]) {
        guard !isEventStream else { return }
        swap(&self.head.bytes, &head)
        swap(&self.body, &body)
        Self.empty(&self.head.bytes)
        Self.empty(&self.body)
    }

    /// Whether the peer's FIN ends the stream: an event stream, or a request that can no longer become complete.
    var needsInput: Bool { closure == .open && (isEventStream || (!isRequestComplete && !hasBegunToSend)) }

    /// Whether the request takes too long to arrive.
    func isLate(at now: NIODeadline, _ limits: HTTPLimits) -> Bool {
        !isRequestComplete && !hasBegunToSend && now - startedAt > limits.bodyTimeout
    }

    /// Whether the answer takes too long to leave, because the peer does not read.
    func isStuck(at now: NIODeadline, _ limits: HTTPLimits) -> Bool {
        hasBegunToSend && !hasReader && now - startedAt > limits.idleTimeout
    }

    mutating func append(_ payload: ByteBuffer) {
        queuedBytes += payload.readableBytes
        if first == nil { first = payload } else { rest.append(payload) }
    }

    /// Queues a payload of an event stream, and drops one for another stream.
    ///
    /// Returns the queued bytes, and whether the slot was not in the list of ready streams.
    mutating func push(_ payload: ByteBuffer) -> (queuedBytes: Int, becameReady: Bool) {
        guard isEventStream else { return (queuedBytes, false) }
        append(payload)
        return (queuedBytes, becomesReady())
    }

    /// Puts the slot into the list of ready streams. Returns whether it was not in the list.
    mutating func becomesReady() -> Bool {
        defer { isReady = true }
        return !isReady
    }

    /// The outcome of a stream's turn to send.
    enum Turn {
        /// Nothing is left that the stream's window allows.
        case done
        /// The queue of a finishing stream is empty.
        case ended
        /// The connection's window is used up. The stream keeps its turn.
        case starved
    }

    /// Appends DATA frames of the queue, as far as the stream's window and the connection's, `window`, allow.
    mutating func sendEvents(within window: inout Int, into buffer: inout ByteBuffer) -> Turn {
        let isOpen = isEventStream && closure != .closed
        if isOpen {
            while queuedBytes > 0, self.window > 0 {
                let count = min(queuedBytes, Self.frameBytesMax, self.window, window)
                guard count > 0 else { return .starved }
                writeFrame(count, into: &buffer)
                self.window -= count
                window -= count
            }
        }
        isReady = false
        return isOpen && isFinishing && queuedBytes == 0 ? .ended : .done
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
        // Nearly every push is one whole payload. One call of `ByteBuffer` checks its bounds once for header and payload.
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.frameHeaderBytes + count) { frame in
            storeHeader(bytesCount: count, flags: 0, in: frame)
            first.unsafelyUnwrapped.withUnsafeReadableBytes { payload in
                (frame.baseAddress.unsafelyUnwrapped + Self.frameHeaderBytes)
                    .copyMemory(from: payload.baseAddress.unsafelyUnwrapped, byteCount: count)
            }
            return Self.frameHeaderBytes + count
        }
        queuedBytes -= count
        // The array's memory is not in the cache: reading it, although it is empty, was a quarter of a multiplexed push.
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

    /// Queues the body of an answer as a copy.
    mutating func append(answer bytes: UnsafeBufferPointer<UInt8>) {
        answer.append(contentsOf: bytes)
        queuedBytes += bytes.count
    }

    /// Moves `count` bytes of the queue to `buffer`, first the answer, then the payloads.
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

extension HTTP2Stream.Method {
    /// The method as the application sees it.
    var `public`: HTTPRequest.Method {
        switch self {
        case .get: .get
        case .post: .post
        case .options: .options
        case .head: .head
        case .other: .other
        }
    }
}
