import NIOCore

/// The limits of a connection, and the behavior at each of them.
///
/// libnghttp2 1.52 enforces none of the first five.
public struct HTTPLimits: Sendable, Equatable {
    /// The longest request body. A longer one is answered with 413. Default 1 MiB.
    public var bodyBytesMax = 1 << 20
    /// The most body bytes of a connection's requests that the application does not have yet. A stream beyond it is reset. Default 4 MiB.
    ///
    /// With the heads, the requests may take twice as much.
    public var bufferedBytesMax = 4 << 20
    /// The most header fields of a request. More are answered with 431. Default 100.
    public var headersCountMax = 100
    /// The largest header list of a request (RFC 9113 §6.5.2). A larger one is answered with 431. Default 16 KiB.
    ///
    /// The size is that of all names and values, and 32 bytes for each field. An HTTP/2 connection ends at four times this or
    /// ``headersCountMax``, because one byte on the wire can stand for 4 KB (CVE-2016-6581).
    public var headerBytesMax = 16 << 10
    /// The most requests with too large a header within ten seconds. An HTTP/2 connection with more is ended. Default 8.
    public var largeHeadersMax = 8
    /// The most open streams of a connection, sent as SETTINGS_MAX_CONCURRENT_STREAMS. One more is refused. Default 1,000.
    public var streamsMax = 1_000
    /// The time from the first byte of a header to its last. A connection that takes longer is closed. Default 10 s.
    ///
    /// For the first request the time begins with the connection. For HTTP/2 the limit also applies to every frame other than DATA.
    public var headerTimeout = TimeAmount.seconds(10)
    /// The time for a request's body. After it HTTP/1.1 answers with 408, and HTTP/2 resets the stream. Default 30 s.
    public var bodyTimeout = TimeAmount.seconds(30)
    /// The most streams within ten seconds that the peer resets, or that are reset by its fault. Default 2,000.
    ///
    /// A connection with more is ended (CVE-2023-44487, CVE-2025-8671). A new initial window counts as a reset for each two open streams,
    /// because it changes the window of each stream.
    public var resetsMax = 2_000
    /// The time that the requests of one HTTP/2 connection may take in a turn of the event loop. Default 1 ms, a hundred ordinary requests.
    public var turnTime = TimeAmount.milliseconds(1)
    /// The most frames in nghttp2's queue, beyond four for each of ``streamsMax``. Default 1,000.
    ///
    /// A peer that provokes more and does not read them is cut off (CVE-2019-9512 and similar).
    public var waitingFramesMax = 1_000
    /// The time for which a connection without open streams may be silent, and that a request with its answer may take. Default 5 min.
    ///
    /// After it the connection is closed, or the stream is reset.
    public var idleTimeout = TimeAmount.minutes(5)
    /// The bytes that one write may give to the socket. The rest stays in the streams' queues. Default 64 KiB.
    public var unsentBytesTarget = 64 << 10
    /// The queued bytes above which an event stream counts as full. Below a quarter of it the stream counts as drained. Default 64 KiB.
    public var streamQueueBytesMax = 64 << 10
    /// The most bytes of answers that wait on an HTTP/2 connection. With more, further requests wait too. Default 1 MiB.
    ///
    /// While ``heldBytesMax`` is half used, a sixteenth of it applies.
    public var waitingBytesMax = 1 << 20
    /// The most bytes that the connections of an event loop may hold together. Default 16 MiB.
    ///
    /// - An ordinary HTTP/2 stream counts 512 bytes, its request until it begins, and its answer until all of it is sent.
    /// - An event stream does not count, and neither do unsent bytes of a connection that has one.
    /// - An HTTP/1.1 request counts until it begins. Its answer counts once 4 KiB of answers are unsent, and until all of it is sent.
    /// - Bytes that wait for the socket of an HTTP/2 connection count once 16 KiB were sent.
    ///
    /// Beyond the limit, unread answers are ended if they hold half of the bytes, the oldest first: see ``HTTPLoop/endUnreadAnswers()``.
    /// Otherwise the connection that holds most is ended, with 503 when it holds part of an HTTP/1.1 request.
    public var heldBytesMax = 16 << 20
    /// The bytes of large answers, of half a megabyte and more, for which an event loop has time in a second. Default 256 MiB.
    ///
    /// They take some half of its time. Requests that may have such answers wait: see ``LargeAnswerTurns``.
    public var largeAnswerBytesPerSecond = 256 << 20
    /// The time for which answers may wait while no byte of them is sent. Then the connection is closed. Default 10 s.
    ///
    /// It is also the time in which an HTTP/2 peer that has sent FIN must get its last answers.
    public var stallTimeout = TimeAmount.seconds(10)

    public init() {}
}
