import CNGHTTP2
import NIOCore

/// Event streams: their heads and ends are nghttp2's, their DATA frames are written by hand (RFC 9113 §6.1).
///
/// nghttp2 spends three quarters of a multiplexed push on finding the stream, scheduling it, and asking again whether there is more;
/// by hand it is nine bytes and a copy. The price is that the windows of these streams are counted here (RFC 9113 §5.2): the streams'
/// wholly, the connection's as nghttp2's count less ``HTTP2Session/bytesByHand``.
extension HTTP2Session {
    private static let frameBytesMax = 16_384
    private static let windowMax = Int(Int32.max)

    /// Answers a request with the head of an event stream, which stays open.
    func openEvents(_ slot: Int, _ headers: UnsafeBufferPointer<nghttp2_nv>) {
        streams[slot].isAnswered = true
        streams[slot].isByHand = true
        hasFrames = true
        streams[slot].window = Int(nghttp2_session_get_stream_remote_window_size(raw, streams[slot].number))
        nghttp2_submit_headers(
            raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, nil, headers.baseAddress, headers.count, nil)
    }

    /// Queues a payload. Returns the bytes that the stream has waiting.
    func push(_ payload: ByteBuffer, to slot: Int) -> Int {
        streams[slot].append(payload)
        setReady(slot)
        return streams[slot].queuedBytes
    }

    /// Ends an event stream after what is queued.
    func finish(_ slot: Int) {
        streams[slot].isFinished = true
        setReady(slot)
    }

    /// Has the stream's queue sent in its turn.
    func setReady(_ slot: Int) {
        guard !streams[slot].isReady else { return }
        streams[slot].isReady = true
        ready.append(slot)
    }

    /// Appends DATA frames of event streams. Returns false when `bytesMax` was reached and more is left.
    func sendEvents(bytesMax: Int) -> Bool {
        guard !ready.isEmpty else { return true }
        var done = 0
        defer { ready.removeFirst(done) }
        while done < ready.count {
            let slot = ready[done]
            guard outgoing.readableBytes < bytesMax else { return false }
            guard sendEvents(of: slot) else { return true }
            streams[slot].isReady = false
            done += 1
        }
        return true
    }

    /// Appends what the stream has queued, as far as its window allows. Returns false when the connection's window is used up.
    private func sendEvents(of slot: Int) -> Bool {
        guard streams[slot].isByHand, !streams[slot].isOver else { return true }
        while streams[slot].queuedBytes > 0, streams[slot].window > 0 {
            let count = min(streams[slot].queuedBytes, Self.frameBytesMax, streams[slot].window, window)
            guard count > 0 else { return false }
            writeDataHeader(streams[slot].number, bytesCount: count)
            streams[slot].take(count, into: &outgoing)
            streams[slot].window -= count
            window -= count
            bytesByHand += count
        }
        if streams[slot].isFinished, streams[slot].queuedBytes == 0 { end(slot) }
        return true
    }

    private func writeDataHeader(_ number: Int32, bytesCount: Int) {
        outgoing.writeWithUnsafeMutableBytes(minimumWritableBytes: 9) { header in
            header.storeBytes(of: UInt32(bytesCount << 8).bigEndian, as: UInt32.self)  // 24 bits of length, then type 0: DATA
            header.storeBytes(of: 0, toByteOffset: 4, as: UInt8.self)
            header.storeBytes(of: UInt32(number).bigEndian, toByteOffset: 5, as: UInt32.self)
            return 9
        }
    }

    /// Sends END_STREAM by way of nghttp2, so that it knows.
    private func end(_ slot: Int) {
        var provider = cnghttp2_provider(Int32(slot), HTTP2Callbacks.read)
        nghttp2_submit_data(raw, UInt8(NGHTTP2_FLAG_END_STREAM.rawValue), streams[slot].number, &provider)
        hasFrames = true
    }

    /// Takes a WINDOW_UPDATE: that of an event stream is ours, that of the connection is ours up to what was sent by hand.
    func receive(_ update: WindowUpdates.Update) -> Bool {
        guard update.increment > 0 else { return pass(update) }
        if update.number == 0 {
            let ours = min(update.increment, bytesByHand)
            bytesByHand -= ours
            resumeStarved()
            return ours == update.increment || pass(WindowUpdates.Update(number: 0, increment: update.increment - ours))
        }
        guard let slot = slot(ofNumber: update.number), streams[slot].isByHand, !streams[slot].isOver else { return pass(update) }
        streams[slot].window += update.increment
        if streams[slot].window > Self.windowMax {
            reset(slot, error: UInt32(NGHTTP2_FLOW_CONTROL_ERROR.rawValue))
        } else if streams[slot].queuedBytes > 0 {
            setReady(slot)
        }
        return true
    }

    private func pass(_ update: WindowUpdates.Update) -> Bool {
        let words = [UInt32(4 << 8 | 8).bigEndian, UInt32(update.number).bigEndian, UInt32(update.increment).bigEndian]
        var frame: [UInt8] = []
        for (place, word) in words.enumerated() {
            withUnsafeBytes(of: word) { frame.append(contentsOf: $0) }
            if place == 0 { frame.append(0) }
        }
        return frame.withUnsafeBytes { pass($0) }
    }
}
