import NIOCore

/// The limits of an HTTP/1.1 connection that no setting changes.
extension HTTP1ServerConnection {
    /// The most bytes that are read before other connections have their turn: some eighty requests.
    static let readBytesMax = 16 << 10
    /// The size of a few requests without a body.
    static let littleBytes = 1 << 10
    /// The most unprocessed bytes beyond one request: more than one read and the rest of the read before.
    static let unworkedBytesMax = 3 * readBytesMax
    /// The most requests that begin before other connections have their turn.
    static let requestsPerTurnMax = 16
    /// The most bytes that are dropped after the last answer. Reading them lets the answer reach a peer that still sends (RFC 9112 §9.6).
    static let discardedBytesMax = 1 << 20
    /// The time in which a peer with its last answer must close.
    static let lingeringTime = TimeAmount.seconds(1)
}
