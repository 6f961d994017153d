import CZlib
import NIOCore
import Synchronization

/// Compresses one text after the other with gzip (RFC 1952).
///
/// zlib takes 256 KiB for a compressor, so an event loop has one for all its short answers. The memory for the result is kept as well, up
/// to ``ContentCoding/bytesAtOnceMax``.
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

    /// Begins a text that comes in parts.
    func begin() { deflateReset(stream) }

    /// The parts of a text that is not compressed as a whole.
    enum Part {
        /// More follows. zlib may keep the part for a while.
        case piece
        /// More follows later. The result has the whole part.
        case payload
        case last

        fileprivate var flush: Int32 {
            switch self {
            case .piece: Z_NO_FLUSH
            case .payload: Z_SYNC_FLUSH
            case .last: Z_FINISH
            }
        }
    }

    /// Appends the compressed form of a part to `output`.
    func append(_ bytes: UnsafeBufferPointer<UInt8>, _ part: Part, to output: inout ByteBuffer) {
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
        stream.pointee.avail_in = UInt32(bytes.count)
        // zlib has more to give only if it has filled the space.
        var isFull = true
        while isFull {
            output.writeWithUnsafeMutableBytes(minimumWritableBytes: 4_096) { (space: UnsafeMutableRawBufferPointer) -> Int in
                let spaceBytes = UInt32(clamping: space.count)
                stream.pointee.next_out = space.bindMemory(to: UInt8.self).baseAddress
                stream.pointee.avail_out = spaceBytes
                deflate(stream, part.flush)
                isFull = stream.pointee.avail_out == 0
                return Int(spaceBytes - stream.pointee.avail_out)
            }
        }
    }
}

/// Compresses the payloads of a stream of ``HTTPServerConnection/openStream(_:of:token:)``.
///
/// The client can read each payload as soon as it has it. zlib takes 256 KiB while the stream is open.
public final class StreamCompressor {
    private let compressor = GzipCompressor(level: GzipCompressor.fastest)

    init() {}

    /// The compressed form of the next payload.
    public func compressed(_ payload: ByteBuffer) -> ByteBuffer { compressed(payload, .payload) }

    /// The end of the compressed text, which must be pushed behind the last payload.
    public func end() -> ByteBuffer { compressed(ByteBuffer(), .last) }

    private func compressed(_ payload: ByteBuffer, _ part: GzipCompressor.Part) -> ByteBuffer {
        var output = ByteBuffer()
        payload.withUnsafeReadableBytes { compressor.append($0.bindMemory(to: UInt8.self), part, to: &output) }
        return output
    }
}

/// A text that is sent to many. It is compressed at most once: when the first request accepts that.
public final class RepeatedText: Sendable {
    public let bytes: ByteBuffer
    private let level: Int32
    /// The inner value is nil if the compressed text is not shorter.
    private let made: Mutex<ByteBuffer??>

    /// - Parameter isLasting: whether the text is sent for as long as the process runs, so that all effort to make it short is worth while.
    public init(_ bytes: ByteBuffer, isLasting: Bool) {
        self.bytes = bytes
        level = isLasting ? GzipCompressor.smallest : GzipCompressor.fastest
        made = Mutex<ByteBuffer??>(nil)
    }

    /// Makes a text that is compressed already.
    ///
    /// - Parameter compressed: nil if the compressed text is not shorter.
    init(_ bytes: ByteBuffer, compressed: ByteBuffer?) {
        self.bytes = bytes
        level = GzipCompressor.fastest
        made = Mutex<ByteBuffer??>(.some(compressed))
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
