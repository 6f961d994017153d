import NIOCore

/// Reads the chunks of an HTTP/1.1 body (RFC 9112 §7.1).
///
/// Extensions and trailers are checked and dropped.
struct HTTP1ChunkedBody {
    /// The longest line before a chunk: its size and extensions.
    private static let sizeLineBytesMax = 256

    private enum State {
        case size
        case data(bytesLeft: Int)
        case dataEnd
        case trailer
    }

    private var state = State.size
    private var trailersCount = 0
    private var trailerBytesCount = 0
    /// The contents of the chunks so far.
    private(set) var bytes = ByteBuffer()

    /// Consumes received bytes. Returns whether the body is complete.
    mutating func read(_ received: inout ByteBuffer, _ limits: HTTPLimits) throws(HTTP1Refusal) -> Bool {
        while received.readableBytes > 0 {
            switch state {
            case .data(let bytesLeft):
                guard var part = received.readSlice(length: min(bytesLeft, received.readableBytes)) else { return false }
                let count = part.readableBytes
                bytes.writeBuffer(&part)
                state = count == bytesLeft ? .dataEnd : .data(bytesLeft: bytesLeft - count)
            case .size:
                guard let line = try Self.line(in: received, bytesMax: Self.sizeLineBytesMax) else { return false }
                let size = try received.withUnsafeReadableBytes { all throws(HTTP1Refusal) in
                    try Self.size(UnsafeRawBufferPointer(rebasing: all[..<line]))
                }
                received.moveReaderIndex(forwardBy: line + 2)
                guard bytes.readableBytes + size <= limits.bodyBytesMax else { throw .bodyTooLarge }
                state = size == 0 ? .trailer : .data(bytesLeft: size)
            case .dataEnd:
                guard let line = try Self.line(in: received, bytesMax: 0) else { return false }
                received.moveReaderIndex(forwardBy: line + 2)
                state = .size
            case .trailer:
                guard let line = try Self.line(in: received, bytesMax: limits.headerBytesMax) else { return false }
                defer { received.moveReaderIndex(forwardBy: line + 2) }
                if line == 0 { return true }
                trailersCount += 1
                trailerBytesCount += line + 32
                guard trailersCount <= limits.headersCountMax, trailerBytesCount <= limits.headerBytesMax else { throw .headerTooLarge }
                try received.withUnsafeReadableBytes { all throws(HTTP1Refusal) in
                    _ = try HTTP1HeadParser.field(0..<line, in: all.bindMemory(to: UInt8.self))
                }
            }
        }
        return false
    }

    /// The length of the first line without its CRLF; nil while the line is not complete.
    private static func line(in received: ByteBuffer, bytesMax: Int) throws(HTTP1Refusal) -> Int? {
        try received.withUnsafeReadableBytes { all throws(HTTP1Refusal) in
            let all = all.bindMemory(to: UInt8.self)
            guard let end = HTTP1HeadParser.lineFeed(in: UnsafeBufferPointer(rebasing: all.prefix(bytesMax + 2)), from: 0) else {
                guard all.count < bytesMax + 2 else { throw HTTP1Refusal(400, "a chunk's length, end or trailer is too long") }
                return nil
            }
            guard end > 0, all[end - 1] == HTTP1HeadParser.cr else {
                throw HTTP1Refusal(400, "a line between chunks ends with LF; it must end with CRLF")
            }
            return end - 1
        }
    }

    /// The size of a chunk.
    private static func size(_ line: UnsafeRawBufferPointer) throws(HTTP1Refusal) -> Int {
        let digits = line.prefix { hexadecimal($0) != nil }
        let rest = line[digits.endIndex...].drop { HTTP1HeadParser.isBlank($0) }
        guard !digits.isEmpty, digits.count <= 16, rest.isEmpty || rest.first == UInt8(ascii: ";"),
            rest.allSatisfy(HTTP1HeadParser.isText)
        else { throw HTTP1Refusal(400, "a chunk does not begin with its length in hexadecimal digits") }
        return digits.reduce(0) { min($0 * 16 + (hexadecimal($1) ?? 0), 1 << 48) }
    }

    private static func hexadecimal(_ byte: UInt8) -> Int? {
        switch byte {
        case 48...57: Int(byte) - 48
        case 65...70: Int(byte) - 55
        case 97...102: Int(byte) - 87
        default: nil
        }
    }
}
