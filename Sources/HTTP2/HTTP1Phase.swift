/// The life of an HTTP/1.1 connection.
enum HTTP1Phase {
    /// An event stream, which is the connection's last answer.
    struct EventStream {
        let token: UInt32
        /// The bytes of the stream in the channel's queue.
        var queuedBytes = 0
        /// The last report about the queue that the application got.
        var reader = Reader.hasRoom
    }

    /// The same as ``HTTP2Stream/Reader``. The end of an event stream ends the phase.
    enum Reader { case hasRoom, full }

    /// The way of the last answer.
    enum LastAnswer {
        /// It has been given to the channel.
        case written
        /// The socket has taken it.
        case sent
    }

    /// Between two requests, or within a head.
    case head
    /// Within a body.
    case body
    /// The application has a request, and has not answered it.
    case answering
    /// An event stream is open.
    case streaming(EventStream)
    /// The connection ends with its last answer. Further bytes of the peer are dropped, and counted.
    case closing(LastAnswer, discardedBytes: Int)
}

/// The processing of the bytes that an HTTP/1.1 connection has received.
///
/// | turn | method | next turn |
/// |---|---|---|
/// | `idle`, `heldBack`, `queued`, `released` | ``begin()`` | `working` |
/// | `working` | ``end()`` | `idle` |
/// | `idle`, `working` | ``hold()`` | `heldBack` |
/// | `released` | ``hold()`` | `queued` |
/// | any | ``queue()`` | `queued` |
/// | `heldBack` | ``release()`` | `idle` |
/// | `queued` | ``release()`` | `released` |
///
/// In every other turn the method changes nothing.
enum HTTP1Turn {
    /// The bytes are processed as far as they are complete.
    case idle
    /// The bytes are being processed.
    case working
    /// There may be complete requests. They wait for an answer, for its flush, or for room in the channel.
    case heldBack
    /// There may be complete requests. The loop continues with the connection after the others.
    case queued
    /// As `queued`, but the connection ends, and the loop will find no request.
    case released

    /// There may be complete requests that must wait.
    var isHeldBack: Bool { self == .heldBack || self == .queued }

    /// The loop continues with the connection after the others.
    var isQueued: Bool { self == .queued || self == .released }

    /// Begins to process. Returns false when the connection is processing already.
    mutating func begin() -> Bool {
        guard self != .working else { return false }
        self = .working
        return true
    }

    /// Records that the bytes are processed, unless some are held back.
    mutating func end() { if self == .working { self = .idle } }

    /// Holds bytes back.
    mutating func hold() {
        switch self {
        case .idle, .working: self = .heldBack
        case .released: self = .queued
        case .heldBack, .queued: break
        }
    }

    /// Records that the loop continues with the connection.
    mutating func queue() { self = .queued }

    /// Records that no request may begin any more.
    mutating func release() {
        switch self {
        case .heldBack: self = .idle
        case .queued: self = .released
        case .idle, .working, .released: break
        }
    }
}
