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
