import NIOCore

/// An answer with a body.
public struct HTTPResponse {
    /// The kind of the body.
    public enum ContentType: Sendable { case json, problem, ndjson, eventStream, text, html, css, javaScript, octets, metrics }

    public var status: Int
    public var contentType: ContentType
    public var body: ByteBuffer
    /// The same body, if many requests get it.
    var repeated: RepeatedText?
    /// The field `Retry-After`, in seconds.
    public var retryAfter: Int?
    /// The field `Allow`.
    public var allow: StaticString?
    /// Further fields, for answers that are rare.
    public var fields: [HTTPField]
    /// Whether pages of every origin may read the answer, because everybody may.
    public var isPublic: Bool

    public init(
        status: Int, contentType: ContentType, body: ByteBuffer, retryAfter: Int? = nil, allow: StaticString? = nil,
        fields: [HTTPField] = [], isPublic: Bool = false
    ) {
        self.status = status
        self.contentType = contentType
        self.body = body
        self.retryAfter = retryAfter
        self.allow = allow
        precondition(fields.count <= HTTPField.countMax, "an answer has \(fields.count) fields of its own")
        self.fields = fields
        self.isPublic = isPublic
    }

    /// Makes an answer with a text that many requests get.
    public init(status: Int, contentType: ContentType, repeated text: RepeatedText, fields: [HTTPField] = [], isPublic: Bool = false) {
        self.init(status: status, contentType: contentType, body: text.bytes, fields: fields, isPublic: isPublic)
        repeated = text
    }

    /// The answer to a CORS preflight: 204, and what pages of an allowed origin may send.
    public static func preflight(_ origin: HTTPRequest.Origin) -> HTTPResponse {
        HTTPResponse(status: 204, contentType: .text, body: ByteBuffer(), fields: origin == .allowed ? preflightFields : [])
    }

    private static let preflightFields = [
        HTTPField("access-control-allow-methods", "GET, POST"),
        HTTPField("access-control-allow-headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Traceparent"),
        HTTPField("access-control-max-age", "600"),
    ]
}

/// A header field of an answer. The name is in lower case.
public struct HTTPField: Sendable {
    /// Most fields of an answer besides the thirteen that answers of every kind may have. A fixed number needs no allocation on the heap.
    static let countMax = 8

    let name: StaticString
    let value: [UInt8]

    /// - Parameter value: visible ASCII and spaces.
    public init(_ name: StaticString, _ value: String) {
        self.name = name
        self.value = Array(value.utf8)
    }
}

extension HTTPResponse {
    var head: HTTPAnswerHead {
        HTTPAnswerHead(
            status: status, contentType: contentType, bodyBytesCount: body.readableBytes, retryAfter: retryAfter, allow: allow,
            fields: fields, isPublic: isPublic)
    }
}

/// The head of an answer.
struct HTTPAnswerHead {
    var status: Int
    var contentType: HTTPResponse.ContentType
    var bodyBytesCount: Int
    var retryAfter: Int?
    var allow: StaticString?
    var fields: [HTTPField] = []
    var isPublic = false
    var coding = ContentCoding.never

    /// Whether a request that accepts gzip gets the answer compressed.
    var isCompressible: Bool { bodyBytesCount >= ContentCoding.bytesMin && contentType.isCompressible }
}

extension HTTPResponse.ContentType {
    var name: StaticString {
        switch self {
        case .json: "application/json"
        case .problem: "application/problem+json"
        case .ndjson: "application/x-ndjson"
        case .eventStream: "text/event-stream"
        case .css: "text/css; charset=utf-8"
        case .javaScript: "text/javascript; charset=utf-8"
        case .text: "text/plain; charset=utf-8"
        case .html: "text/html; charset=utf-8"
        case .octets: "application/octet-stream"
        case .metrics: "text/plain; version=0.0.4; charset=utf-8"
        }
    }
}
