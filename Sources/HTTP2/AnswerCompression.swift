import NIOCore

/// Compresses the answers of an event loop: short ones when they are sent, and long ones one after the other, a piece at a time.
///
/// zlib takes 5 to 10 ms for a megabyte of JSON. Between two pieces the loop serves other clients.
final class AnswerCompression: ContinuedWork {
    /// A long answer that is not compressed yet.
    private struct LongAnswer {
        let response: HTTPResponse
        let stream: StreamID
        let connection: HTTPServerConnection
    }

    /// The bytes that are compressed between two looks at the clock: some 0.2 ms.
    private static let pieceBytes = 32 << 10
    /// The share of waiting long answers in ``HTTPLimits/heldBytesMax``.
    private static let waitingShare = 4
    private static let turnTime = TimeAmount.microseconds(250)

    private unowned let server: HTTPLoop
    /// The compressor for short answers.
    let atOnce = GzipCompressor(level: GzipCompressor.fastest)
    /// The compressor for long answers, while there are any.
    private var paced: GzipCompressor?
    private var waiting: [LongAnswer] = []
    /// The progress with the first long answer.
    private var first = (takenBytes: 0, result: ByteBuffer())

    init(for server: HTTPLoop) { self.server = server }

    private var waitingBytes: Int { waiting.reduce(0) { $0 + $1.response.body.readableBytes } }

    /// Takes a long answer, which the connection sends once it is compressed. Returns false if too many bytes of such answers wait.
    func take(_ response: HTTPResponse, to stream: StreamID, on connection: HTTPServerConnection) -> Bool {
        let bytesCount = response.body.readableBytes
        guard waiting.isEmpty || waitingBytes + bytesCount <= server.limits.heldBytesMax / Self.waitingShare else { return false }
        waiting.append(LongAnswer(response: response, stream: stream, connection: connection))
        server.sharedLimits.heldBytes += bytesCount
        if waiting.count == 1 { server.continueLater(self) }
        return true
    }

    func work() {
        let end = NIODeadline.now() + Self.turnTime
        while let answer = waiting.first {
            if answer.connection.isAwaitingAnswer(answer.stream) { compressPiece(of: answer) } else { drop(answer) }
            if .now() >= end { break }
        }
        if waiting.isEmpty { paced = nil } else { server.continueLater(self) }
    }

    private func compressPiece(of answer: LongAnswer) {
        let compressor = paced ?? GzipCompressor(level: GzipCompressor.fastest)
        paced = compressor
        if first.takenBytes == 0 { compressor.begin() }
        let body = answer.response.body
        let start = first.takenBytes
        let end = min(start + Self.pieceBytes, body.readableBytes)
        let isLast = end == body.readableBytes
        body.withUnsafeReadableBytes { bytes in
            let piece = UnsafeRawBufferPointer(rebasing: bytes[start..<end]).bindMemory(to: UInt8.self)
            compressor.append(piece, isLast ? .last : .piece, to: &first.result)
        }
        first.takenBytes = end
        if isLast { send(answer) }
    }

    private func send(_ answer: LongAnswer) {
        let (body, result) = (answer.response.body, first.result)
        var response = answer.response
        response.repeated = RepeatedText(body, compressed: result.readableBytes < body.readableBytes ? result : nil)
        drop(answer)
        answer.connection.respond(to: answer.stream, response)
    }

    /// Removes the first answer.
    private func drop(_ answer: LongAnswer) {
        server.sharedLimits.heldBytes -= answer.response.body.readableBytes
        first = (0, ByteBuffer())
        waiting.removeFirst()
    }
}

extension HTTPLoop {
    /// Whether an answer is sent later, once it is compressed. The connection then gets the same answer again.
    func compressesLater(
        _ response: HTTPResponse, accepted: ContentCoding.Accepted, to stream: StreamID, on connection: HTTPServerConnection
    ) -> Bool {
        guard accepted == .gzip, response.repeated == nil, response.contentType.isCompressible else { return false }
        guard response.body.readableBytes > ContentCoding.bytesAtOnceMax else { return false }
        return compression.take(response, to: stream, on: connection)
    }

    /// The head and the body of an answer, in the coding that the request accepts.
    func coded(_ response: HTTPResponse, accepted: ContentCoding.Accepted) -> (head: HTTPAnswerHead, body: ByteBuffer) {
        var head = response.head
        guard head.isCompressible else { return (head, response.body) }
        head.coding = .identity
        guard accepted == .gzip, let body = response.repeated?.compressed ?? compressed(response) else { return (head, response.body) }
        (head.coding, head.bodyBytesCount) = (.gzip, body.readableBytes)
        return (head, body)
    }

    private func compressed(_ response: HTTPResponse) -> ByteBuffer? {
        guard response.repeated == nil, response.body.readableBytes <= ContentCoding.bytesAtOnceMax else { return nil }
        return response.body.withUnsafeReadableBytes { bytes in
            compression.atOnce.compress(bytes.bindMemory(to: UInt8.self)).map { ByteBuffer(bytes: $0) }
        }
    }

    /// Replaces a body by its compressed form, if the request accepts that. The new body is valid until the next call.
    func code(_ head: inout HTTPAnswerHead, _ body: inout UnsafeBufferPointer<UInt8>, accepted: ContentCoding.Accepted) {
        guard head.isCompressible else { return }
        head.coding = .identity
        guard accepted == .gzip, body.count <= ContentCoding.bytesAtOnceMax, let compressed = compression.atOnce.compress(body) else {
            return
        }
        body = compressed
        (head.coding, head.bodyBytesCount) = (.gzip, compressed.count)
    }
}
