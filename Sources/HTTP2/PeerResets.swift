/// The streams of a session that its peer has reset, or that were reset by its fault.
struct PeerResets {
    /// The resets since the last ``take()``.
    private(set) var count = 0
    /// The stream that the peer has reset last.
    private var lastNumber: Int32 = 0

    /// Counts a RST_STREAM of the peer.
    mutating func received(_ number: Int32) {
        count += 1
        lastNumber = number
    }

    /// Counts a stream that is closed with an error, unless its reset is counted, or this side has reset it for its own reasons.
    mutating func closed(_ number: Int32, error: UInt32, wasResetHere: Bool) {
        if error != 0, number != lastNumber, !wasResetHere { count += 1 }
    }

    /// Counts a header block of a refused stream as resets: one, and one for each 128 bytes.
    ///
    /// nghttp2 decodes such a block although it brings no request.
    mutating func countUseless(headBytes: Int) { count += 1 + headBytes >> 7 }

    /// Counts a new initial window as resets, one for two open streams: it changes the window of each stream, and may have a DATA frame
    /// written for each. For a thousand streams that takes two milliseconds.
    mutating func countNewWindow(openCount: Int) { count += openCount >> 1 }

    /// Returns the resets since the last call.
    mutating func take() -> Int {
        defer { count = 0 }
        return count
    }
}
