import CNGHTTP2
import NIOCore

/// One end of an HTTP/2 connection as a machine over libnghttp2: bytes in, events out; then bytes out. No socket, no clock.
///
/// nghttp2's callbacks only record; nobody calls nghttp2 or the application from inside one (design §7). The order of use:
/// ``receive(_:at:)``, take ``events``, answer, ``send(into:)``.
final class HTTP2Session {
    enum Role { case server, client }

    /// What the peer did, in order. `slot` is a place in ``streams``.
    enum Event {
        /// A request's head and body are here, or too large to be.
        case request(slot: Int)
        /// A response's head is here.
        case head(slot: Int)
        /// Part of a response's body. Valid until the next ``receive(_:at:)``.
        case data(slot: Int, UnsafeRawBufferPointer)
        /// The stream is over; the place is free once this event is taken. 0 is a clean end.
        case closed(slot: Int, number: Int32, error: UInt32)
        /// More bodies are on their way than the connection may buffer; the stream is to be reset.
        case overflow(slot: Int)
        /// The peer's settings are here.
        case settings
        case goAway
    }

    let role: Role
    /// Shared by all the connections of a loop: a copy in each session would cost it a hundred bytes.
    var sharedLimits: SharedLimits
    private var events: [Event] = []
    private var taken: [Event] = []
    let streams = HTTP2StreamTable()
    /// Where the stream of the last callback stands: they come in runs.
    private var lastSlot = 0
    private var free: [Int] = []
    /// Streams that are open.
    private(set) var openCount = 0
    /// Bytes of requests that the application has not taken.
    private(set) var bufferedBytes = 0
    /// Bytes of answers that have not gone out.
    private(set) var waitingBytes = 0
    /// Bytes that the ordinary streams take, counted in ``SharedLimits/heldBytes`` too.
    private(set) var heldBytes = 0
    /// Streams that the peer has reset, or had nghttp2 reset, since the last ``takeResets()``.
    private var resetsCount = 0
    /// The stream that the peer has reset last.
    private var resetByPeer: Int32 = 0
    // Small fields stand side by side, because each connection pays for the gaps between them.
    private(set) var isGoingAway = false
    /// The head of a request was whole.
    private(set) var hasHead = false
    /// Part of an answer has gone out since ``takeProgress()``.
    private var hasProgress = false
    private(set) var hasSaidGoAway = false
    /// Which stream is the last one is found out when that is sent: nghttp2 cuts off later ones, which may have been taken meanwhile.
    private var mustSayLast = false
    private(set) var raw: OpaquePointer
    private let loan: FrameChunk.Loan
    /// Streams whose answer is out and whose request is not wanted any more.
    private var cut: [Int32] = []
    /// Answers that wait for the connection's window.
    private var starved: [Int] = []
    /// DATA bytes written by hand, which nghttp2's window of the connection does not know of.
    var bytesByHand = 0
    /// What the connection's window allows.
    var window = 0
    /// nghttp2 may have something to send. A push touches it only then: among thousands of connections its memory is never in the cache.
    var hasFrames = true
    private var incoming = IncomingFrames()
    /// When the header block or frame began that is not whole yet; ``NIODeadline/distantPast`` when there is none. Bodies do not count.
    private(set) var midwaySince = NIODeadline.distantPast
    /// Why the connection cannot go on.
    var fault: HTTP2Fault?
    /// The window that the peer's streams begin with.
    var initialWindow = 65_535
    /// Event streams whose END_STREAM was written by hand; nghttp2 is told by a RST_STREAM that nobody sees.
    var endedByHand: [Int32] = []
    /// Where `send(into:)` writes, and how much.
    var outgoing: ByteBuffer
    private var outgoingBytesMax = 0
    /// What a client begins with (RFC 9113 §3.4), until it is sent.
    var preface: [UInt8] = []
    private var now = NIODeadline.distantPast

    var limits: HTTPLimits { sharedLimits.limits }

    convenience init(_ role: Role, limits: HTTPLimits, chunk: FrameChunk) {
        self.init(role, limits: SharedLimits(limits), chunk: chunk)
    }

    init(_ role: Role, limits: SharedLimits, chunk: FrameChunk) {
        self.role = role
        sharedLimits = limits
        outgoing = ByteBuffer()
        loan = FrameChunk.Loan(chunk)
        var memory = loan.memory()
        var session: OpaquePointer?
        let status = Self.withOptions { options in
            switch role {
            case .server: nghttp2_session_server_new3(&session, HTTP2Callbacks.shared.raw, nil, options, &memory)
            case .client: nghttp2_session_client_new3(&session, HTTP2Callbacks.shared.raw, nil, options, &memory)
            }
        }
        precondition(status == 0, "nghttp2 made no session: \(String(cString: nghttp2_strerror(status)))")
        raw = session!
        nghttp2_session_set_user_data(raw, Unmanaged.passUnretained(self).toOpaque())
        if role == .client { takePreface() }
        submitSettings()
    }

    deinit {
        nghttp2_session_del(raw)
        streams.deallocate()
    }

    // MARK: Bytes

    /// Takes bytes from the peer. Returns false when the connection is beyond repair, for the reason in ``fault``.
    func receive(_ bytes: UnsafeRawBufferPointer, at now: NIODeadline) -> Bool {
        self.now = now
        hasFrames = true
        if role == .client { return pass(bytes) }
        var frames = IncomingFrames()
        swap(&frames, &incoming)
        frames.split(bytes, limits: limits) { part in
            switch part {
            case .bytes(let bytes): return pass(bytes)
            case .update(let update): return receive(update)
            case .settings(let frame): return receive(settings: frame)
            case .oldHead(let number, let payloadBytes):
                if slot(ofNumber: number) == nil { countUseless(headBytes: payloadBytes) }
                if resetsCount > limits.resetsMax { fault = .resetFlood }
                return fault == nil
            case .passedOver:
                fault = .protocolError
                return false
            case .blockTooLong:
                fault = .headerFlood
                return false
            }
        }
        let hasBegun = frames.takeBeginning()
        if !frames.isMidway {
            midwaySince = .distantPast
        } else if hasBegun || midwaySince == .distantPast {
            midwaySince = now
        }
        swap(&frames, &incoming)
        return fault == nil
    }

    /// Hands bytes to nghttp2. Returns false when the connection is beyond repair.
    func pass(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = nghttp2_session_mem_recv(raw, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        if count == bytes.count { return true }
        fault = fault ?? HTTP2Fault(status: count)
        return false
    }

    /// Counts a header block that no request comes of, which nghttp2 decodes all the same, as resets: one, and one for each 128 bytes.
    func countUseless(headBytes: Int) { resetsCount += 1 + headBytes >> 7 }

    /// Answers that waited for the connection's window may go on.
    func resumeStarved() {
        for slot in starved { resume(slot) }
        starved.removeAll(keepingCapacity: true)
    }

    /// Hands out what was recorded.
    func takeEvents(_ body: (Event) -> Void) {
        if events.isEmpty { return }
        swap(&events, &taken)
        for event in taken {
            body(event)
            if case .closed(let slot, let number, _) = event, streams[slot].number == number { release(slot) }
        }
        taken.removeAll(keepingCapacity: true)
    }

    /// Appends what is to be sent to `buffer`, until nothing is left or `buffer` holds `bytesMax`. Returns whether more is left.
    func send(into buffer: inout ByteBuffer, bytesMax: Int) -> Bool {
        swap(&outgoing, &buffer)
        defer { swap(&outgoing, &buffer) }
        if !preface.isEmpty {
            outgoing.writeBytes(preface)
            preface = []
        }
        repeat {
            guard !hasFrames || sendFrames(bytesMax: bytesMax), sendEvents(bytesMax: bytesMax) else { return true }
        } while hasFrames
        return false
    }

    /// Appends what nghttp2 has to send. Returns false when more is left.
    private func sendFrames(bytesMax: Int) -> Bool {
        if mustSayLast {
            mustSayLast = false
            let last = nghttp2_session_get_last_proc_stream_id(raw)
            nghttp2_submit_goaway(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, UInt32(NGHTTP2_NO_ERROR.rawValue), nil, 0)
        }
        window = Int(nghttp2_session_get_remote_window_size(raw)) - bytesByHand
        outgoingBytesMax = bytesMax
        while outgoing.readableBytes < bytesMax {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(raw, &bytes)
            guard count > 0 else {
                if outgoing.readableBytes >= bytesMax { return false }
                if cut.isEmpty {
                    hasFrames = false
                    return true
                }
                cutRest()
                continue
            }
            if !endedByHand.isEmpty, takeEnd(UnsafeRawBufferPointer(start: bytes, count: count)) { continue }
            outgoing.writeBytes(UnsafeBufferPointer(start: bytes, count: count))
        }
        return false
    }

    /// Resets streams whose answer is out and whose request is not whole (RFC 9113 §8.1).
    private func cutRest() {
        for number in cut {
            guard let slot = slot(ofNumber: number), !streams[slot].isRequestComplete else { continue }
            nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), number, UInt32(NGHTTP2_NO_ERROR.rawValue))
        }
        cut.removeAll()
    }

    /// Whether a frame is the RST_STREAM of a stream that was ended by hand; that is not to be sent (RFC 9113 §5.1).
    private func takeEnd(_ frame: UnsafeRawBufferPointer) -> Bool {
        guard frame[3] == NGHTTP2_RST_STREAM.rawValue else { return false }
        let number = Int32(bitPattern: frame.loadUnaligned(fromByteOffset: 5, as: UInt32.self).bigEndian)
        guard let place = endedByHand.firstIndex(of: number) else { return false }
        endedByHand.remove(at: place)
        return true
    }

    /// The connection has nothing more to say or to hear.
    var isOver: Bool { nghttp2_session_want_read(raw) == 0 && nghttp2_session_want_write(raw) == 0 }

    /// It is over because nghttp2 found that the peer broke the protocol.
    var isBroken: Bool { isOver && !isGoingAway && !hasSaidGoAway }

    // MARK: What the application does

    /// The stream, if `id` still means it.
    func slot(of id: StreamID) -> Int? {
        let slot = Int(id.slot)
        return slot < streams.count && streams[slot].number == id.number ? slot : nil
    }

    func id(of slot: Int) -> StreamID { StreamID(slot: UInt32(slot), number: streams[slot].number) }

    /// Answers a request: header, then the stream's queue, then END_STREAM.
    func respond(_ slot: Int, _ headers: UnsafeBufferPointer<nghttp2_nv>) {
        guard streams[slot].beginAnswer() else { return }
        wait(for: streams[slot].queuedBytes)
        hasFrames = true
        var provider = cnghttp2_provider(Int32(slot), HTTP2Callbacks.read)
        nghttp2_submit_response(raw, streams[slot].number, headers.baseAddress, headers.count, &provider)
    }

    /// Sends a request. Nil when the peer takes no more streams.
    func request(_ headers: [nghttp2_nv], body: ByteBuffer?, token: UInt32, at now: NIODeadline) -> StreamID? {
        self.now = now
        guard !isGoingAway, nghttp2_session_check_request_allowed(raw) != 0 else { return nil }
        guard openCount < Int(nghttp2_session_get_remote_settings(raw, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)) else { return nil }
        hasFrames = true
        let slot = place()
        streams[slot].open(0, at: now)
        var provider = cnghttp2_provider(Int32(slot), HTTP2Callbacks.read)
        let number = headers.withUnsafeBufferPointer { headers in
            withUnsafePointer(to: &provider) { provider in
                nghttp2_submit_request(raw, nil, headers.baseAddress, headers.count, body == nil ? nil : provider, Self.mark(slot))
            }
        }
        guard number > 0 else {
            free.append(slot)
            return nil
        }
        streams[slot].number = number
        streams[slot].beginRequest(token: token)
        if let body {
            streams[slot].append(body)
            wait(for: body.readableBytes)
        }
        openCount += 1
        hold(Self.streamBytes)
        return id(of: slot)
    }

    private func resume(_ slot: Int) {
        guard streams[slot].resume() else { return }
        hasFrames = true
        nghttp2_session_resume_data(raw, streams[slot].number)
    }

    /// Ends the stream at once.
    ///
    /// - Parameter isPeersFault: it counts among those that the peer has reset.
    func reset(_ slot: Int, error: UInt32, isPeersFault: Bool = false) {
        hasFrames = true
        streams[slot].reset(isPeersFault: isPeersFault)
        nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, error)
    }

    func ping() {
        hasFrames = true
        nghttp2_submit_ping(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Takes no more streams, and tells the peer which the last one is; those that are open go on.
    func goAway() {
        if hasSaidGoAway { return }
        hasFrames = true
        hasSaidGoAway = true
        mustSayLast = true
    }

    /// Appends what waits, as far as it is not too much, and a last GOAWAY with the reason (RFC 9113 §5.4.1). Nothing is to be sent after it.
    ///
    /// It is written by hand, because nghttp2 says nothing more once it has found that it cannot go on. Of what it calls an error of the
    /// connection it has sent a GOAWAY itself.
    func sayGoodbye(for fault: HTTP2Fault, into buffer: inout ByteBuffer) {
        _ = send(into: &buffer, bytesMax: limits.unsentBytesTarget)
        if isBroken { return }
        buffer.writeInteger(UInt32(8 << 8 | NGHTTP2_GOAWAY.rawValue))
        buffer.writeRepeatingByte(0, count: 5)
        buffer.writeInteger(nghttp2_session_get_last_proc_stream_id(raw))
        buffer.writeInteger(fault.error)
    }

    /// Frames that wait because the peer does not read.
    var waitingFramesCount: Int { nghttp2_session_get_outbound_queue_size(raw) }

    /// How many streams the peer has reset, or had nghttp2 reset for breaking the protocol, since the last call.
    func takeResets() -> Int {
        defer { resetsCount = 0 }
        return resetsCount
    }

    // MARK: The table of streams

    private func place() -> Int {
        if let slot = free.popLast() { return slot }
        return streams.append(HTTP2Stream())
    }

    private func release(_ slot: Int) {
        buffer(-streams[slot].bufferedBytes)
        if !streams[slot].isEventStream {
            wait(for: -streams[slot].queuedBytes)
            hold(-Self.streamBytes)
        }
        streams[slot].free()
        if slot >= Self.readyPlacesCount { streams[slot].slim() }
        free.append(slot)
        openCount -= 1
    }

    /// Places that keep some memory for the next stream.
    private static let readyPlacesCount = 16
    /// Bytes that a stream takes here and in nghttp2.
    private static let streamBytes = 512

    private func hold(_ bytesCount: Int) {
        heldBytes += bytesCount
        sharedLimits.heldBytes += bytesCount
    }

    private func buffer(_ bytesCount: Int) {
        bufferedBytes += bytesCount
        hold(bytesCount)
    }

    private func wait(for bytesCount: Int) {
        waitingBytes += bytesCount
        hold(bytesCount)
    }

    /// Notes that a stream has become one whose queue the application bounds.
    func becameEventStream() { hold(-Self.streamBytes) }

    /// Takes a request's head and body out of its place.
    func takeRequest(_ slot: Int) -> (head: [UInt8], body: [UInt8]) {
        buffer(-streams[slot].bufferedBytes)
        return (streams[slot].takeHead(), streams[slot].takeBody())
    }

    /// Whether part of an answer has gone out since the last call.
    func takeProgress() -> Bool {
        defer { hasProgress = false }
        return hasProgress
    }

    /// Gives back what streams take, because nothing will be sent or received any more.
    func dropStreams() {
        for slot in streams.indices {
            streams[slot].free()
            streams[slot].slim()
        }
        streams.ready = []
        (starved, cut, events) = ([], [], [])
        hold(-heldBytes)
        (openCount, bufferedBytes, waitingBytes) = (0, 0, 0)
    }

    /// Gives back what a connection without traffic does not need.
    func slim() {
        for slot in streams.indices where streams[slot].number == 0 { streams[slot].slim() }
        if events.isEmpty { (events, taken) = ([], []) }
        if streams.ready.isEmpty { streams.ready = [] }
        for slot in streams.indices { streams[slot].slimQueue() }
        if starved.isEmpty { starved = [] }
        // Nothing may name a place that goes.
        guard events.isEmpty, starved.isEmpty, streams.ready.isEmpty else { return }
        streams.trim { $0.number == 0 }
        free.removeAll { $0 >= streams.count }
        if free.isEmpty { free = [] }
    }

    /// A place as the stream's user data; 0 would be "none".
    private static func mark(_ slot: Int) -> UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: slot + 1) }

    func slot(ofNumber number: Int32) -> Int? {
        if lastSlot < streams.count, streams[lastSlot].number == number { return lastSlot }
        guard let mark = nghttp2_session_get_stream_user_data(raw, number) else { return nil }
        lastSlot = Int(bitPattern: mark) - 1
        return lastSlot
    }
}

/// What the callbacks record.
extension HTTP2Session {
    func beganHeaders(_ number: Int32) {
        let slot = place()
        streams[slot].open(number, at: now)
        lastSlot = slot
        openCount += 1
        hold(Self.streamBytes)
        nghttp2_session_set_stream_user_data(raw, number, Self.mark(slot))
    }

    /// Returns false when nghttp2 is to decode no more: a byte on the wire can stand for 4 KB (CVE-2016-6581).
    ///
    /// - Parameter isTrailer: of a request; it is no part of the head then (RFC 9110 §6.5.1).
    func header(_ number: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, isTrailer: Bool) -> Bool {
        guard let slot = slot(ofNumber: number) else { return true }
        if role == .client {
            if name.equals(":status") { streams[slot].status = value.reduce(0) { $0 * 10 + Int32($1) - 48 } }
            return true
        }
        if isTrailer {
            streams[slot].count(name: name, value: value, limits: limits)
        } else {
            let keptBytes = streams[slot].receive(name: name, value: value, limits: limits)
            if keptBytes > 0 { buffer(keptBytes) }
        }
        guard streams[slot].isHeadFarTooLarge(limits) else { return true }
        fault = .headerFlood
        return false
    }

    func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let type = UInt32(cnghttp2_type(frame))
        let number = cnghttp2_stream_id(frame)
        switch type {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard let slot = slot(ofNumber: number) else { return }
            let isEnd = UInt32(cnghttp2_flags(frame)) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
            if role == .client, type == NGHTTP2_HEADERS.rawValue { events.append(.head(slot: slot)) }
            guard role == .server else { return }
            hasHead = true
            if isEnd { streams[slot].completeRequest() }
            if isEnd || streams[slot].hasTooLargeHead { report(slot) }
        case NGHTTP2_SETTINGS.rawValue:
            guard UInt32(cnghttp2_flags(frame)) & NGHTTP2_FLAG_ACK.rawValue == 0 else { return }
            events.append(.settings)
        case NGHTTP2_RST_STREAM.rawValue: (resetsCount, resetByPeer) = (resetsCount + 1, number)
        case NGHTTP2_GOAWAY.rawValue:
            isGoingAway = true
            events.append(.goAway)
        default: break
        }
    }

    /// Records once that a request can be answered.
    private func report(_ slot: Int) {
        guard streams[slot].report() else { return }
        events.append(.request(slot: slot))
    }

    func received(_ data: UnsafeRawBufferPointer, on number: Int32) {
        guard let slot = slot(ofNumber: number) else { return }
        if role == .client { return events.append(.data(slot: slot, data)) }
        // The rest of a request that is refused is not kept.
        guard streams[slot].phase == .receiving else { return }
        if streams[slot].body.count + data.count > limits.bodyBytesMax {
            buffer(-streams[slot].refuseBody())
            report(slot)
        } else if bufferedBytes + data.count > limits.bufferedBytesMax {
            overflow(slot)
        } else {
            buffer(data.count)
            streams[slot].receive(body: data)
        }
    }

    /// Drops a request that does not fit into the buffer of the connection.
    private func overflow(_ slot: Int) {
        guard streams[slot].overflow() else { return }
        _ = takeRequest(slot)
        events.append(.overflow(slot: slot))
    }

    func closed(_ number: Int32, error: UInt32) {
        guard let slot = slot(ofNumber: number) else { return }
        let wasResetHere = streams[slot].close()
        if error != 0, number != resetByPeer, !wasResetHere { resetsCount += 1 }
        events.append(.closed(slot: slot, number: number, error: error))
    }

    /// How much of an answer goes into the next DATA frame.
    func read(_ slot: Int, bytesMax: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
        let queued = streams[slot].queuedBytes
        let count = min(queued, bytesMax, max(window, 0))
        if count == queued {
            if role == .server, !streams[slot].isRequestComplete { cut.append(streams[slot].number) }
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        } else if count == 0 {
            streams[slot].starve()
            starved.append(slot)
            return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        }
        if count > 0 { flags.pointee |= NGHTTP2_DATA_FLAG_NO_COPY.rawValue }
        window -= count
        return count
    }

    /// Appends a DATA frame. Returns false when no other is to follow now: nghttp2 would go on as long as there is any.
    func sendData(_ slot: Int, header: UnsafeRawBufferPointer, bytesCount: Int) -> Bool {
        outgoing.writeBytes(header)
        streams[slot].take(bytesCount, into: &outgoing)
        wait(for: -bytesCount)
        hasProgress = true
        return outgoing.readableBytes < outgoingBytesMax
    }
}
