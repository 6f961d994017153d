import CNGHTTP2
import NIOCore

/// The states of an HTTP/2 connection.
extension HTTP2ServerConnection {
    /// The way from the first byte to the last.
    enum Life {
        case open
        /// Something has happened after which the session may be over. The next flush looks.
        case perhapsOver
        /// The last bytes have been given to the channel, or it closes at once. Nothing more is received or sent.
        case closing
    }

    /// The time at which the peer gets GOAWAY.
    enum Leaving {
        /// Never.
        case no
        /// When a stream ends and no other is open.
        case afterStream
        /// As soon as no stream is open.
        case whenEmpty
    }
}

/// The limits of a turn.
extension HTTP2ServerConnection {
    /// The most requests that are processed before the time for header lists is checked.
    ///
    /// A header list of ``HTTPLimits/headerBytesMax`` can be some twenty bytes on the wire.
    static let headsAtOnceMax = 32
    /// The same when the time is used up.
    static let fewHeads = 8
    /// Bytes after which the channel's queue is counted again, in a flush and once a second. Counting takes a microsecond.
    static let uncountedBytesMax = (inFlush: 16 << 10, atSweep: 4 << 10)
}

extension HTTP2ServerConnection {
    /// Whether the bytes of answers that wait allow another request.
    var mayBegin: Bool {
        let limits = server.limits
        let isScarce = server.sharedLimits.heldBytes > limits.heldBytesMax / 2
        return session.waitingBytes <= (isScarce ? limits.waitingBytesMax / 16 : limits.waitingBytesMax)
    }

    /// Whether the loop has time to decode header lists of this connection. A trusted connection does not wait for others.
    func mayDecode(at now: NIODeadline) -> Bool { server.mayDecode(at: now) || session.sharedLimits !== server.sharedLimits }

    /// Whether the first request's header, or a later header block or frame, takes too long to arrive.
    func isHeaderLate(at now: NIODeadline) -> Bool {
        switch session.awaited {
        case .firstHead: now - openedAt > server.limits.headerTimeout
        case .nothing: false
        case .rest(let since): now - since > server.limits.headerTimeout
        }
    }

    /// Calls `body` with the head of an answer without a known end. Returns the coding of the answer.
    func withStreamFields(
        _ contentType: HTTPResponse.ContentType, _ slot: Int, _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) -> ContentCoding {
        let coding = contentType.streamCoding(accepted: session.streams[slot].accepted)
        let isVaried = server.origins.areAnswersVaried
        requestID(session.streams[slot].number).withText { id in
            server.origins.withValue(of: session.streams[slot].origin) { origin in
                HTTP2Headers.withStreamFields(contentType, coding, server.date, origin, isVaried: isVaried, id: id, body)
            }
        }
        return coding
    }
}
