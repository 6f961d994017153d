import CNGHTTP2
import NIOCore

/// Event streams: their heads and ends are nghttp2's, their DATA frames are written by hand (RFC 9113 §6.1).
///
/// nghttp2 spends three quarters of a multiplexed push on finding the stream, scheduling it, and asking again whether there is more;
/// by hand it is nine bytes and a copy. The price is that the windows of these streams are counted here (RFC 9113 §5.2): the streams'
/// wholly, the connection's as nghttp2's count less ``HTTP2Session/bytesByHand``.
extension HTTP2Session {
    private static let windowMax = Int(Int32.max)

    /// Answers a request with the head of an event stream, which stays open.
    func openEvents(_ slot: Int, _ headers: UnsafeBufferPointer<nghttp2_nv>) {
        streams[slot].isAnswered = true
        streams[slot].isByHand = true
        becameEventStream()
        hasFrames = true
        streams[slot].window = Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number))
        nghttp2_submit_headers(
            raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, nil, headers.baseAddress, headers.count, nil)
    }

    /// Whether an event stream is open.
    var hasEventStreams: Bool { streams.indices.contains { streams[$0].number != 0 && streams[$0].isEventStream } }

    /// Queues a payload. Returns the bytes that the stream has waiting.
    func push(_ payload: ByteBuffer, to slot: Int) -> Int {
        let (queuedBytes, becameReady) = streams[slot].push(payload)
        if becameReady { streams.ready.append(slot) }
        return queuedBytes
    }

    /// Ends an event stream after what is queued.
    func finish(_ slot: Int) {
        streams[slot].isFinished = true
        setReady(slot)
    }

    /// Has the stream's queue sent in its turn.
    func setReady(_ slot: Int) {
        if streams[slot].becomesReady() { streams.ready.append(slot) }
    }

    /// Appends DATA frames of event streams. Returns false when `bytesMax` was reached and more is left.
    func sendEvents(bytesMax: Int) -> Bool {
        guard !streams.ready.isEmpty else { return true }
        // Each class property that is touched costs more than a small payload: what the loop needs is taken out.
        var (buffer, left) = (ByteBuffer(), window)
        swap(&buffer, &outgoing)
        var (done, hasMore) = (0, false)
        var ended: [Int] = []
        for slot in streams.ready {
            hasMore = buffer.readableBytes >= bytesMax
            if hasMore { break }
            let outcome = streams[slot].sendEvents(within: &left, into: &buffer)
            if outcome == .starved { break }
            if outcome == .ended { ended.append(slot) }
            done += 1
        }
        swap(&buffer, &outgoing)
        bytesByHand += window - left
        window = left
        streams.ready.removeFirst(done)
        for slot in ended { end(slot) }
        return !hasMore
    }

    /// Sends END_STREAM by way of nghttp2, so that it knows. To one that began the stream with a window of 0 nghttp2, which does not know what
    /// the window has become since, would send nothing: by hand then, and it is told that the stream is over.
    private func end(_ slot: Int) {
        guard nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number) > 0 else {
            streams[slot].writeEnd(into: &outgoing)
            return reset(slot, error: UInt32(NGHTTP2_NO_ERROR.rawValue))
        }
        var provider = cnghttp2_provider(Int32(slot), HTTP2Callbacks.read)
        nghttp2_submit_data(raw, UInt8(NGHTTP2_FLAG_END_STREAM.rawValue), streams[slot].number, &provider)
        hasFrames = true
    }

    /// Takes a WINDOW_UPDATE: that of an event stream is ours, that of the connection is ours up to what was sent by hand.
    func receive(_ update: IncomingFrames.Update) -> Bool {
        guard update.increment > 0 else { return pass(update) }
        if update.number == 0 {
            let ours = min(update.increment, bytesByHand)
            bytesByHand -= ours
            resumeStarved()
            return ours == update.increment || pass(IncomingFrames.Update(number: 0, increment: update.increment - ours))
        }
        guard let slot = slot(ofNumber: update.number), streams[slot].isByHand, !streams[slot].isOver else { return pass(update) }
        streams[slot].window += update.increment
        if streams[slot].window > Self.windowMax {
            reset(slot, error: UInt32(NGHTTP2_FLOW_CONTROL_ERROR.rawValue), isPeersFault: true)
        } else if streams[slot].queuedBytes > 0 {
            setReady(slot)
        }
        return true
    }

    private func pass(_ update: IncomingFrames.Update) -> Bool {
        let words = [UInt32(4 << 8 | 8).bigEndian, UInt32(update.number).bigEndian, UInt32(update.increment).bigEndian]
        var frame: [UInt8] = []
        for (place, word) in words.enumerated() {
            withUnsafeBytes(of: word) { frame.append(contentsOf: $0) }
            if place == 0 { frame.append(0) }
        }
        return frame.withUnsafeBytes { pass($0) }
    }
}
