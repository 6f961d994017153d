import NIOCore

/// One HTTP/2 frame as bytes (RFC 9113 §4.1), also one that client libraries do not send.
struct RawFrame: Equatable, CustomStringConvertible {
    enum Kind: UInt8 { case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation }

    static let (endStream, endHeaders): (UInt8, UInt8) = (1, 4)
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    /// The first bytes of a client: the preface and an empty SETTINGS frame.
    static let hello = preface + RawFrame(.settings).bytes

    var kind: Kind
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []

    init(_ kind: Kind, flags: UInt8 = 0, stream: UInt32 = 0, payload: [UInt8] = []) {
        (self.kind, self.flags, self.stream, self.payload) = (kind, flags, stream, payload)
    }

    var bytes: [UInt8] {
        let count = payload.count
        return [UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255), kind.rawValue, flags] + Self.big(stream) + payload
    }

    var description: String { "\(kind) \(stream) flags \(flags) \(payload.count < 20 ? "\(payload)" : "\(payload.count) bytes")" }

    var isEnd: Bool { (kind == .data || kind == .headers) && flags & Self.endStream != 0 }

    /// The error code of a RST_STREAM or GOAWAY (RFC 9113 §7).
    var error: UInt32 { payload[(kind == .goAway ? 4 : 0)...].prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }

    static func big(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    static func head(_ stream: UInt32, _ fields: [UInt8], isEnd: Bool = true) -> RawFrame {
        RawFrame(.headers, flags: endHeaders | (isEnd ? endStream : 0), stream: stream, payload: fields)
    }

    static func update(_ stream: UInt32, by increment: UInt32) -> RawFrame {
        RawFrame(.windowUpdate, stream: stream, payload: big(increment))
    }

    /// SETTINGS_INITIAL_WINDOW_SIZE.
    static func initialWindow(_ bytesCount: UInt32) -> RawFrame { RawFrame(.settings, payload: [0, 4] + big(bytesCount)) }

    /// `:method: GET`, `:scheme: http`, `:path: /`, from HPACK's table (RFC 7541 appendix A), and `:authority: a`.
    static let get: [UInt8] = [0x82, 0x86, 0x84, 0x01, 1, UInt8(ascii: "a")]
    /// As ``get``, with `:method: POST`.
    static let post: [UInt8] = [0x83] + get.dropFirst()

    /// A field that is not in a table (RFC 7541 §6.2.2). With `isIndexed` it becomes the first of the dynamic table (§6.2.1).
    static func field(_ name: String, _ value: String, isIndexed: Bool = false) -> [UInt8] {
        [isIndexed ? 0x40 : 0] + text(name) + text(value)
    }

    /// A reference to the newest field of the dynamic table.
    static let lastIndexed: UInt8 = 0x80 | 62

    private static func text(_ text: String) -> [UInt8] {
        var rest = text.utf8.count
        guard rest >= 127 else { return [UInt8(rest)] + text.utf8 }
        var length: [UInt8] = [127]
        rest -= 127
        while rest >= 128 {
            length.append(UInt8(rest % 128 | 128))
            rest /= 128
        }
        return length + [UInt8(rest)] + text.utf8
    }

    /// Takes the complete frames from the beginning of `buffer`.
    static func read(from buffer: inout ByteBuffer) -> [RawFrame] {
        var frames: [RawFrame] = []
        while let head = buffer.getBytes(at: buffer.readerIndex, length: 9) {
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard buffer.readableBytes >= 9 + count, let kind = Kind(rawValue: head[3]) else { break }
            buffer.moveReaderIndex(forwardBy: 9)
            let stream = head[5...].reduce(0) { $0 << 8 | UInt32($1) }
            frames.append(RawFrame(kind, flags: head[4], stream: stream, payload: buffer.readBytes(length: count) ?? []))
        }
        return frames
    }
}
