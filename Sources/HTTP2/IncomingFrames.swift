/// Walks the frames among a client's bytes before nghttp2 gets them (RFC 9113 §4.1).
///
/// WINDOW_UPDATE frames are taken out: the DATA frames of event streams are written by hand, so their windows are counted by hand too,
/// and nghttp2 must not hear of what it did not send. SETTINGS frames are taken out, because they change those windows. Header blocks are
/// measured, because nghttp2 decodes one of any length, and so are the numbers of streams, of which nghttp2 knows the largest alone. All else
/// is handed on as it came.
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
        /// A whole SETTINGS frame that is no acknowledgement. Valid inside the call only.
        case settings(UnsafeRawBufferPointer)
        /// A part of a header block follows on a stream whose number is not above all others: a trailer, or something for a closed stream.
        case oldHead(number: Int32, payloadBytes: Int)
        /// HEADERS on a stream that its peer has passed over (RFC 9113 §5.1.1). Nothing follows.
        case passedOver
        /// A header block is longer than it may be. Nothing follows.
        case blockTooLong
    }

    private static let headerBytes = 9
    private static let updateBytes = 13
    /// nghttp2 ends the connection for more settings in a frame.
    private static let settingsBytesMax = 32 * 6
    private static let (data, headers, settings, windowUpdate, continuation): (UInt8, UInt8, UInt8, UInt8, UInt8) = (0, 1, 4, 8, 9)
    private static let (acknowledgement, endHeaders): (UInt8, UInt8) = (1, 4)
    /// Gaps in the numbers of streams that are remembered; streams in older ones are taken for closed ones.
    private static let gapsMax = 16

    /// The beginning of a frame that is not whole enough to know what it is.
    private var partial: [UInt8] = []
    /// Bytes until the next frame begins; at first the client's preface.
    private var skip: Int32 = 24
    /// Bytes of the header block that is not whole yet (RFC 9113 §4.3); -1 when there is none.
    private var blockBytes: Int32 = -1
    /// The largest stream number of a HEADERS frame.
    private var lastNumber: Int32 = 0
    /// Numbers of streams below ``lastNumber`` that were never used.
    private var gaps: [ClosedRange<Int32>] = []
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
            if frame.count >= Self.headerBytes, frame[3] == Self.data, blockBytes < 0 {
                // The most usual frame, and nothing is to be done about it.
                (isBody, hasBegun) = (true, true)
                skip = Int32(Self.headerBytes + Self.payloadBytes(frame))
                continue
            }
            if frame.count < neededBytes(frame) {
                partial = Array(frame)
                hasBegun = hasBegun || blockBytes < 0
                break
            }
            if let part = wholePart(frame) {
                guard Self.pass(bytes[start..<next], body), body(part) else { return }
                next += neededBytes(frame)
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
            guard frame.withUnsafeBytes({ $0.count >= neededBytes($0) }) else { continue }
            let goesOn = frame.withUnsafeBytes { frame in
                if let part = wholePart(frame) { return body(part) }
                return begin(frame, limits, body) && body(.bytes(frame))
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
            guard takeNumber(Self.number(frame)) else {
                _ = body(.passedOver)
                return false
            }
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

    /// Takes note of the number of a stream. Returns false when it was passed over.
    private mutating func takeNumber(_ number: Int32) -> Bool {
        if number <= lastNumber { return gaps.isEmpty || !gaps.contains { $0.contains(number) } }
        // Clients use the odd numbers.
        let next = lastNumber == 0 ? 1 : lastNumber + 2
        if number > next, next & number & 1 == 1 {
            if gaps.count == Self.gapsMax { gaps.removeFirst() }
            gaps.append(next...number - 2)
        }
        lastNumber = number
        return true
    }

    private func isOldHead(_ frame: UnsafeRawBufferPointer) -> Bool { frame[3] == Self.headers && Self.number(frame) <= lastNumber }

    private static func pass(_ bytes: Slice<UnsafeRawBufferPointer>, _ body: (Part) -> Bool) -> Bool {
        bytes.isEmpty || body(.bytes(UnsafeRawBufferPointer(rebasing: bytes)))
    }

    private static func payloadBytes(_ frame: UnsafeRawBufferPointer) -> Int {
        Int(frame[0]) << 16 | Int(frame[1]) << 8 | Int(frame[2])
    }

    /// Bytes of a frame that must be here before it is known what is to become of it.
    private func neededBytes(_ frame: UnsafeRawBufferPointer) -> Int {
        isSettings(frame) ? Self.headerBytes + Self.payloadBytes(frame) : isUpdate(frame) ? Self.updateBytes : Self.headerBytes
    }

    /// A frame that is taken out whole. Within a header block nothing is: nghttp2 ends the connection for any frame there (RFC 9113 §4.3).
    private func wholePart(_ frame: UnsafeRawBufferPointer) -> Part? {
        if isUpdate(frame) { return .update(Self.update(frame)) }
        return isSettings(frame) ? .settings(UnsafeRawBufferPointer(rebasing: frame.prefix(neededBytes(frame)))) : nil
    }

    /// Type 8 and the only length that is right; another length is left to nghttp2 to complain about.
    private func isUpdate(_ frame: UnsafeRawBufferPointer) -> Bool {
        frame.count >= Self.headerBytes && blockBytes < 0 && frame[3] == Self.windowUpdate && Self.payloadBytes(frame) == 4
    }

    /// Type 4 and a length that is right.
    private func isSettings(_ frame: UnsafeRawBufferPointer) -> Bool {
        guard frame.count >= Self.headerBytes, blockBytes < 0, frame[3] == Self.settings else { return false }
        let payloadBytes = Self.payloadBytes(frame)
        return frame[4] & Self.acknowledgement == 0 && payloadBytes % 6 == 0 && payloadBytes <= Self.settingsBytesMax
    }

    private static func number(_ frame: UnsafeRawBufferPointer) -> Int32 { Int32(bitPattern: word(frame, at: 5) & 0x7FFF_FFFF) }

    private static func word(_ frame: UnsafeRawBufferPointer, at offset: Int) -> UInt32 {
        frame.loadUnaligned(fromByteOffset: offset, as: UInt32.self).bigEndian
    }

    private static func update(_ frame: UnsafeRawBufferPointer) -> Update {
        Update(number: number(frame), increment: Int(word(frame, at: 9) & 0x7FFF_FFFF))
    }
}
