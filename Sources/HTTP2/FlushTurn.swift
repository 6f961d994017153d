/// The way to the next flush of an HTTP/2 connection, of a server or a client.
enum FlushTurn {
    /// Nothing has asked for a flush.
    case none
    /// The connection is in its loop's list, and is flushed at the end of the turn.
    case listed
    /// Bytes are being received. The flush follows the last of them.
    case afterRead
}
