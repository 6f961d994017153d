/// Why an event stream is over.
public enum StreamEnd: Sendable {
    /// The peer reset it, or its connection is gone.
    case peerLeft
    /// This side finished it.
    case finished
}

/// What serves requests: one for each event loop; its methods are called on that loop only, and none is called from inside another
/// connection's call.
public protocol HTTPServerDelegate: AnyObject {
    /// A whole request is here. Answer it now or later with ``HTTPServerConnection/respond(to:_:)`` or ``HTTPServerConnection/openEventStream(_:token:)``.
    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection)
    /// An event stream is over. Called exactly once for each that was opened.
    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd)
    /// An event stream that was full has room again.
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection)
    /// A connection is ready for requests.
    func connectionOpened(_ connection: HTTPServerConnection)
    /// A connection is gone; its event streams were closed before.
    func connectionClosed(_ connection: HTTPServerConnection)
    /// A peer broke a rule.
    func violated(_ violation: HTTPViolation)
}
