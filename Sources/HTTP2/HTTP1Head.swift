import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The reason why a request is refused before it is carried out.
///
/// The end of such a request is not certain, so the connection ends with the answer.
struct HTTP1Refusal: Error {
    let status: Int
    /// The mistake, and the correct form.
    let reason: StaticString
    let violation: HTTPViolation

    init(_ status: Int, _ reason: StaticString, _ violation: HTTPViolation = .protocolError) {
        self.status = status
        self.reason = reason
        self.violation = violation
    }

    static var headerTooLarge: HTTP1Refusal { HTTP1Refusal(431, "the header is too large", .headerListTooLarge) }
    static var bodyTooLarge: HTTP1Refusal { HTTP1Refusal(413, "the body is too long", .bodyTooLarge) }
}

/// The contents of a request's head.
///
/// Ranges are offsets from the first byte of the request.
struct HTTP1Head {
    /// The resource that the request names.
    enum Target {
        /// A path, and the query if there is one.
        case path(Range<Int>)
        /// The URL has no path: the path is "/". The query may be empty.
        case query(Range<Int>)
    }

    /// The length of the body (RFC 9112 §6.3).
    enum Body: Equatable {
        /// Without a body the length is 0.
        case length(Int)
        /// The body comes in chunks, and its length is not known before the last one.
        case chunked
    }

    /// The option in the field `Connection` (RFC 9112 §9.3).
    enum Persistence {
        case unsaid
        case keepAlive
        /// It prevails over `keep-alive`.
        case close
    }

    var target = Target.path(0..<0)
    // Small fields stand behind one that leaves a gap: each connection pays for the gaps between its fields.
    /// The minor version. Versions above HTTP/1.1 count as 1 (RFC 9110 §2.5).
    var minorVersion: UInt8 = 1
    var method = HTTPRequest.Method.other
    var persistence = Persistence.unsaid
    /// Whether the peer waits for status 100 before it sends the body.
    var expectsContinue = false
    var accepted = ContentCoding.Accepted.identity
    /// The length of the head with the empty line.
    var bytesCount = 0
    var body = Body.length(0)
    // Each of these is nil without its field.
    var authorization: Range<Int>?
    var lastEventID: Range<Int>?
    var idempotencyKey: Range<Int>?
    var origin: Range<Int>?
    /// Empty if there is more than one.
    var traceparent: Range<Int>?

    /// Whether the connection may serve another request after this one.
    var isKeptAlive: Bool {
        switch persistence {
        case .close: false
        // HTTP/1.0 does not define chunks, and an intermediary may have misread them (RFC 9112 §6.1).
        case .keepAlive: minorVersion > 0 || body != .chunked
        case .unsaid: minorVersion > 0
        }
    }

    /// Calls `body` with the path and the query. `bytes` begin with the request.
    func withTarget(in bytes: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        switch target {
        case .path(let range): body(bytes.part(range))
        case .query(let range): (Array("/".utf8) + bytes.part(range)).withUnsafeBufferPointer(body)
        }
    }

    /// Whether the answer may be large: see ``HTTPServerDelegate/mayHaveLargeAnswer(_:body:)``. `bytes` begin with the request.
    func mayHaveLargeAnswer(
        _ bytes: UnsafeBufferPointer<UInt8>, bodyBytesCount: Int, by delegate: (any HTTPServerDelegate)?
    ) -> Bool {
        guard let delegate else { return false }
        var isLarge = false
        withTarget(in: bytes) { target in
            isLarge = delegate.mayHaveLargeAnswer(target, body: bytes.part(bytesCount..<bytesCount + bodyBytesCount))
        }
        return isLarge
    }

    /// The request for the application. `bytes` begin with the request.
    func request(
        _ id: StreamID, _ bytes: UnsafeBufferPointer<UInt8>, target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>,
        origin: HTTPRequest.Origin
    ) -> HTTPRequest {
        var request = HTTPRequest(
            stream: id, method: method, target: target, authorization: bytes.part(authorization ?? 0..<0),
            lastEventID: bytes.part(lastEventID ?? 0..<0), idempotencyKey: idempotencyKey.map { bytes.part($0) }, body: body,
            origin: origin, refusedStatus: nil)
        if let traceparent { request.traceparent = bytes.part(traceparent) }
        return request
    }
}

/// Reads the head of an HTTP/1.1 request as it arrives (RFC 9112 §2–§6).
///
/// A head that two readers could understand differently is refused. `Upgrade` is ignored (RFC 9110 §7.8).
struct HTTP1HeadParser {
    /// The line that comes next.
    private enum Section {
        /// The request line, or the one empty line that is ignored before it (RFC 9112 §2.2).
        case beginning
        /// The request line, after an empty line.
        case requestLine
        /// A field, or the empty line at the end.
        case fields
    }

    private(set) var head = HTTP1Head()
    private var section = Section.beginning
    private var lineStart = 0
    /// The bytes that were searched for the end of the line.
    private var searchedCount = 0
    private var fieldsCount = 0
    private var fieldBytesCount = 0
    private var hostsCount = 0
    /// The value of the field `Content-Length`; nil without the field.
    private var contentLength: Int?

    /// Continues in `bytes`, which begin with the request and have grown since the last call. Returns whether the head is complete.
    mutating func parse(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: HTTPLimits) throws(HTTP1Refusal) -> Bool {
        if let first = bytes.first, !Self.isToken(first), first != Self.cr {
            throw HTTP1Refusal(400, "these bytes are not HTTP/1.1: a request begins with its method")
        }
        while let end = Self.lineFeed(in: bytes, from: searchedCount) {
            searchedCount = end + 1
            guard end > lineStart, bytes[end - 1] == Self.cr else {
                throw HTTP1Refusal(400, "a line of the header ends with LF; it must end with CRLF")
            }
            let line = lineStart..<end - 1
            lineStart = end + 1
            guard lineStart <= limits.headerBytesMax else { throw .headerTooLarge }
            switch section {
            case .fields where line.isEmpty:
                try finish(limits)
                return true
            case .fields: try parseField(line, in: bytes, limits)
            case .beginning where line.isEmpty: section = .requestLine
            case .requestLine where line.isEmpty: throw HTTP1Refusal(400, "there are too many empty lines before the request")
            case .beginning, .requestLine:
                try parseRequestLine(line, in: bytes)
                section = .fields
            }
        }
        searchedCount = bytes.count
        guard bytes.count <= limits.headerBytesMax else { throw .headerTooLarge }
        return false
    }

    // MARK: The request line

    private mutating func parseRequestLine(_ line: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>) throws(HTTP1Refusal) {
        let methodEnd = bytes.end(in: line, while: Self.isToken)
        let targetEnd = bytes.end(in: min(methodEnd + 1, line.upperBound)..<line.upperBound) { $0 != Self.space }
        guard methodEnd > line.lowerBound, targetEnd < line.upperBound, bytes[methodEnd] == Self.space else {
            throw HTTP1Refusal(400, "the request line is not \"METHOD TARGET HTTP/1.1\"")
        }
        try parseVersion(bytes.part(targetEnd + 1..<line.upperBound))
        let method = bytes.part(line.lowerBound..<methodEnd)
        let isConnect = method.equals("CONNECT")
        head.method =
            method.equals("POST")
            ? .post : method.equals("GET") ? .get : method.equals("HEAD") ? .head : method.equals("OPTIONS") ? .options : .other
        if isConnect { head.persistence = .close }
        let target = bytes.part(methodEnd + 1..<targetEnd)
        guard !target.isEmpty, target.allSatisfy({ $0 > Self.space && $0 != 0x7F }) else {
            throw HTTP1Refusal(400, "the target of the request is missing or has a control character")
        }
        if target[0] == Self.slash || (target.equals("*") && method.equals("OPTIONS")) || (isConnect && Self.isHost(target)) {
            head.target = .path(methodEnd + 1..<targetEnd)
        } else {
            try parseAbsolute(methodEnd + 1..<targetEnd, in: bytes)
        }
        fieldBytesCount = target.count
    }

    private mutating func parseVersion(_ version: UnsafeBufferPointer<UInt8>) throws(HTTP1Refusal) {
        guard version.count == 8, version.prefix(5).elementsEqual("HTTP/".utf8), version[6] == UInt8(ascii: "."),
            let major = Self.digit(version[5]), let minor = Self.digit(version[7])
        else { throw HTTP1Refusal(400, "the request line does not end with \"HTTP/1.1\"") }
        guard major == 1 else { throw HTTP1Refusal(505, "the version is not HTTP/1.1; HTTP/2 begins with its preface (RFC 9113 3.4)") }
        head.minorVersion = minor == 0 ? 0 : 1
    }

    /// Parses the target that a proxy gets (RFC 9112 §3.2.2). Only its path and query are used.
    private mutating func parseAbsolute(_ target: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>) throws(HTTP1Refusal) {
        let end = target.upperBound
        let schemeEnd = bytes.end(in: target, while: Self.isToken)
        let hostStart = min(schemeEnd + 3, end)
        let hostEnd = bytes.end(in: hostStart..<end) { $0 != Self.slash && $0 != UInt8(ascii: "?") }
        guard schemeEnd > target.lowerBound, bytes.part(schemeEnd..<hostStart).equals("://"), hostEnd > hostStart,
            Self.isHost(bytes.part(hostStart..<hostEnd))
        else { throw HTTP1Refusal(400, "the target of the request is neither a path that begins with \"/\" nor a URL") }
        head.target = hostEnd == end || bytes[hostEnd] != Self.slash ? .query(hostEnd..<end) : .path(hostEnd..<end)
    }

    // MARK: Fields

    private mutating func parseField(
        _ line: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>, _ limits: HTTPLimits
    ) throws(HTTP1Refusal) {
        let (name, value) = try Self.field(line, in: bytes)
        fieldsCount += 1
        fieldBytesCount += name.count + value.count + 32
        guard fieldsCount <= limits.headersCountMax, fieldBytesCount <= limits.headerBytesMax else { throw .headerTooLarge }
        let nameBytes = bytes.part(name), valueBytes = bytes.part(value)
        switch name.count {
        case 4 where nameBytes.equalsIgnoringCase("host"):
            hostsCount += 1
            guard hostsCount == 1, Self.isHost(valueBytes) else {
                throw HTTP1Refusal(400, "there must be exactly one Host field, with a name or an address and an optional port")
            }
        case 6 where nameBytes.equalsIgnoringCase("expect"):
            if valueBytes.equalsIgnoringCase("100-continue") { head.expectsContinue = true }
        case 6 where nameBytes.equalsIgnoringCase("origin"): if head.origin == nil { head.origin = value }
        case 10 where nameBytes.equalsIgnoringCase("connection"): parseConnection(value, in: bytes)
        case 11 where nameBytes.equalsIgnoringCase("traceparent"): head.traceparent = head.traceparent == nil ? value : 0..<0
        case 13 where nameBytes.equalsIgnoringCase("authorization"):
            guard head.authorization == nil else { throw HTTP1Refusal(400, "there must be at most one Authorization field") }
            head.authorization = value
        case 13 where nameBytes.equalsIgnoringCase("last-event-id"):
            guard head.lastEventID == nil else { throw HTTP1Refusal(400, "there must be at most one Last-Event-ID field") }
            head.lastEventID = value
        case 15 where nameBytes.equalsIgnoringCase("accept-encoding"): if ContentCoding.acceptsGzip(valueBytes) { head.accepted = .gzip }
        case 15 where nameBytes.equalsIgnoringCase("idempotency-key"):
            guard head.idempotencyKey == nil else { throw HTTP1Refusal(400, "there must be at most one Idempotency-Key field") }
            head.idempotencyKey = value
        case 14 where nameBytes.equalsIgnoringCase("content-length"): try parseContentLength(valueBytes)
        case 17 where nameBytes.equalsIgnoringCase("transfer-encoding"): try parseTransferCoding(valueBytes)
        default: break
        }
    }

    /// The name and the value in the line of a field (RFC 9112 §5). Refuses a line that continues the field before.
    static func field(
        _ line: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>
    ) throws(HTTP1Refusal) -> (name: Range<Int>, value: Range<Int>) {
        let nameEnd = bytes.end(in: line, while: isToken)
        guard nameEnd > line.lowerBound, nameEnd < line.upperBound, bytes[nameEnd] == UInt8(ascii: ":") else {
            throw HTTP1Refusal(400, "a line of the header is not \"name: value\"")
        }
        let value = bytes.trimmed(nameEnd + 1..<line.upperBound)
        guard bytes.end(in: value, while: isText) == value.upperBound else {
            throw HTTP1Refusal(400, "the value of a field has a control character")
        }
        return (line.lowerBound..<nameEnd, value)
    }

    private mutating func parseConnection(_ value: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>) {
        var start = value.lowerBound
        while start < value.upperBound {
            let end = bytes.end(in: start..<value.upperBound) { $0 != UInt8(ascii: ",") }
            let option = bytes.part(bytes.trimmed(start..<end))
            if option.equalsIgnoringCase("close") { head.persistence = .close }
            if option.equalsIgnoringCase("keep-alive"), head.persistence == .unsaid { head.persistence = .keepAlive }
            start = end + 1
        }
    }

    private mutating func parseContentLength(_ value: UnsafeBufferPointer<UInt8>) throws(HTTP1Refusal) {
        guard contentLength == nil, !value.isEmpty, value.allSatisfy({ Self.digit($0) != nil }) else {
            throw HTTP1Refusal(400, "there must be at most one Content-Length, and it must be a number of bytes")
        }
        // The value stays above every limit, and does not overflow.
        contentLength = value.reduce(0) { min($0 * 10 + Int($1 - 48), 1 << 48) }
    }

    private mutating func parseTransferCoding(_ value: UnsafeBufferPointer<UInt8>) throws(HTTP1Refusal) {
        guard head.body != .chunked else { throw HTTP1Refusal(400, "there must be at most one Transfer-Encoding") }
        guard value.equalsIgnoringCase("chunked") else {
            let isLastChunked = UnsafeBufferPointer(rebasing: value.suffix(7)).equalsIgnoringCase("chunked")
            throw isLastChunked
                ? HTTP1Refusal(501, "the only supported transfer coding is \"chunked\"")
                : HTTP1Refusal(400, "the last transfer coding of a request must be \"chunked\"")
        }
        head.body = .chunked
    }

    private mutating func finish(_ limits: HTTPLimits) throws(HTTP1Refusal) {
        guard hostsCount == 1 || head.minorVersion == 0 else { throw HTTP1Refusal(400, "the Host field is missing") }
        if let contentLength {
            guard head.body != .chunked else {
                throw HTTP1Refusal(400, "there are both Content-Length and Transfer-Encoding; only one of them is allowed")
            }
            guard contentLength <= limits.bodyBytesMax else { throw .bodyTooLarge }
            head.body = .length(contentLength)
        }
        if head.minorVersion == 0 { head.expectsContinue = false }
        head.bytesCount = lineStart
    }

    // MARK: Bytes

    static let cr = UInt8(ascii: "\r"), space = UInt8(ascii: " "), tab = UInt8(ascii: "\t"), slash = UInt8(ascii: "/")

    static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }

    /// Whether a byte may be in the value of a field (RFC 9110 §5.5).
    static func isText(_ byte: UInt8) -> Bool { byte >= space && byte != 0x7F || byte == tab }

    static func digit(_ byte: UInt8) -> Int? { (48...57).contains(byte) ? Int(byte) - 48 : nil }

    /// Whether a byte may be part of a method or of a field's name (RFC 9110 §5.6.2).
    static func isToken(_ byte: UInt8) -> Bool { contains(byte, 0x03ff_6cfa_0000_0000, 0x57ff_ffff_c7ff_fffe) }

    private static func contains(_ byte: UInt8, _ low: UInt64, _ high: UInt64) -> Bool {
        byte < 128 && (byte < 64 ? low : high) >> UInt64(byte & 63) & 1 == 1
    }

    /// The index of the next LF.
    static func lineFeed(in bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard start < bytes.count, let base = bytes.baseAddress, let end = memchr(base + start, 0x0A, bytes.count - start) else {
            return nil
        }
        return UnsafeRawPointer(end) - UnsafeRawPointer(base)
    }

    /// Whether the bytes are a host, with or without a port (RFC 3986 §3.2.2). They may be empty (RFC 9110 §7.2).
    static func isHost(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        let isBracketed = value.first == UInt8(ascii: "[")
        let name = value.prefix { isBracketed ? $0 != UInt8(ascii: "]") : $0 != UInt8(ascii: ":") }
        let isName = name.dropFirst(isBracketed ? 1 : 0).allSatisfy {
            contains($0, 0x2bff_7ff2_0000_0000, 0x47ff_fffe_87ff_fffe) || (isBracketed && $0 == UInt8(ascii: ":"))
        }
        guard isName, !isBracketed || name.count > 1 && name.endIndex < value.endIndex else { return false }
        let port = value[(isBracketed ? name.endIndex + 1 : name.endIndex)...]
        return port.isEmpty || port.first == UInt8(ascii: ":") && port.dropFirst().allSatisfy { digit($0) != nil }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The first index in a range whose byte is of another kind; the end of the range when there is none.
    fileprivate func end(in range: Range<Int>, while isKind: (UInt8) -> Bool) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, isKind(self[index]) { index += 1 }
        return index
    }

    /// The range without blanks at its ends.
    fileprivate func trimmed(_ range: Range<Int>) -> Range<Int> {
        var (start, end) = (range.lowerBound, range.upperBound)
        while start < end, HTTP1HeadParser.isBlank(self[start]) { start += 1 }
        while end > start, HTTP1HeadParser.isBlank(self[end - 1]) { end -= 1 }
        return start..<end
    }

    /// The bytes in a range.
    func part(_ range: Range<Int>) -> UnsafeBufferPointer { UnsafeBufferPointer(rebasing: self[range]) }

    /// Whether the bytes equal `text`, which is in lower case, without regard to case.
    func equalsIgnoringCase(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        for index in indices {
            let letter = text.utf8Start[index], byte = self[index]
            guard byte == letter || (byte | 0x20 == letter && (97...122).contains(letter)) else { return false }
        }
        return true
    }
}
