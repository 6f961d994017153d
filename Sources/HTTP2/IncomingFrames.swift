/// Walks the frames among a client's bytes before nghttp2 gets them (RFC 9113 §4.1).
///
/// WINDOW_UPDATE frames are taken out: the DATA frames of event streams are written by hand, so their windows are counted by hand too,
/// and nghttp2 must not hear of what it did not send. Header blocks are measured, because nghttp2 decodes one of any length. All else is
/// handed on as it came.
struct IncomingFrames {
    /// One WINDOW_UPDATE frame.
    struct Update {
        /// 0 for the connection.
        let number: Int32
        let increment: Int
    }

    /// The parts of the bytes, in order.
    enum Part {
        /// To be handed on. Valid inside the call only.
        case bytes(UnsafeRawBufferPointer)
        case update(Update)
        /// A part of a header block follows on a stream whose number is not above all others: a trailer, or something for a closed stream.
        case oldHead(number: Int32, payloadBytes: Int)
        /// A header block is longer than it may be. Nothing follows.
        case blockTooLong
    }

    private static let headerBytes = 9
    private static let updateBytes = 13
    private static let (data, headers, windowUpdate, continuation): (UInt8, UInt8, UInt8, UInt8) = (0, 1, 8, 9)
    private static let endHeaders: UInt8 = 4

    /// The beginning of a frame that is not whole enough to know what it is.
    private var partial: [UInt8] = []
    /// Bytes until the next frame begins; at first the client's preface.
    private var skip: Int32 = 24
    /// Bytes of the header block that is not whole yet (RFC 9113 §4.3); -1 when there is none.
    private var blockBytes: Int32 = -1
    /// The largest stream number of a HEADERS frame.
    private var lastNumber: Int32 = 0
    /// The header block that is not whole yet is an old head.
    private var isOldBlock = false
    /// The bytes that ``skip`` counts are of a body.
    private var isBody = false
    /// A frame has begun since ``takeBeginning()``, outside of a header block.
    private var hasBegun = false

    /// A header block, or a frame other than DATA, has begun and is not whole.
    var isMidway: Bool { blockBytes >= 0 || !partial.isEmpty || (skip > 0 && !isBody) }

    /// Whether a frame has begun since the last call, outside of a header block.
    mutating func takeBeginning() -> Bool {
        defer { hasBegun = false }
        return hasBegun
    }

    /// Calls `body` with each part of `bytes` until it returns false.
    ///
    /// - Parameter limits: a header block that is four times as long as a header list may be is reported and ends the walk.
    mutating func split(_ bytes: UnsafeRawBufferPointer, limits: HTTPLimits, _ body: (Part) -> Bool) {
        guard var next = completePartial(bytes, limits, body) else { return }
        var start = next
        while next < bytes.count {
            if skip > 0 {
                let count = min(Int(skip), bytes.count - next)
                skip -= Int32(truncatingIfNeeded: count)
                next += count
                continue
            }
            let frame = UnsafeRawBufferPointer(rebasing: bytes[next...])
            if frame.count < Self.headerBytes || (isUpdate(frame) && frame.count < Self.updateBytes) {
                partial = Array(frame)
                hasBegun = hasBegun || blockBytes < 0
                break
            }
            if isUpdate(frame) {
                guard Self.pass(bytes[start..<next], body), body(.update(Self.update(frame))) else { return }
                next += Self.updateBytes
                start = next
                continue
            }
            // Of old streams the session knows only when it has seen what comes before.
            if isOldHead(frame) {
                guard Self.pass(bytes[start..<next], body) else { return }
                start = next
            }
            guard begin(frame, limits, body) else { return }
            skip += Int32(Self.headerBytes)
        }
        _ = Self.pass(bytes[start..<next], body)
    }

    /// Goes on with a frame that an earlier call left; returns how many of `bytes` it took, nil when `body` wants no more.
    private mutating func completePartial(_ bytes: UnsafeRawBufferPointer, _ limits: HTTPLimits, _ body: (Part) -> Bool) -> Int? {
        guard !partial.isEmpty else { return 0 }
        var frame: [UInt8] = []
        swap(&frame, &partial)
        for taken in bytes.indices {
            frame.append(bytes[taken])
            let isWhole = frame.withUnsafeBytes { $0.count >= (isUpdate($0) ? Self.updateBytes : Self.headerBytes) }
            guard isWhole else { continue }
            let goesOn = frame.withUnsafeBytes { frame in
                isUpdate(frame) ? body(.update(Self.update(frame))) : begin(frame, limits, body) && body(.bytes(frame))
            }
            // It began in an earlier call.
            hasBegun = false
            return goesOn ? taken + 1 : nil
        }
        swap(&frame, &partial)
        return bytes.count
    }

    /// Takes note of a frame, of which at least the header is here. Returns false when nothing more is to be read.
    private mutating func begin(_ frame: UnsafeRawBufferPointer, _ limits: HTTPLimits, _ body: (Part) -> Bool) -> Bool {
        let payloadBytes = Self.payloadBytes(frame)
        skip = Int32(payloadBytes)
        isBody = frame[3] == Self.data
        hasBegun = hasBegun || blockBytes < 0
        switch frame[3] {
        case Self.headers:
            isOldBlock = isOldHead(frame)
            blockBytes = 0
            lastNumber = max(lastNumber, Self.number(frame))
        case Self.continuation where blockBytes >= 0: break
        default: return true
        }
        if isOldBlock, !body(.oldHead(number: Self.number(frame), payloadBytes: payloadBytes)) { return false }
        blockBytes += Int32(payloadBytes)
        if blockBytes > 4 * limits.headerBytesMax {
            _ = body(.blockTooLong)
            return false
        }
        if frame[4] & Self.endHeaders != 0 { blockBytes = -1 }
        return true
    }

    private func isOldHead(_ frame: UnsafeRawBufferPointer) -> Bool { frame[3] == Self.headers && Self.number(frame) <= lastNumber }

    private static func pass(_ bytes: Slice<UnsafeRawBufferPointer>, _ body: (Part) -> Bool) -> Bool {
        bytes.isEmpty || body(.bytes(UnsafeRawBufferPointer(rebasing: bytes)))
    }

    private static func payloadBytes(_ frame: UnsafeRawBufferPointer) -> Int {
        Int(frame[0]) << 16 | Int(frame[1]) << 8 | Int(frame[2])
    }

    /// Type 8 and the only length that is right; another length is left to nghttp2 to complain about.
    private func isUpdate(_ frame: UnsafeRawBufferPointer) -> Bool {
        frame.count >= Self.headerBytes && frame[3] == Self.windowUpdate && Self.payloadBytes(frame) == 4
    }

    private static func number(_ frame: UnsafeRawBufferPointer) -> Int32 { Int32(bitPattern: word(frame, at: 5) & 0x7FFF_FFFF) }

    private static func word(_ frame: UnsafeRawBufferPointer, at offset: Int) -> UInt32 {
        frame.loadUnaligned(fromByteOffset: offset, as: UInt32.self).bigEndian
    }

    private static func update(_ frame: UnsafeRawBufferPointer) -> Update {
        Update(number: number(frame), increment: Int(word(frame, at: 9) & 0x7FFF_FFFF))
    }
}
