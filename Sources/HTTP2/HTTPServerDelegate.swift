/// The reason for which an event stream has ended.
public enum StreamEnd: Sendable {
    /// The peer has reset the stream, or its connection is closed.
    case peerLeft
    /// This side has finished the stream.
    case finished
}

/// The application of one event loop, which answers its requests.
///
/// The methods are called on that loop only, and never from inside a call of another connection.
public protocol HTTPServerDelegate: AnyObject {
    /// A request is complete, or was refused for a limit.
    ///
    /// Answer it now or later with ``HTTPServerConnection/respond(to:_:)`` or ``HTTPServerConnection/openEventStream(_:token:)``.
    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection)
    /// Whether the answer to a request may have ``RequestTurn/pacedBytes``. Such requests begin in turns.
    ///
    /// - Parameter target: the path, and the query if there is one.
    func mayHaveLargeAnswer(_ target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool
    /// An event stream has ended. Called exactly once for each opened event stream.
    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd)
    /// An event stream that was full has room again.
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection)
    /// A connection is ready for requests.
    func connectionOpened(_ connection: HTTPServerConnection)
    /// A connection is closed. Its event streams were closed before.
    func connectionClosed(_ connection: HTTPServerConnection)
    /// A peer has broken a rule.
    func violated(_ violation: HTTPViolation)
}

extension HTTPServerDelegate {
    public func mayHaveLargeAnswer(_ target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool { false }
}
