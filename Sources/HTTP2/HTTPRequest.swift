/// A request. Its bytes are valid only inside ``HTTPServerDelegate/requestReceived(_:on:)``.
public struct HTTPRequest {
    /// The methods that the application tells apart.
    public enum Method: Sendable {
        case get, head, post, options, other

        /// Whether the answer is that to GET. To HEAD it is sent without its body.
        public var isRead: Bool { self == .get || self == .head }
    }

    /// Whether a page of the request's origin may read the answer.
    public enum Origin: Sendable {
        /// The request has no `Origin` field.
        case absent
        case refused, allowed
    }

    public let stream: StreamID
    public let method: Method
    /// The path and the query.
    public let target: UnsafeBufferPointer<UInt8>
    /// The value of the field `authorization`; empty when there is none.
    public let authorization: UnsafeBufferPointer<UInt8>
    /// The value of the field `last-event-id`; empty when there is none.
    public let lastEventID: UnsafeBufferPointer<UInt8>
    /// The value of the field `idempotency-key`, which may be empty; nil when there is none.
    public let idempotencyKey: UnsafeBufferPointer<UInt8>?
    public let body: UnsafeBufferPointer<UInt8>
    /// The web page that has sent the request.
    public let origin: Origin
    /// The status with which a request that has broken a limit must be answered.
    public let refusedStatus: Int?
    /// The value of the field `traceparent`; empty when there is none, or more than one.
    public var traceparent = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    /// The mistake and the correct form, for a refused request.
    public var refusedReason: StaticString?
}
