/// Splits a client's bytes into frames before nghttp2 gets them (RFC 9113 §4.1).
///
/// - WINDOW_UPDATE frames are taken out. DATA frames of event streams are written by hand, so their windows are counted by hand too.
/// - SETTINGS frames are taken out, because they change those windows.
/// - Header blocks are measured, because nghttp2 decodes a block of any length.
/// - Stream IDs are checked, because nghttp2 remembers only the largest one.
///
/// All other bytes pass unchanged.
struct IncomingFrames {
    /// One WINDOW_UPDATE frame.
    struct Update {
        /// The stream ID; 0 for the connection.
        let number: Int32
        let increment: Int
    }

    /// A part of the bytes.
    enum Part {
        /// Bytes for nghttp2. Valid inside the call only.
        case bytes(UnsafeRawBufferPointer)
        case update(Update)
        /// A complete SETTINGS frame that is not an acknowledgement. Valid inside the call only.
        case settings(UnsafeRawBufferPointer)
        /// A part of a header block follows, on a stream whose ID is not above all others.
        ///
        /// The block is a trailer, or belongs to a closed stream.
        case oldHead(number: Int32, payloadBytes: Int)
        /// HEADERS on a stream whose ID the peer has skipped (RFC 9113 §5.1.1). Nothing follows.
        case passedOver
        /// A header block is too long. Nothing follows.
        case blockTooLong
    }

    /// The incomplete header block (RFC 9113 §4.3).
    private enum Block {
        case none
        /// The block belongs to a stream whose ID is above all others.
        case newHead(bytesCount: Int32)
        /// See ``Part/oldHead(number:payloadBytes:)``.
        case oldHead(bytesCount: Int32)

        /// No header block has begun.
        var isNone: Bool { if case .none = self { true } else { false } }
    }

    private static let headerBytes = 9
    private static let updateBytes = 13
    /// The longest SETTINGS frame. nghttp2 ends the connection for a longer one.
    private static let settingsBytesMax = 32 * 6
    private static let (data, headers, settings, windowUpdate, continuation): (UInt8, UInt8, UInt8, UInt8, UInt8) = (0, 1, 4, 8, 9)
    private static let (acknowledgement, endHeaders): (UInt8, UInt8) = (1, 4)
    /// WINDOW_UPDATE and SETTINGS frames that take as long as a HEADERS frame.
    static let updatesPerHead = 8
    /// The most gaps between stream IDs that are remembered. Streams in older gaps count as closed.
    private static let gapsMax = 16

    /// The first bytes of a frame that is not complete enough to classify.
    private var partial: [UInt8] = []
    /// The bytes until the next frame begins; at first the client's preface.
    private var skip: Int32 = 24
    private var block = Block.none
    /// The largest stream ID of a HEADERS frame.
    private var lastNumber: Int32 = 0
    /// Stream IDs below ``lastNumber`` that were never used.
    private var gaps: [ClosedRange<Int32>] = []
    /// The bytes that ``skip`` counts belong to a body.
    private var isBody = false
    /// A frame has begun since ``takeBeginning()``, outside of a header block.
    private var hasBegun = false

    /// Whether a header block, or a frame other than DATA, has begun and is not complete.
    var isMidway: Bool { !block.isNone || !partial.isEmpty || (skip > 0 && !isBody) }

    /// Returns whether a frame has begun since the last call, outside of a header block.
    mutating func takeBeginning() -> Bool {
        defer { hasBegun = false }
        return hasBegun
    }

    /// Calls `body` with each part of `bytes` until it returns false. Returns the number of bytes taken.
    ///
    /// - Parameter limits: a header block of more than four times ``HTTPLimits/headerBytesMax`` is reported, and ends the call.
    /// - Parameter headsMax: the call ends before one more HEADERS frame. ``updatesPerHead`` frames that are taken out count as one. A
    ///   frame of an earlier call does not count.
    mutating func split(_ bytes: UnsafeRawBufferPointer, headsMax: Int, limits: HTTPLimits, _ body: (Part) -> Bool) -> Int {
        guard var next = completePartial(bytes, limits, body) else { return bytes.count }
        var start = next
        var (headsCount, updatesCount) = (0, 0)
        while next < bytes.count {
            if skip > 0 {
                let count = min(Int(skip), bytes.count - next)
                skip -= Int32(truncatingIfNeeded: count)
                next += count
                continue
            }
            let frame = UnsafeRawBufferPointer(rebasing: bytes[next...])
            if frame.count >= Self.headerBytes, frame[3] == Self.data, block.isNone {
                // The most frequent frame, which passes unchanged.
                (isBody, hasBegun) = (true, true)
                skip = Int32(Self.headerBytes + Self.payloadBytes(frame))
                continue
            }
            if frame.count < neededBytes(frame) {
                partial = Array(frame)
                hasBegun = hasBegun || block.isNone
                break
            }
            if let part = wholePart(frame) {
                if headsCount + updatesCount / Self.updatesPerHead >= headsMax { break }
                updatesCount += 1
                guard Self.pass(bytes[start..<next], body), body(part) else { return bytes.count }
                next += neededBytes(frame)
                start = next
                continue
            }
            if frame[3] == Self.headers, block.isNone {
                if headsCount + updatesCount / Self.updatesPerHead >= headsMax { break }
                headsCount += 1
            }
            // The session must process the bytes before an old head first: they may open or close its stream.
            if isOldHead(frame) {
                guard Self.pass(bytes[start..<next], body) else { return bytes.count }
                start = next
            }
            guard begin(frame, limits, body) else { return bytes.count }
            skip += Int32(Self.headerBytes)
        }
        _ = Self.pass(bytes[start..<next], body)
        return partial.isEmpty ? next : bytes.count
    }

    /// Continues a frame of an earlier call. Returns the number of bytes taken; nil when `body` returned false.
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
            // The frame began in an earlier call.
            hasBegun = false
            return goesOn ? taken + 1 : nil
        }
        swap(&frame, &partial)
        return bytes.count
    }

    /// Begins a frame of which at least the header is here. Returns false when nothing more must be read.
    private mutating func begin(_ frame: UnsafeRawBufferPointer, _ limits: HTTPLimits, _ body: (Part) -> Bool) -> Bool {
        let payloadBytes = Self.payloadBytes(frame)
        skip = Int32(payloadBytes)
        isBody = frame[3] == Self.data
        hasBegun = hasBegun || block.isNone
        switch frame[3] {
        case Self.headers:
            block = isOldHead(frame) ? .oldHead(bytesCount: 0) : .newHead(bytesCount: 0)
            guard takeNumber(Self.number(frame)) else {
                _ = body(.passedOver)
                return false
            }
        case Self.continuation: break
        default: return true
        }
        let blockBytes: Int32
        switch block {
        case .none: return true
        case .newHead(let bytesCount):
            blockBytes = bytesCount + Int32(payloadBytes)
            block = .newHead(bytesCount: blockBytes)
        case .oldHead(let bytesCount):
            guard body(.oldHead(number: Self.number(frame), payloadBytes: payloadBytes)) else { return false }
            blockBytes = bytesCount + Int32(payloadBytes)
            block = .oldHead(bytesCount: blockBytes)
        }
        if blockBytes > 4 * limits.headerBytesMax {
            _ = body(.blockTooLong)
            return false
        }
        if frame[4] & Self.endHeaders != 0 { block = .none }
        return true
    }

    /// Records the ID of a stream. Returns false when the peer has skipped it.
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

    /// The bytes of a frame that must be here before it is classified.
    private func neededBytes(_ frame: UnsafeRawBufferPointer) -> Int {
        isSettings(frame) ? Self.headerBytes + Self.payloadBytes(frame) : isUpdate(frame) ? Self.updateBytes : Self.headerBytes
    }

    /// The part for a frame that is taken out; nil for other frames.
    ///
    /// Within a header block no frame is taken out: nghttp2 ends the connection for any frame there (RFC 9113 §4.3).
    private func wholePart(_ frame: UnsafeRawBufferPointer) -> Part? {
        if isUpdate(frame) { return .update(Self.update(frame)) }
        return isSettings(frame) ? .settings(UnsafeRawBufferPointer(rebasing: frame.prefix(neededBytes(frame)))) : nil
    }

    /// Whether a frame is a WINDOW_UPDATE of the correct length. nghttp2 rejects another length.
    private func isUpdate(_ frame: UnsafeRawBufferPointer) -> Bool {
        frame.count >= Self.headerBytes && block.isNone && frame[3] == Self.windowUpdate && Self.payloadBytes(frame) == 4
    }

    /// Whether a frame is a SETTINGS frame of a correct length, and not an acknowledgement.
    private func isSettings(_ frame: UnsafeRawBufferPointer) -> Bool {
        guard frame.count >= Self.headerBytes, block.isNone, frame[3] == Self.settings else { return false }
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
