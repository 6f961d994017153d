import NIOCore

/// An answer with a body.
public struct HTTPResponse {
    /// The kind of the body.
    public enum ContentType: Sendable { case json, problem, text, html, octets, metrics }

    public var status: Int
    public var contentType: ContentType
    public var body: ByteBuffer
    /// The field `Retry-After`, in seconds.
    public var retryAfter: Int?
    /// The field `Allow`.
    public var allow: StaticString?

    public init(status: Int, contentType: ContentType, body: ByteBuffer, retryAfter: Int? = nil, allow: StaticString? = nil) {
        self.status = status
        self.contentType = contentType
        self.body = body
        self.retryAfter = retryAfter
        self.allow = allow
    }
}

extension HTTPResponse {
    var head: HTTPAnswerHead {
        HTTPAnswerHead(
            status: status, contentType: contentType, bodyBytesCount: body.readableBytes, retryAfter: retryAfter, allow: allow)
    }
}

/// The head of an answer.
struct HTTPAnswerHead {
    var status: Int
    var contentType: HTTPResponse.ContentType
    var bodyBytesCount: Int
    var retryAfter: Int?
    var allow: StaticString?
}

extension HTTPResponse.ContentType {
    var name: StaticString {
        switch self {
        case .json: "application/json"
        case .problem: "application/problem+json"
        case .text: "text/plain; charset=utf-8"
        case .html: "text/html; charset=utf-8"
        case .octets: "application/octet-stream"
        case .metrics: "text/plain; version=0.0.4; charset=utf-8"
        }
    }
}
