import CNGHTTP2
import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension HTTP2Stream.Field {
    /// The value of the field within the bytes of the head.
    func value(in head: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: head[Int(start)..<Int(end)])
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether the bytes equal `text`.
    public func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount, let baseAddress else { return count == text.utf8CodeUnitCount }
        return memcmp(text.utf8Start, baseAddress, count) == 0
    }

    /// Whether the bytes equal `other`.
    public func equals(_ other: [UInt8]) -> Bool {
        guard count == other.count, let baseAddress else { return count == other.count }
        return other.withUnsafeBytes { memcmp($0.baseAddress!, baseAddress, count) == 0 }
    }

    /// The bytes before the first `byte`; all bytes when there is none.
    public func prefix(before byte: UInt8) -> UnsafeBufferPointer {
        guard let baseAddress, let end = memchr(baseAddress, Int32(byte), count) else { return self }
        return UnsafeBufferPointer(start: baseAddress, count: UnsafeRawPointer(end) - UnsafeRawPointer(baseAddress))
    }
}

extension HTTP2Headers {
    /// Calls `body` with the head of an answer without an end, such as an event stream.
    ///
    /// - Parameters:
    ///   - origin: the page's origin that may read the stream; nil for none.
    ///   - isVaried: whether answers depend on the origin.
    ///   - id: the text of the request's ID.
    static func withStreamFields(
        _ contentType: HTTPResponse.ContentType, _ coding: ContentCoding, _ date: HTTPDate, _ origin: UnsafeBufferPointer<UInt8>?,
        isVaried: Bool, id: UnsafeBufferPointer<UInt8>,
        _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: 11) { fields in
            fields[0] = status(200)
            fields[1] = field("content-type", contentType.name)
            fields[2] = field("cache-control", "no-store, no-transform")
            // nginx then passes each event on at once.
            fields[3] = field("x-accel-buffering", "no")
            fields[4] = field(date)
            fields[5] = field(id)
            var count = 6
            append(coding, to: fields, &count)
            append(origin, isVaried: isVaried, to: fields, &count)
            body(UnsafeBufferPointer(rebasing: fields[..<count]))
        }
    }

    private static func append(_ coding: ContentCoding, to fields: UnsafeMutableBufferPointer<nghttp2_nv>, _ count: inout Int) {
        guard coding != .never else { return }
        fields[count] = field("vary", "Accept-Encoding")
        count += 1
        guard coding == .gzip else { return }
        fields[count] = field("content-encoding", "gzip")
        count += 1
    }

    /// Appends the fields by which a page of an allowed origin may read an answer, and by which caches keep answers apart.
    private static func append(
        _ origin: UnsafeBufferPointer<UInt8>?, isVaried: Bool, to fields: UnsafeMutableBufferPointer<nghttp2_nv>, _ count: inout Int
    ) {
        if isVaried || origin != nil {
            fields[count] = field("vary", "Origin")
            count += 1
        }
        guard let origin else { return }
        fields[count] = field("access-control-allow-origin", copying: origin)
        fields[count + 1] = field("access-control-expose-headers", "Retry-After, Request-ID")
        count += 2
    }

    /// Calls `body` with the fields of an answer, which are on the stack.
    ///
    /// - Parameters:
    ///   - origin: the page's origin that may read the answer; nil for none.
    ///   - isVaried: whether answers depend on the origin.
    ///   - id: the text of the request's ID.
    static func withFields(
        of answer: HTTPAnswerHead, _ date: HTTPDate, _ origin: UnsafeBufferPointer<UInt8>?, isVaried: Bool = false,
        id: UnsafeBufferPointer<UInt8>,
        _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        guard answer.fields.isEmpty else {
            // The values stand one after the other, so that one pointer is enough.
            return answer.fields.flatMap(\.value).withUnsafeBufferPointer { values in
                withFields(of: answer, values, date, origin, isVaried: isVaried, id, body)
            }
        }
        withFields(of: answer, UnsafeBufferPointer(start: nil, count: 0), date, origin, isVaried: isVaried, id, body)
    }

    private static func withFields(
        of answer: HTTPAnswerHead, _ values: UnsafeBufferPointer<UInt8>, _ date: HTTPDate, _ origin: UnsafeBufferPointer<UInt8>?,
        isVaried: Bool, _ id: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        withDecimal(answer.bodyBytesCount) { length in
            withDecimal(answer.retryAfter ?? 0) { seconds in
                withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: 21) { fields in
                    fields[0] = status(answer.status)
                    fields[1] = field(date)
                    fields[2] = field(id)
                    var count = 3
                    if answer.status != 204 {  // RFC 9110 §8.6
                        fields[3] = field("content-type", answer.contentType.name)
                        fields[4] = field("content-length", copying: length)
                        count = 5
                    }
                    append(answer.coding, to: fields, &count)
                    append(origin, isVaried: isVaried, to: fields, &count)
                    var start = 0
                    for extra in answer.fields {
                        fields[count] = field(extra.name, copying: UnsafeBufferPointer(rebasing: values[start..<start + extra.value.count]))
                        start += extra.value.count
                        count += 1
                    }
                    if answer.retryAfter != nil {
                        fields[count] = field("retry-after", copying: seconds)
                        count += 1
                    }
                    if let allow = answer.allow {
                        fields[count] = field("allow", allow)
                        count += 1
                    }
                    if answer.status == 401 {
                        fields[count] = field("www-authenticate", "Bearer")
                        count += 1
                    }
                    body(UnsafeBufferPointer(rebasing: fields[..<count]))
                }
            }
        }
    }

    /// The `date` field. Its bytes keep their address while the loop lives.
    private static func field(_ date: HTTPDate) -> nghttp2_nv {
        let name: StaticString = "date"
        return nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start), value: date.bytes.baseAddress, namelen: name.utf8CodeUnitCount,
            valuelen: HTTPDate.bytesCount, flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue))
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
