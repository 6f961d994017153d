/// Finds the WINDOW_UPDATE frames among a client's bytes (RFC 9113 §4.1, §6.9); everything else is handed on as it came.
///
/// The DATA frames of event streams are written by hand, so their windows are counted by hand too, and nghttp2 must not hear of what
/// it did not send.
struct WindowUpdates {
    /// One WINDOW_UPDATE frame.
    struct Update {
        /// 0 for the connection.
        let number: Int32
        let increment: Int
    }

    /// What the bytes consist of, in order.
    enum Part {
        /// To be handed on. Valid inside the call only.
        case bytes(UnsafeRawBufferPointer)
        case update(Update)
    }

    private static let headerBytes = 9
    private static let updateBytes = 13
    /// Bytes until the next frame begins; at first the client's preface.
    private var skip = 24
    /// The beginning of a frame that is not whole enough to know what it is.
    private var partial: [UInt8] = []

    /// Calls `body` with each part of `bytes`.
    mutating func split(_ bytes: UnsafeRawBufferPointer, _ body: (Part) -> Void) {
        var next = completePartial(bytes, body)
        var start = next
        while next < bytes.count {
            if skip > 0 {
                let count = min(skip, bytes.count - next)
                skip -= count
                next += count
                continue
            }
            let frame = UnsafeRawBufferPointer(rebasing: bytes[next...])
            if frame.count < Self.headerBytes || (Self.isUpdate(frame) && frame.count < Self.updateBytes) {
                Self.pass(bytes[start..<next], body)
                partial = Array(frame)
                return
            }
            if Self.isUpdate(frame) {
                Self.pass(bytes[start..<next], body)
                body(.update(Self.update(frame)))
                next += Self.updateBytes
                start = next
            } else {
                skip = Self.headerBytes + Self.payloadBytes(frame)
            }
        }
        Self.pass(bytes[start...], body)
    }

    /// Goes on with a frame that an earlier call left; returns how many of `bytes` it took.
    private mutating func completePartial(_ bytes: UnsafeRawBufferPointer, _ body: (Part) -> Void) -> Int {
        guard !partial.isEmpty else { return 0 }
        var taken = 0
        while taken < bytes.count {
            partial.append(bytes[taken])
            taken += 1
            let isDone = partial.withUnsafeBytes { frame in
                guard frame.count >= Self.headerBytes else { return false }
                guard Self.isUpdate(frame) else {
                    skip = Self.payloadBytes(frame)
                    body(.bytes(frame))
                    return true
                }
                guard frame.count == Self.updateBytes else { return false }
                body(.update(Self.update(frame)))
                return true
            }
            guard isDone else { continue }
            partial = []
            return taken
        }
        return taken
    }

    private static func pass(_ bytes: Slice<UnsafeRawBufferPointer>, _ body: (Part) -> Void) {
        if !bytes.isEmpty { body(.bytes(UnsafeRawBufferPointer(rebasing: bytes))) }
    }

    private static func payloadBytes(_ frame: UnsafeRawBufferPointer) -> Int {
        Int(frame[0]) << 16 | Int(frame[1]) << 8 | Int(frame[2])
    }

    /// Type 8 and the only length that is right; another length is left to nghttp2 to complain about.
    private static func isUpdate(_ frame: UnsafeRawBufferPointer) -> Bool { frame[3] == 8 && payloadBytes(frame) == 4 }

    private static func update(_ frame: UnsafeRawBufferPointer) -> Update {
        let number = frame.loadUnaligned(fromByteOffset: 5, as: UInt32.self).bigEndian & 0x7FFF_FFFF
        let increment = frame.loadUnaligned(fromByteOffset: 9, as: UInt32.self).bigEndian & 0x7FFF_FFFF
        return Update(number: Int32(number), increment: Int(increment))
    }
}
