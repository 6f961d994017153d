import NIOCore

/// The properties of a request that decide about the form of its answer.
struct HTTP1AnswerForm {
    /// The fate of the connection after the answer.
    enum Sequel {
        /// The connection serves the next request.
        case nextRequest
        /// The connection ends.
        case end
        /// The connection ends, because the request was refused. The peer may still be sending the rest of it.
        case endOfRefused
    }

    /// The minor version of the request: 0 for HTTP/1.0, 1 for HTTP/1.1.
    var minorVersion: UInt8 = 1
    var method = HTTPRequest.Method.other
    private(set) var sequel = Sequel.nextRequest
    var origin = OriginTable.Number.absent

    init() {}

    /// Makes the form of the answer to a complete head.
    init(_ head: HTTP1Head, origin: OriginTable.Number) {
        minorVersion = head.minorVersion
        method = head.method
        sequel = head.isKeptAlive ? .nextRequest : .end
        self.origin = origin
    }

    /// Records that the connection ends with this answer.
    mutating func end() { if sequel == .nextRequest { sequel = .end } }

    /// Records that the request is refused. The connection ends with the answer.
    mutating func refuse() { sequel = .endOfRefused }

    /// Whether the answer may have a body: to HEAD it has none.
    var hasBody: Bool { method != .head }
}

extension ByteBuffer {
    /// Writes the status line (RFC 9112 §4) and the fields `date` and `request-id`.
    private mutating func writeStart(_ status: Int, _ form: HTTP1AnswerForm, _ date: HTTPDate, _ id: RequestID) {
        writeStaticString(form.minorVersion == 0 ? "HTTP/1.0 " : "HTTP/1.1 ")
        writeString(String(status))
        writeStaticString(Self.reason(status))
        writeStaticString("\r\ndate: ")
        writeBytes(date.bytes)
        writeStaticString("\r\nrequest-id: ")
        _ = id.withText { writeBytes($0) }
    }

    /// Writes the head of an answer.
    mutating func write(
        _ answer: HTTPAnswerHead, _ form: HTTP1AnswerForm, _ date: HTTPDate, _ origins: OriginTable, _ id: RequestID
    ) {
        writeStart(answer.status, form, date, id)
        if answer.status != 204 {
            writeStaticString("\r\ncontent-type: ")
            writeStaticString(answer.contentType.name)
            writeStaticString("\r\ncontent-length: ")
            writeString(String(answer.bodyBytesCount))
        }
        write(answer.coding)
        if let retryAfter = answer.retryAfter {
            writeStaticString("\r\nretry-after: ")
            writeString(String(retryAfter))
        }
        if let allow = answer.allow {
            writeStaticString("\r\nallow: ")
            writeStaticString(allow)
        }
        if answer.status == 401 { writeStaticString("\r\nwww-authenticate: Bearer") }
        for field in answer.fields {
            writeStaticString("\r\n")
            writeStaticString(field.name)
            writeStaticString(": ")
            writeBytes(field.value)
        }
        write(origins, answer.isPublic ? .any : form.origin)
        writeEnd(form)
    }

    /// Writes the head of an answer without a known end, such as an event stream. It is the connection's last answer.
    ///
    /// A client of HTTP/1.0 does not support chunks, and reads to the end of the connection.
    mutating func writeStreamHead(
        of contentType: HTTPResponse.ContentType, _ coding: ContentCoding, _ form: HTTP1AnswerForm, _ date: HTTPDate,
        _ origins: OriginTable, _ id: RequestID
    ) {
        writeStart(200, form, date, id)
        writeStaticString("\r\ncontent-type: ")
        writeStaticString(contentType.name)
        write(coding)
        // By the last field nginx passes each event on at once.
        writeStaticString("\r\ncache-control: no-store, no-transform\r\nx-accel-buffering: no")
        write(origins, form.origin)
        if form.minorVersion > 0 { writeStaticString("\r\ntransfer-encoding: chunked") }
        writeStaticString("\r\nconnection: close\r\n\r\n")
    }

    private mutating func write(_ coding: ContentCoding) {
        switch coding {
        case .never: break
        case .identity: writeStaticString("\r\nvary: Accept-Encoding")
        case .gzip: writeStaticString("\r\nvary: Accept-Encoding\r\ncontent-encoding: gzip")
        }
    }

    /// Writes the fields by which a page of an allowed origin may read the answer, and by which caches keep answers apart.
    private mutating func write(_ origins: OriginTable, _ number: OriginTable.Number) {
        if number.isAllowed || origins.areAnswersVaried { writeStaticString("\r\nvary: Origin") }
        origins.withValue(of: number) { origin in
            guard let origin else { return }
            writeStaticString("\r\naccess-control-allow-origin: ")
            writeBytes(origin)
            writeStaticString("\r\naccess-control-expose-headers: Retry-After, Request-ID")
        }
    }

    private mutating func writeEnd(_ form: HTTP1AnswerForm) {
        if form.sequel != .nextRequest {
            writeStaticString("\r\nconnection: close")
        } else if form.minorVersion == 0 {
            writeStaticString("\r\nconnection: keep-alive")
        }
        writeStaticString("\r\n\r\n")
    }

    /// Writes a part of an event stream, as a chunk for HTTP/1.1.
    mutating func write(chunk: ByteBuffer, _ form: HTTP1AnswerForm) {
        guard form.minorVersion > 0 else {
            writeImmutableBuffer(chunk)
            return
        }
        writeString(String(chunk.readableBytes, radix: 16))
        writeStaticString("\r\n")
        writeImmutableBuffer(chunk)
        writeStaticString("\r\n")
    }

    /// The reason phrase of a status, behind the space that always precedes it.
    private static func reason(_ status: Int) -> StaticString {
        switch status {
        case 200: " OK"
        case 204: " No Content"
        case 307: " Temporary Redirect"
        case 400: " Bad Request"
        case 401: " Unauthorized"
        case 403: " Forbidden"
        case 404: " Not Found"
        case 405: " Method Not Allowed"
        case 408: " Request Timeout"
        case 409: " Conflict"
        case 410: " Gone"
        case 412: " Precondition Failed"
        case 413: " Content Too Large"
        case 423: " Locked"
        case 429: " Too Many Requests"
        case 431: " Request Header Fields Too Large"
        case 500: " Internal Server Error"
        case 501: " Not Implemented"
        case 503: " Service Unavailable"
        case 505: " HTTP Version Not Supported"
        default: " "
        }
    }
}
