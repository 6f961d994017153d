import CNGHTTP2
import NIOCore

/// Event streams. nghttp2 writes their heads, and this extension writes their DATA frames by hand (RFC 9113 §6.1).
///
/// nghttp2 spends three quarters of a multiplexed push on finding the stream, scheduling it, and asking for more data. By hand a DATA frame
/// is nine bytes and a copy. In return the windows of these streams are counted here (RFC 9113 §5.2). The connection's window is the count
/// of nghttp2 less ``HTTP2Session/bytesByHand``.
extension HTTP2Session {
    private static let windowMax = Int(Int32.max)

    /// Answers a request with the head of an event stream, which stays open.
    func openEvents(_ slot: Int, _ headers: UnsafeBufferPointer<nghttp2_nv>) {
        guard streams[slot].beginEvents() else { return }
        releaseEventStream()
        hasFrames = true
        streams[slot].window =
            Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number)) + initialWindow - passedInitialWindow
        nghttp2_submit_headers(
            raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, nil, headers.baseAddress, headers.count, nil)
    }

    /// Whether an event stream is open for the application.
    var hasEventStreams: Bool { streams.indices.contains { streams[$0].number != 0 && streams[$0].hasReader } }

    /// Queues a payload of an event stream. Returns the queued bytes of the stream.
    func push(_ payload: ByteBuffer, to slot: Int) -> Int {
        let (queuedBytes, becameReady) = streams[slot].push(payload)
        if becameReady { streams.ready.append(slot) }
        return queuedBytes
    }

    /// Ends an event stream after its queue.
    func finish(_ slot: Int) {
        streams[slot].finishEvents()
        guard streams[slot].isEventStream else { return }
        setReady(slot)
    }

    /// Puts the slot into the list of ready streams.
    func setReady(_ slot: Int) {
        if streams[slot].becomesReady() { streams.ready.append(slot) }
    }

    /// Appends DATA frames of the ready event streams. Returns false when `bytesMax` was reached and more is left.
    func sendEvents(bytesMax: Int) -> Bool {
        guard !streams.ready.isEmpty else { return true }
        // An access to a class property costs more than a small payload, so the loop works on local copies.
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

    /// Sends END_STREAM by hand, and closes the stream in nghttp2 by a RST_STREAM that is not sent.
    ///
    /// nghttp2 does not count the stream's window, so it might hold back END_STREAM.
    private func end(_ slot: Int) {
        streams[slot].writeEnd(into: &outgoing)
        if streams[slot].isRequestComplete { endedByHand.append(streams[slot].number) }
        reset(slot, error: UInt32(NGHTTP2_NO_ERROR.rawValue))
    }

    /// Takes a SETTINGS frame. Returns false when the connection cannot go on.
    ///
    /// A new initial window changes the windows of open streams by the difference (RFC 9113 §6.9.2). A window that becomes too large is an
    /// error of the connection, where nghttp2 would only reset the stream.
    func receive(settings frame: UnsafeRawBufferPointer) -> Bool {
        var frame = Array(frame)
        var changed = initialWindow
        // nghttp2 counts this much less for ordinary streams, because it got a smaller value than the peer sent: see below.
        let withheld = initialWindow - passedInitialWindow
        for entry in stride(from: 9, to: frame.count, by: 6) {
            let (name, value) = frame.withUnsafeBytes { frame in
                (
                    frame.loadUnaligned(fromByteOffset: entry, as: UInt16.self).bigEndian,
                    Int(frame.loadUnaligned(fromByteOffset: entry + 2, as: UInt32.self).bigEndian)
                )
            }
            guard name == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue, value <= Self.windowMax else { continue }
            guard countNewWindow() else { return false }
            changed = value
            var passed = value
            for slot in streams.indices where streams[slot].number != 0 && !streams[slot].isClosed {
                let counted = Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number))
                let window = streams[slot].isEventStream ? streams[slot].window : counted + withheld
                if window + value - initialWindow > Self.windowMax {
                    fault = .flowControl
                    return false
                }
                // nghttp2 does not count DATA of event streams. Above this value it would take their windows for too large, and reset them.
                passed = min(passed, Self.windowMax - counted + passedInitialWindow)
            }
            withUnsafeBytes(of: UInt32(passed).bigEndian) { frame.replaceSubrange(entry + 2..<entry + 6, with: $0) }
        }
        guard frame.withUnsafeBytes({ pass($0) }) else { return false }
        for slot in streams.indices where streams[slot].isEventStream {
            streams[slot].window += changed - initialWindow
            if streams[slot].queuedBytes > 0 { setReady(slot) }
        }
        initialWindow = changed
        return true
    }

    /// The value of ``initialWindow`` that nghttp2 got.
    private var passedInitialWindow: Int { Int(nghttp2_session_get_remote_settings(raw, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)) }

    /// Takes a WINDOW_UPDATE. Returns false when the connection cannot go on.
    ///
    /// Updates of event streams stay here. Of an update of the connection, nghttp2 gets the part beyond ``bytesByHand``.
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

    /// The size of a header list that takes as long as a WINDOW_UPDATE and the DATA frame that it allows: some two microseconds.
    ///
    /// Such frames and header lists have one share of the loop's time, because a peer can let thousands of answers drip byte by byte.
    static var updateBytes: Int { 3 << 10 }

    private func pass(_ update: IncomingFrames.Update) -> Bool {
        sharedLimits.decodedBytes += Self.updateBytes
        let words = [UInt32(4 << 8 | 8).bigEndian, UInt32(update.number).bigEndian, UInt32(update.increment).bigEndian]
        var frame: [UInt8] = []
        for (index, word) in words.enumerated() {
            withUnsafeBytes(of: word) { frame.append(contentsOf: $0) }
            if index == 0 { frame.append(0) }
        }
        return frame.withUnsafeBytes { pass($0) }
    }
}
