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
        guard streams[slot].beginEvents() else { return }
        becameEventStream()
        hasFrames = true
        streams[slot].window =
            Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number)) + initialWindow - toldInitialWindow
        nghttp2_submit_headers(
            raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, nil, headers.baseAddress, headers.count, nil)
    }

    /// Whether an event stream is open.
    var hasEventStreams: Bool { streams.indices.contains { streams[$0].number != 0 && streams[$0].hasReader } }

    /// Queues a payload. Returns the bytes that the stream has waiting.
    func push(_ payload: ByteBuffer, to slot: Int) -> Int {
        let (queuedBytes, becameReady) = streams[slot].push(payload)
        if becameReady { streams.ready.append(slot) }
        return queuedBytes
    }

    /// Ends an event stream after what is queued.
    func finish(_ slot: Int) {
        streams[slot].finishEvents()
        guard streams[slot].isEventStream else { return }
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

    /// Sends END_STREAM by hand, because nghttp2, which does not know what the stream's window has become, might not; then tells nghttp2 that the
    /// stream is over.
    private func end(_ slot: Int) {
        streams[slot].writeEnd(into: &outgoing)
        if streams[slot].isRequestComplete { endedByHand.append(streams[slot].number) }
        reset(slot, error: UInt32(NGHTTP2_NO_ERROR.rawValue))
    }

    /// Takes a SETTINGS frame. A new window for streams changes those that are open by as much (RFC 9113 §6.9.2); one that is too large for any of
    /// them is an error of the connection, where nghttp2 resets the stream.
    func receive(settings frame: UnsafeRawBufferPointer) -> Bool {
        var frame = Array(frame)
        var changed = initialWindow
        // nghttp2 takes the windows of ordinary streams for smaller by this, because it was told of less than the peer said: see below.
        let untold = initialWindow - toldInitialWindow
        for entry in stride(from: 9, to: frame.count, by: 6) {
            let (name, value) = frame.withUnsafeBytes { frame in
                (
                    frame.loadUnaligned(fromByteOffset: entry, as: UInt16.self).bigEndian,
                    Int(frame.loadUnaligned(fromByteOffset: entry + 2, as: UInt32.self).bigEndian)
                )
            }
            guard name == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue, value <= Self.windowMax else { continue }
            changed = value
            var told = value
            for slot in streams.indices where streams[slot].number != 0 && !streams[slot].isClosed {
                let known = Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number))
                let window = streams[slot].isEventStream ? streams[slot].window : known + untold
                if window + value - initialWindow > Self.windowMax {
                    fault = .flowControl
                    return false
                }
                // nghttp2 does not know what was sent on an event stream, takes its window for larger, and would reset it: it is told of less.
                told = min(told, Self.windowMax - known + toldInitialWindow)
            }
            withUnsafeBytes(of: UInt32(told).bigEndian) { frame.replaceSubrange(entry + 2..<entry + 6, with: $0) }
        }
        guard frame.withUnsafeBytes({ pass($0) }) else { return false }
        for slot in streams.indices where streams[slot].isEventStream {
            streams[slot].window += changed - initialWindow
            if streams[slot].queuedBytes > 0 { setReady(slot) }
        }
        initialWindow = changed
        return true
    }

    /// The value that nghttp2 has for ``initialWindow``.
    private var toldInitialWindow: Int { Int(nghttp2_session_get_remote_settings(raw, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)) }

    /// Takes a WINDOW_UPDATE: that of an event stream is ours, that of the connection is ours up to what was sent by hand.
    func receive(_ update: IncomingFrames.Update) -> Bool {
        guard update.increment > 0 else { return pass(update) }
        if update.number == 0 {
            let ours = min(update.increment, bytesByHand)
            bytesByHand -= ours
            resumeStarved()
            return ours == update.increment || pass(IncomingFrames.Update(number: 0, increment: update.increment - ours))
        }
        guard let slot = slot(ofNumber: update.number), streams[slot].isEventStream, !streams[slot].isClosed else { return pass(update) }
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
