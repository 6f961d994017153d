import CNGHTTP2
import NIOCore

/// Finds a request's fields among the recorded bytes, without copying them.
enum HTTP2Request {
    static func make(
        _ stream: StreamID, _ state: HTTP2Stream, head: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>, refused: Int?
    ) -> HTTPRequest {
        var method = HTTPRequest.Method.other
        let none = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        var (target, authorization, lastEventID) = (none, none, none)
        for field in state.fields {
            let name = UnsafeBufferPointer(rebasing: head[Int(field.nameStart)..<Int(field.valueStart)])
            let value = UnsafeBufferPointer(rebasing: head[Int(field.valueStart)..<Int(field.end)])
            switch name.count {
            case 5 where name.equals(":path"): target = value
            case 7 where name.equals(":method"): method = value.equals("POST") ? .post : value.equals("GET") ? .get : .other
            case 13 where name.equals("authorization"): authorization = value
            case 13 where name.equals("last-event-id"): lastEventID = value
            default: break
            }
        }
        return HTTPRequest(
            stream: stream, method: method, target: target, authorization: authorization, lastEventID: lastEventID, body: body,
            refusedStatus: refused)
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether the bytes are those of `text`.
    func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        for index in 0..<count where self[index] != text.utf8Start[index] { return false }
        return true
    }
}

extension HTTP2Headers {
    /// The head of an event stream.
    nonisolated(unsafe) static let eventStream = [
        status(200), field("content-type", "text/event-stream"), field("cache-control", "no-store"),
    ]

    /// Calls `body` with the fields of an answer; numbers live on the stack meanwhile.
    static func withFields(of response: HTTPResponse, _ body: ([nghttp2_nv]) -> Void) {
        withDecimal(response.body.readableBytes) { length in
            let common = [
                status(response.status), field("content-type", response.contentType.name), field("content-length", copying: length),
            ]
            guard response.retryAfter != nil || response.allow != nil else { return body(common) }
            withDecimal(response.retryAfter ?? 0) { seconds in
                var fields = common
                if response.retryAfter != nil { fields.append(field("retry-after", copying: seconds)) }
                if let allow = response.allow { fields.append(field("allow", allow)) }
                body(fields)
            }
        }
    }

    private static func withDecimal(_ value: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = 20
            var rest = value
            repeat {
                start -= 1
                digits[start] = 48 + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            body(UnsafeBufferPointer(rebasing: digits[start..<20]))
        }
    }
}
