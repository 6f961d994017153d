import NIOCore

/// One stream's place in its connection's table. The arrays keep their memory when the place is used again.
struct HTTP2Stream {
    /// A header field as offsets into ``head``.
    struct Field {
        var nameStart: UInt32 = 0
        var valueStart: UInt32 = 0
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
    /// The application was told that the queue is full.
    var isFull = false
    /// nghttp2 has no data to send for it and waits for a resume.
    var isDeferred = false
    /// The rest of the request is refused once the answer is out.
    var isCutAfterAnswer = false
    /// Nothing comes after the queue.
    var isFinished = false
    /// The status of a response, for a client.
    var status = 0
    var headersCount = 0
    var startedAt = NIODeadline.distantPast
    /// Names and values of the header fields, one after the other.
    var head: [UInt8] = []
    var fields: [Field] = []
    var body: [UInt8] = []
    /// Payloads that wait; the first may be sent in part.
    var first: ByteBuffer?
    var rest = CircularBuffer<ByteBuffer>(initialCapacity: 0)
    var queuedBytes = 0

    /// Makes the place ready for a new stream.
    mutating func open(_ number: Int32, at now: NIODeadline) {
        self.number = number
        startedAt = now
        token = 0
        status = 0
        headersCount = 0
        isEventStream = false
        isWhole = false
        isAnswered = false
        isReported = false
        isHeadTooLarge = false
        isBodyTooLarge = false
        isFull = false
        isDeferred = false
        isFinished = false
        isCutAfterAnswer = false
        head.removeAll(keepingCapacity: head.capacity <= 2_048)
        fields.removeAll(keepingCapacity: true)
        body.removeAll(keepingCapacity: body.capacity <= 4_096)
        dropQueue()
    }

    /// Gives back what an idle event stream does not need.
    mutating func slim() {
        head = []
        fields = []
        body = []
    }

    mutating func dropQueue() {
        first = nil
        rest.removeAll()
        queuedBytes = 0
    }

    mutating func append(_ payload: ByteBuffer) {
        queuedBytes += payload.readableBytes
        if first == nil { first = payload } else { rest.append(payload) }
    }

    /// Moves `count` bytes of the queue to `buffer`.
    mutating func take(_ count: Int, into buffer: inout ByteBuffer) {
        var missing = count
        queuedBytes -= count
        while missing > 0, let available = first?.readableBytes {
            if available <= missing {
                buffer.writeImmutableBuffer(first.unsafelyUnwrapped)
                missing -= available
                first = rest.popFirst()
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
