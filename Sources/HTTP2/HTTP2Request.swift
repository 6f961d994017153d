import CNGHTTP2
import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension HTTP2Stream.Field {
    /// The value among the bytes of the head.
    func value(in head: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: head[Int(start)..<Int(end)])
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether the bytes are those of `text`.
    func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount, let baseAddress else { return count == text.utf8CodeUnitCount }
        return memcmp(text.utf8Start, baseAddress, count) == 0
    }

    /// Whether the bytes are those of `other`.
    public func equals(_ other: [UInt8]) -> Bool {
        guard count == other.count, let baseAddress else { return count == other.count }
        return other.withUnsafeBytes { memcmp($0.baseAddress!, baseAddress, count) == 0 }
    }

    /// The bytes before the first `byte`; all of them where there is none.
    public func prefix(before byte: UInt8) -> UnsafeBufferPointer {
        guard let baseAddress, let end = memchr(baseAddress, Int32(byte), count) else { return self }
        return UnsafeBufferPointer(start: baseAddress, count: UnsafeRawPointer(end) - UnsafeRawPointer(baseAddress))
    }
}

extension HTTP2Headers {
    /// Calls `body` with the head of an event stream.
    static func withEventStreamFields(_ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void) {
        withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: 3) { fields in
            fields[0] = status(200)
            fields[1] = field("content-type", "text/event-stream")
            fields[2] = field("cache-control", "no-store")
            body(UnsafeBufferPointer(fields))
        }
    }

    /// Calls `body` with the fields of an answer; they live on the stack meanwhile.
    static func withFields(of answer: HTTPAnswerHead, _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void) {
        withDecimal(answer.bodyBytesCount) { length in
            withDecimal(answer.retryAfter ?? 0) { seconds in
                withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: 5) { fields in
                    fields[0] = status(answer.status)
                    fields[1] = field("content-type", answer.contentType.name)
                    fields[2] = field("content-length", copying: length)
                    var count = 3
                    if answer.retryAfter != nil {
                        fields[count] = field("retry-after", copying: seconds)
                        count += 1
                    }
                    if let allow = answer.allow {
                        fields[count] = field("allow", allow)
                        count += 1
                    }
                    body(UnsafeBufferPointer(rebasing: fields[..<count]))
                }
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
