import CZlib
import NIOCore
import Synchronization

/// Compresses one text after the other with gzip (RFC 1952).
///
/// zlib takes 256 KiB for a compressor, so an event loop has one for all its answers. The memory for the result is kept as well, up to
/// ``ContentCoding/bytesMax``.
final class GzipCompressor {
    /// zlib keeps a pointer to it, so it may not move.
    private let stream: UnsafeMutablePointer<z_stream>
    private var result = UnsafeMutableBufferPointer<UInt8>(start: nil, count: 0)

    /// Effort of zlib for a text that is sent once: the least. JSON becomes a fifth to a tenth of its length.
    static let fastest: Int32 = 1
    /// Effort for a text that is compressed once and sent often.
    static let smallest: Int32 = 9

    init(level: Int32) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        // It fails without memory, and then Swift ends the process as well.
        precondition(czlib_gzip_init(stream, level) == Z_OK, "zlib has no memory for a compressor")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
        result.deallocate()
    }

    /// The compressed text, which is valid until the next call; nil if it is not shorter than the text.
    func compress(_ text: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8>? {
        if result.count < text.count {
            result.deallocate()
            result = .allocate(capacity: text.count)
        }
        deflateReset(stream)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: text.baseAddress)
        stream.pointee.avail_in = UInt32(text.count)
        stream.pointee.next_out = result.baseAddress
        stream.pointee.avail_out = UInt32(text.count)
        guard deflate(stream, Z_FINISH) == Z_STREAM_END else { return nil }
        return UnsafeBufferPointer(rebasing: result[..<(text.count - Int(stream.pointee.avail_out))])
    }
}

/// A text that is sent to many. It is compressed at most once: when the first request accepts that.
public final class RepeatedText: Sendable {
    public let bytes: ByteBuffer
    private let level: Int32
    /// The inner value is nil if the compressed text is not shorter.
    private let made = Mutex<ByteBuffer??>(nil)

    /// - Parameter isLasting: whether the text is sent for as long as the process runs, so that all effort to make it short is worth while.
    public init(_ bytes: ByteBuffer, isLasting: Bool) {
        self.bytes = bytes
        level = isLasting ? GzipCompressor.smallest : GzipCompressor.fastest
    }

    /// The compressed text; nil if it is not shorter.
    var compressed: ByteBuffer? {
        made.withLock { made in
            if let made { return made }
            let compressor = GzipCompressor(level: level)
            let result = bytes.withUnsafeReadableBytes { bytes in
                compressor.compress(bytes.bindMemory(to: UInt8.self)).map { ByteBuffer(bytes: $0) }
            }
            made = .some(result)
            return result
        }
    }
}

extension HTTPLoop {
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
        guard response.repeated == nil, response.body.readableBytes <= ContentCoding.bytesMax else { return nil }
        return response.body.withUnsafeReadableBytes { bytes in
            compressor.compress(bytes.bindMemory(to: UInt8.self)).map { ByteBuffer(bytes: $0) }
        }
    }

    /// Replaces a long body by its compressed form, if the request accepts that. The new body is valid until the next call.
    func code(_ head: inout HTTPAnswerHead, _ body: inout UnsafeBufferPointer<UInt8>, accepted: ContentCoding.Accepted) {
        guard head.isCompressible else { return }
        head.coding = .identity
        guard accepted == .gzip, body.count <= ContentCoding.bytesMax, let compressed = compressor.compress(body) else { return }
        body = compressed
        (head.coding, head.bodyBytesCount) = (.gzip, compressed.count)
    }
}
