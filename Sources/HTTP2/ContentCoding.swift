import NIOCore

/// The content coding of an answer (RFC 9110 §8.4).
enum ContentCoding {
    /// Every request gets these bytes.
    case never
    /// These are the plain bytes. A request with another `Accept-Encoding` may get others.
    case identity
    /// The bytes are compressed.
    case gzip

    /// The codings that a request accepts.
    enum Accepted { case identity, gzip }

    /// The length from which an answer is compressed. A shorter one fits into one packet with its head.
    static let bytesMin = 1_024
    /// The length up to which an answer is compressed when it is sent, which takes some 3 ms of the event loop. A longer one is compressed
    /// in turns of the loop: see ``AnswerCompression``.
    static let bytesAtOnceMax = RequestTurn.pacedBytes

    /// Whether a value of `Accept-Encoding` accepts gzip (RFC 9110 §12.5.3).
    ///
    /// An element `gzip` decides. Without one, `*` does.
    static func acceptsGzip(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        var acceptsOthers = false
        var start = 0
        while start < value.count {
            let end = value[start...].firstIndex(of: UInt8(ascii: ",")) ?? value.count
            let nameEnd = value[start..<end].firstIndex(of: UInt8(ascii: ";")) ?? end
            let name = value.part(trimmed(start..<nameEnd, in: value))
            if name.equalsIgnoringCase("gzip") || name.equalsIgnoringCase("x-gzip") { return isWanted(value.part(nameEnd..<end)) }
            if name.equals("*") { acceptsOthers = isWanted(value.part(nameEnd..<end)) }
            start = end + 1
        }
        return acceptsOthers
    }

    /// Whether the parameters of an element do not say `q=0`.
    private static func isWanted(_ parameters: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let equals = parameters.firstIndex(of: UInt8(ascii: "=")) else { return true }
        return parameters[(equals + 1)...].contains { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) }
    }

    private static func trimmed(_ range: Range<Int>, in value: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        var (start, end) = (range.lowerBound, range.upperBound)
        while start < end, HTTP1HeadParser.isBlank(value[start]) { start += 1 }
        while end > start, HTTP1HeadParser.isBlank(value[end - 1]) { end -= 1 }
        return start..<end
    }
}

extension ContentCoding {
    /// The compressor for the payloads of a stream in this coding; nil if they are sent as they are.
    var compressor: StreamCompressor? { self == .gzip ? StreamCompressor() : nil }
}

extension HTTPResponse.ContentType {
    /// The coding of a body without a known end.
    func streamCoding(accepted: ContentCoding.Accepted) -> ContentCoding {
        guard isCompressible else { return .never }
        return accepted == .gzip ? .gzip : .identity
    }

    /// Whether answers of this type are compressed. A compressed event would wait for the next one, and the link of the cluster is near.
    var isCompressible: Bool {
        switch self {
        case .json, .problem, .ndjson, .text, .html, .css, .javaScript, .metrics: true
        case .eventStream, .octets: false
        }
    }
}
