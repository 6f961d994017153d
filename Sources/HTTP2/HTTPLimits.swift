import NIOCore

/// The bounds on what one connection may ask for; each has an answer (design §7: libnghttp2 1.52 enforces none of the first five).
public struct HTTPLimits: Sendable, Equatable {
    /// Longest request body; a longer one is answered 413. Default 1 MiB.
    public var bodyBytesMax = 1 << 20
    /// All the requests of a connection that are not whole or not begun, with the bodies alone; the stream that goes beyond it is reset. With the
    /// heads it may be twice as much. Default 4 MiB.
    public var bufferedBytesMax = 4 << 20
    /// Most header fields of a request; more are answered 431. Default 100.
    public var headersCountMax = 100
    /// Names and values of a request's header fields together, counted with 32 bytes each (RFC 9113 §6.5.2); more is answered 431. Default 16 KiB.
    ///
    /// At four times this or ``headersCountMax`` an HTTP/2 connection is ended, because one byte on the wire can stand for 4 KB (CVE-2016-6581).
    public var headerBytesMax = 16 << 10
    /// Requests with too large a header that an HTTP/2 connection may send within ten seconds before it is ended. Default 8.
    public var largeHeadersMax = 8
    /// Streams open at once on a connection, told as SETTINGS_MAX_CONCURRENT_STREAMS; one more is refused. Default 1,000.
    public var streamsMax = 1_000
    /// How long a connection may take until its first request's header is whole, and each header from its first byte; with HTTP/2 any frame
    /// other than DATA, too. Default 10 s; then it is closed.
    public var headerTimeout = TimeAmount.seconds(10)
    /// How long a request's body may take. Default 30 s; then 408, or a reset stream.
    public var bodyTimeout = TimeAmount.seconds(30)
    /// Streams that the peer may reset, or have this side reset for breaking the protocol, within ten seconds before the connection is ended
    /// (CVE-2023-44487, CVE-2025-8671). Default 2,000.
    public var resetsMax = 2_000
    /// Frames that nghttp2 may have waiting for a peer that provokes them and does not read, beyond four for each of ``streamsMax``; then the
    /// connection is ended (CVE-2019-9512 and its kin). Default 1,000.
    public var waitingFramesMax = 1_000
    /// How long a connection may be silent on which nothing is open, and how long a request and its answer may take together; then it is
    /// closed, or the stream reset. Default 5 min.
    public var idleTimeout = TimeAmount.minutes(5)
    /// Bytes handed to a socket that does not take them; beyond it nothing more is pulled from the streams' queues. Default 64 KiB.
    public var unsentBytesTarget = 64 << 10
    /// Queued bytes of one event stream from which on it counts as full, and below a quarter of which it counts as drained. Default 64 KiB.
    public var streamQueueBytesMax = 64 << 10

    /// Bytes of answers that may wait on an HTTP/2 connection because its peer does not take them; beyond it no further request is begun there.
    /// Default 1 MiB. A sixteenth of it while ``heldBytesMax`` is half used.
    public var waitingBytesMax = 1 << 20
    /// Bytes that the streams of all HTTP/2 connections of an event loop may take together, event streams aside: 512 for each, its request until
    /// it is begun, and its answer until it has gone out. Requests on HTTP/1.1 count until they are begun, and their answers once there are 4 KiB
    /// that have not gone out. Then the connection that holds most is ended, after 503 where that is part of a request on HTTP/1.1. Default 16 MiB.
    public var heldBytesMax = 16 << 20
    /// How long answers may wait on a connection without a byte of any going out, before it is closed; and how long a peer that has sent FIN over
    /// HTTP/2 may wait for its last answers. Default 10 s.
    public var stallTimeout = TimeAmount.seconds(10)

    public init() {}
}
