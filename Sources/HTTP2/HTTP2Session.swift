import CNGHTTP2
import NIOCore

/// One end of an HTTP/2 connection, as a state machine over libnghttp2 without a socket or a clock.
///
/// The order of use: ``receive(_:at:)``, ``takeEvents(_:)``, answer, ``send(into:bytesMax:)``. nghttp2's callbacks only record events.
/// Neither nghttp2 nor the application is called from inside a callback.
final class HTTP2Session {
    enum Role { case server, client }

    /// An action of the peer. `slot` is an index of ``streams``.
    enum Event {
        /// A request is complete, or has broken a limit.
        case request(slot: Int)
        /// The head of a response has arrived.
        case head(slot: Int)
        /// A part of a response's body. Valid until the next ``HTTP2Session/receive(_:at:)``.
        case data(slot: Int, UnsafeRawBufferPointer)
        /// The stream is closed, with the error 0 in good order. Its slot is free once this event is taken.
        case closed(slot: Int, number: Int32, error: UInt32)
        /// The connection buffers too many bytes of requests. The stream must be reset.
        case overflow(slot: Int)
        /// The peer's settings have arrived.
        case settings
        /// The peer has sent GOAWAY.
        case goAway
    }

    /// The part of the peer's bytes that must become complete in time. Bodies do not count.
    enum Awaited: Equatable {
        /// The head of the first request. Its time begins with the connection.
        case firstHead
        case nothing
        /// The rest of a header block, or of another frame, that began then.
        case rest(since: NIODeadline)
    }

    /// This side's GOAWAY.
    private enum GoAway {
        case none
        /// It is to be sent. Its last stream is determined only then, because nghttp2 cuts off streams above it.
        case wanted
        /// nghttp2 has it.
        case submitted
    }

    let role: Role
    /// The limits. The connections of a loop share them, because a copy would cost each session a hundred bytes.
    var sharedLimits: SharedLimits
    private var events: [Event] = []
    private var taken: [Event] = []
    let streams = HTTP2StreamTable()
    /// The slot of the last callback's stream. Callbacks of one stream often follow one another.
    private var lastSlot = 0
    /// The number of open streams.
    private(set) var openCount = 0
    /// Bytes of requests that the application has not taken.
    private(set) var bufferedBytes = 0
    /// Bytes of answers that have not been sent.
    private(set) var waitingBytes = 0
    /// The bytes that ordinary streams and held-back bytes take, which count in ``SharedLimits/heldBytes`` too.
    private(set) var heldBytes = 0
    private var resets = PeerResets()
    // Small fields stand side by side, because each connection pays for the gaps between them.
    /// The peer has sent GOAWAY.
    private(set) var isGoingAway = false
    private var ownGoAway = GoAway.none
    /// Part of an answer has been sent since ``takeProgress()``.
    private var hasProgress = false
    private(set) var raw: OpaquePointer
    private let lease: FrameChunk.Lease
    /// The IDs of streams whose answer was sent before their request was complete.
    private var answeredEarly: [Int32] = []
    /// The slots of answers that wait for the connection's window.
    private var starved: [Int] = []
    /// DATA bytes written by hand, which nghttp2's window of the connection does not include.
    var bytesByHand = 0
    /// The bytes that the connection's window allows.
    var window = 0
    /// nghttp2 may have something to send.
    ///
    /// A push calls nghttp2 only then: with thousands of connections the memory of nghttp2 is never in the cache.
    var hasFrames = true
    private var incoming = IncomingFrames()
    private(set) var awaited = Awaited.firstHead
    /// The fault for which the connection cannot go on.
    var fault: HTTP2Fault?
    /// The initial window of streams, as the peer has set it.
    var initialWindow = 65_535
    /// The IDs of event streams whose END_STREAM was written by hand. Their RST_STREAM, which closes them in nghttp2, is not sent.
    var endedByHand: [Int32] = []
    /// The buffer of the present `send(into:bytesMax:)`.
    var outgoing: ByteBuffer
    private var outgoingBytesMax = 0
    /// A client's connection preface (RFC 9113 §3.4) until it is sent.
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
        lease = FrameChunk.Lease(chunk)
        var memory = lease.memory()
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

    /// Takes bytes from the peer. Returns false when the connection cannot go on, for the reason in ``fault``.
    func receive(_ bytes: UnsafeRawBufferPointer, at now: NIODeadline) -> Bool { receive(bytes, headsMax: .max, at: now) != nil }

    /// Takes bytes from the peer up to a number of HEADERS frames.
    ///
    /// Returns the number of bytes taken; nil when the connection cannot go on, for the reason in ``fault``.
    func receive(_ bytes: UnsafeRawBufferPointer, headsMax: Int, at now: NIODeadline) -> Int? {
        self.now = now
        hasFrames = true
        if role == .client { return pass(bytes) ? bytes.count : nil }
        var frames = IncomingFrames()
        swap(&frames, &incoming)
        let takenBytes = frames.split(bytes, headsMax: headsMax, limits: limits) { part in
            switch part {
            case .bytes(let bytes): return pass(bytes)
            case .update(let update): return receive(update)
            case .settings(let frame): return receive(settings: frame)
            case .oldHead(let number, let payloadBytes):
                if slot(ofNumber: number) == nil { countUseless(headBytes: payloadBytes) }
                if resets.count > limits.resetsMax { fault = .resetFlood }
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
        switch (awaited, frames.isMidway) {
        case (.firstHead, _): break
        case (_, false): awaited = .nothing
        case (.rest, true) where !hasBegun: break
        case (.nothing, true), (.rest, true): awaited = .rest(since: now)
        }
        swap(&frames, &incoming)
        return fault == nil ? takenBytes : nil
    }

    /// Gives bytes to nghttp2. Returns false when the connection cannot go on.
    func pass(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = nghttp2_session_mem_recv(raw, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        if count == bytes.count { return true }
        fault = fault ?? HTTP2Fault(status: count)
        return false
    }

    /// Counts a header block of a refused stream: see ``PeerResets/countUseless(headBytes:)``.
    func countUseless(headBytes: Int) { resets.countUseless(headBytes: headBytes) }

    /// Counts a new initial window: see ``PeerResets/countNewWindow(openCount:)``. Returns false when the connection cannot go on.
    func countNewWindow() -> Bool {
        resets.countNewWindow(openCount: openCount)
        if resets.count > limits.resetsMax { fault = .resetFlood }
        return fault == nil
    }

    /// Resumes the answers that wait for the connection's window.
    func resumeStarved() {
        for slot in starved { resume(slot) }
        starved.removeAll(keepingCapacity: true)
    }

    /// Calls `body` with each recorded event, in order.
    func takeEvents(_ body: (Event) -> Void) {
        if events.isEmpty { return }
        swap(&events, &taken)
        for event in taken {
            body(event)
            if case .closed(let slot, let number, _) = event, streams[slot].number == number { release(slot) }
        }
        taken.removeAll(keepingCapacity: true)
    }

    /// Appends bytes for the peer to `buffer`, until nothing is left or `buffer` holds `bytesMax`. Returns whether more is left.
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

    /// Appends the frames of nghttp2. Returns false when more is left.
    private func sendFrames(bytesMax: Int) -> Bool {
        if ownGoAway == .wanted {
            ownGoAway = .submitted
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
                if answeredEarly.isEmpty {
                    hasFrames = false
                    return true
                }
                resetAnsweredEarly()
                continue
            }
            if !endedByHand.isEmpty, takeEnd(UnsafeRawBufferPointer(start: bytes, count: count)) { continue }
            outgoing.writeBytes(UnsafeBufferPointer(start: bytes, count: count))
        }
        return false
    }

    /// Resets the streams whose answer was sent before their request was complete (RFC 9113 §8.1).
    private func resetAnsweredEarly() {
        for number in answeredEarly {
            guard let slot = slot(ofNumber: number), !streams[slot].isRequestComplete else { continue }
            nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), number, UInt32(NGHTTP2_NO_ERROR.rawValue))
        }
        answeredEarly.removeAll()
    }

    /// Whether a frame is the RST_STREAM of a stream that was ended by hand, which must not be sent (RFC 9113 §5.1).
    private func takeEnd(_ frame: UnsafeRawBufferPointer) -> Bool {
        guard frame[3] == NGHTTP2_RST_STREAM.rawValue else { return false }
        let number = Int32(bitPattern: frame.loadUnaligned(fromByteOffset: 5, as: UInt32.self).bigEndian)
        guard let index = endedByHand.firstIndex(of: number) else { return false }
        endedByHand.remove(at: index)
        return true
    }

    /// Whether nghttp2 neither reads nor writes any more.
    var isOver: Bool { nghttp2_session_want_read(raw) == 0 && nghttp2_session_want_write(raw) == 0 }

    /// Whether nghttp2 has ended the connection because the peer broke the protocol.
    var isBroken: Bool { isOver && !isGoingAway && !isLeaving }

    /// Whether this side has sent GOAWAY, or is about to.
    var isLeaving: Bool { ownGoAway != .none }

    // MARK: The application

    /// The slot of a stream; nil when the stream is released.
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

    /// Sends a request. Returns nil when the peer takes no more streams.
    func request(_ headers: [nghttp2_nv], body: ByteBuffer?, token: UInt32, at now: NIODeadline) -> StreamID? {
        self.now = now
        guard !isGoingAway, nghttp2_session_check_request_allowed(raw) != 0 else { return nil }
        guard openCount < Int(nghttp2_session_get_remote_settings(raw, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)) else { return nil }
        hasFrames = true
        let slot = streams.take()
        streams[slot].open(0, at: now)
        var provider = cnghttp2_provider(Int32(slot), HTTP2Callbacks.read)
        let number = headers.withUnsafeBufferPointer { headers in
            withUnsafePointer(to: &provider) { provider in
                nghttp2_submit_request(raw, nil, headers.baseAddress, headers.count, body == nil ? nil : provider, Self.userData(of: slot))
            }
        }
        guard number > 0 else {
            streams.giveBack(slot)
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
    /// - Parameter isPeersFault: the reset counts among those of the peer.
    func reset(_ slot: Int, error: UInt32, isPeersFault: Bool = false) {
        hasFrames = true
        streams[slot].reset(isPeersFault: isPeersFault)
        nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[slot].number, error)
    }

    /// Sends PING.
    func ping() {
        hasFrames = true
        nghttp2_submit_ping(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Takes no more streams, and sends GOAWAY with the last one. Open streams go on.
    func goAway() {
        if isLeaving { return }
        hasFrames = true
        ownGoAway = .wanted
    }

    /// Appends waiting bytes up to a limit, and a last GOAWAY with the reason (RFC 9113 §5.4.1). Nothing may be sent after it.
    ///
    /// The GOAWAY is written by hand, because nghttp2 writes nothing more once it cannot go on. For an error of the connection, nghttp2 has
    /// written one itself.
    func sendLastGoAway(for fault: HTTP2Fault, into buffer: inout ByteBuffer) {
        _ = send(into: &buffer, bytesMax: limits.unsentBytesTarget)
        if isBroken { return }
        buffer.writeInteger(UInt32(8 << 8 | NGHTTP2_GOAWAY.rawValue))
        buffer.writeRepeatingByte(0, count: 5)
        buffer.writeInteger(nghttp2_session_get_last_proc_stream_id(raw))
        buffer.writeInteger(fault.error)
    }

    /// The number of frames in nghttp2's queue.
    var waitingFramesCount: Int { nghttp2_session_get_outbound_queue_size(raw) }

    /// Returns the number of streams that were reset by the peer or by its fault, since the last call.
    func takeResets() -> Int { resets.take() }

    // MARK: The table of streams

    private func release(_ slot: Int) {
        buffer(-streams[slot].bufferedBytes)
        if !streams[slot].isEventStream {
            waitingBytes -= streams[slot].queuedBytes
            hold(-Self.streamBytes - streams[slot].keptBytes)
        }
        streams[slot].free()
        if slot >= Self.slotsWithMemoryMax { streams[slot].slim() }
        streams.giveBack(slot)
        openCount -= 1
    }

    /// The number of slots that keep some memory for the next stream.
    private static let slotsWithMemoryMax = 16
    /// The bytes that a stream takes here and in nghttp2.
    private static let streamBytes = 512

    /// Counts bytes of ordinary streams, or bytes that are held back.
    func hold(_ bytesCount: Int) {
        heldBytes += bytesCount
        sharedLimits.heldBytes += bytesCount
    }

    /// Counts bytes of requests.
    private func buffer(_ bytesCount: Int) {
        bufferedBytes += bytesCount
        hold(bytesCount)
    }

    /// Counts bytes of answers.
    private func wait(for bytesCount: Int) {
        waitingBytes += bytesCount
        hold(bytesCount)
    }

    /// Stops counting the bytes of a stream that becomes an event stream. The application bounds its queue.
    func releaseEventStream() { hold(-Self.streamBytes) }

    /// Takes a request's head and body out of its slot.
    func takeRequest(_ slot: Int) -> (head: [UInt8], body: [UInt8]) {
        buffer(-streams[slot].bufferedBytes)
        return (streams[slot].takeHead(), streams[slot].takeBody())
    }

    /// Returns whether part of an answer was sent since the last call.
    func takeProgress() -> Bool {
        defer { hasProgress = false }
        return hasProgress
    }

    /// Frees all streams at the end of the connection.
    func dropStreams() {
        for slot in streams.indices {
            streams[slot].free()
            streams[slot].slim()
        }
        streams.ready = []
        (starved, answeredEarly, events) = ([], [], [])
        hold(-heldBytes)
        (openCount, bufferedBytes, waitingBytes) = (0, 0, 0)
    }

    /// Frees the memory that a connection without traffic does not need.
    func slim() {
        for slot in streams.indices where streams[slot].number == 0 { streams[slot].slim() }
        if events.isEmpty { (events, taken) = ([], []) }
        if streams.ready.isEmpty { streams.ready = [] }
        for slot in streams.indices { streams[slot].slimQueue() }
        if starved.isEmpty { starved = [] }
        // No list may refer to a slot that is removed.
        guard events.isEmpty, starved.isEmpty, streams.ready.isEmpty else { return }
        streams.trim { $0.number == 0 }
    }

    /// The user data of a stream for nghttp2. 0 would mean "none".
    private static func userData(of slot: Int) -> UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: slot + 1) }

    /// The slot of an HTTP/2 stream ID; nil when the stream is not open.
    func slot(ofNumber number: Int32) -> Int? {
        if lastSlot < streams.count, streams[lastSlot].number == number { return lastSlot }
        guard let userData = nghttp2_session_get_stream_user_data(raw, number) else { return nil }
        lastSlot = Int(bitPattern: userData) - 1
        return lastSlot
    }
}

/// The events that nghttp2's callbacks record.
extension HTTP2Session {
    /// A stream has begun.
    func beganHeaders(_ number: Int32) {
        let slot = streams.take()
        streams[slot].open(number, at: now)
        lastSlot = slot
        openCount += 1
        hold(Self.streamBytes)
        nghttp2_session_set_stream_user_data(raw, number, Self.userData(of: slot))
    }

    /// A header field has arrived. Returns false when nghttp2 must not decode the rest.
    ///
    /// A byte on the wire can stand for 4 KB (CVE-2016-6581).
    ///
    /// - Parameter isTrailer: the field belongs to a trailer, and not to the head (RFC 9110 §6.5.1).
    func header(_ number: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, isTrailer: Bool) -> Bool {
        guard let slot = slot(ofNumber: number) else { return true }
        if role == .client {
            if name.equals(":status") { streams[slot].status = value.reduce(0) { $0 * 10 + Int32($1) - 48 } }
            return true
        }
        if isTrailer {
            streams[slot].count(name: name, value: value, limits: limits)
        } else {
            let keptBytes = streams[slot].receive(name: name, value: value, limits: limits, origins: sharedLimits.origins)
            if keptBytes > 0 { buffer(keptBytes) }
        }
        guard streams[slot].isHeadFarTooLarge(limits) else { return true }
        fault = .headerFlood
        return false
    }

    /// A frame is complete.
    func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let type = UInt32(cnghttp2_type(frame))
        let number = cnghttp2_stream_id(frame)
        switch type {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard let slot = slot(ofNumber: number) else { return }
            let isEnd = UInt32(cnghttp2_flags(frame)) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
            if role == .client, type == NGHTTP2_HEADERS.rawValue { events.append(.head(slot: slot)) }
            guard role == .server else { return }
            if case .firstHead = awaited { awaited = .nothing }
            if type == NGHTTP2_HEADERS.rawValue {
                sharedLimits.decodedBytes += Int(streams[slot].headerListSize.bytesCount)
                sharedLimits.decodedCount += 1
            }
            if isEnd { streams[slot].completeRequest() }
            if isEnd || streams[slot].hasTooLargeHead { report(slot) }
        case NGHTTP2_SETTINGS.rawValue:
            guard UInt32(cnghttp2_flags(frame)) & NGHTTP2_FLAG_ACK.rawValue == 0 else { return }
            events.append(.settings)
        case NGHTTP2_RST_STREAM.rawValue: resets.received(number)
        case NGHTTP2_GOAWAY.rawValue:
            isGoingAway = true
            events.append(.goAway)
        default: break
        }
    }

    /// Records once that a request can be answered, or refused.
    private func report(_ slot: Int) {
        guard streams[slot].report() else { return }
        events.append(.request(slot: slot))
    }

    /// A part of a body has arrived.
    func received(_ data: UnsafeRawBufferPointer, on number: Int32) {
        guard let slot = slot(ofNumber: number) else { return }
        if role == .client { return events.append(.data(slot: slot, data)) }
        // The rest of a request that is refused is not kept.
        guard streams[slot].isReceiving else { return }
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

    /// nghttp2 has closed a stream.
    func closed(_ number: Int32, error: UInt32) {
        guard let slot = slot(ofNumber: number) else { return }
        resets.closed(number, error: error, wasResetHere: streams[slot].close())
        events.append(.closed(slot: slot, number: number, error: error))
    }

    /// Returns the bytes of an answer for the next DATA frame, and sets its flags.
    func read(_ slot: Int, bytesMax: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
        let queued = streams[slot].queuedBytes
        let count = min(queued, bytesMax, max(window, 0))
        if count == queued {
            if role == .server, !streams[slot].isRequestComplete { answeredEarly.append(streams[slot].number) }
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

    /// Appends a DATA frame. Returns false when `bytesMax` is reached: nghttp2 would go on as long as there is data.
    func sendData(_ slot: Int, header: UnsafeRawBufferPointer, bytesCount: Int) -> Bool {
        outgoing.writeBytes(header)
        let keptBytes = streams[slot].keptBytes
        streams[slot].take(bytesCount, into: &outgoing)
        waitingBytes -= bytesCount
        hold(streams[slot].keptBytes - keptBytes)
        hasProgress = true
        return outgoing.readableBytes < outgoingBytesMax
    }
}
