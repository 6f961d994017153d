/// A request. Its bytes are valid only inside ``HTTPServerDelegate/requestReceived(_:on:)``.
public struct HTTPRequest {
    /// The method.
    public enum Method: Sendable { case get, post, other }

    public let stream: StreamID
    public let method: Method
    /// Path and query.
    public let target: UnsafeBufferPointer<UInt8>
    /// The value of `authorization`, empty when there is none.
    public let authorization: UnsafeBufferPointer<UInt8>
    /// The value of `last-event-id`, empty when there is none.
    public let lastEventID: UnsafeBufferPointer<UInt8>
    public let body: UnsafeBufferPointer<UInt8>
    /// A limit that the request broke; it is to be answered with this status.
    public let refusedStatus: Int?
    /// Says what was wrong and what would be right, where ``refusedStatus`` does not say it.
    public var refusedReason: StaticString?
}
