import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

extension Problem {
    /// A request that HTTP refused: bytes that are not HTTP, or a header or a body that is too long or does not arrive.
    init(refused status: Int, _ reason: StaticString?, by limits: HTTPLimits) {
        let detail =
            switch status {
            case 408: reason.map { "\($0)" } ?? "the request was not complete within \(limits.bodyTimeout.nanoseconds / 1_000_000_000) s"
            case 413: "the body is longer than \(limits.bodyBytesMax) bytes"
            case 431: "the header has more than \(limits.headersCountMax) fields or \(limits.headerBytesMax) bytes"
            default: reason.map { "\($0)" } ?? "the request was refused"
            }
        let isOverload = status == 503
        self.init(status: status, code: isOverload ? Refusal.overloaded.code : 6017, detail: detail, retryAfter: isOverload ? 1 : nil)
    }
}

/// The answers to requests that are refused for overload. Each body is encoded once, because a refusal must be far cheaper than the work.
struct RefusalBodies {
    private var bodies: [ByteBuffer?] = []

    /// 503 with code 50002.
    mutating func response(retryAfter: Int) -> HTTPResponse {
        while bodies.count <= retryAfter { bodies.append(nil) }
        let body = bodies[retryAfter] ?? ByteBuffer(lineOf: Self.problem(retryAfter: retryAfter).json)
        bodies[retryAfter] = body
        return HTTPResponse(status: 503, contentType: .problem, body: body, retryAfter: retryAfter)
    }

    /// The problem of such an answer.
    static func problem(retryAfter: Int) -> Problem {
        Problem(
            status: 503, code: Refusal.overloaded.code, detail: "this node is overloaded; retry after \(retryAfter) s",
            retryAfter: retryAfter)
    }
}
