/// The position of a request in a client's trace, as the header field `traceparent` carries it (W3C Trace Context, level 1).
public struct TraceContext: Hashable, Sendable {
    /// The 16 bytes of the trace ID. One of the two numbers is not 0.
    public let traceHigh: UInt64
    public let traceLow: UInt64
    /// The span that the request belongs to; not 0.
    public let span: UInt64
    /// Whether the caller may have recorded the trace. Of the flags, level 1 defines only this one.
    public let isSampled: Bool

    /// Makes a context; nil if the trace ID or the span ID is 0.
    public init?(traceHigh: UInt64, traceLow: UInt64, span: UInt64, isSampled: Bool) {
        guard traceHigh | traceLow != 0, span != 0 else { return nil }
        (self.traceHigh, self.traceLow, self.span, self.isSampled) = (traceHigh, traceLow, span, isSampled)
    }

    /// The bytes of a value of version 00: version, trace ID, span ID and flags, with hyphens between them.
    public static let headerBytes = 55

    /// Reads the value of `traceparent`; nil for a value that breaks a rule, which a receiver ignores.
    ///
    /// - The digits are hexadecimal and lower-case. No ID is 0. The version `ff` does not exist.
    /// - A value of version 00 has exactly 55 bytes. A value of a later version may go on after a hyphen.
    public init?(header: UnsafeBufferPointer<UInt8>) {
        guard header.count >= Self.headerBytes, [2, 35, 52].allSatisfy({ header[$0] == Self.hyphen }) else { return nil }
        guard let version = Self.number(header[0..<2]), version != 0xFF,
            let high = Self.number(header[3..<19]), let low = Self.number(header[19..<35]), let span = Self.number(header[36..<52]),
            let flags = Self.number(header[53..<55])
        else { return nil }
        if header.count > Self.headerBytes, version == 0 || header[Self.headerBytes] != Self.hyphen { return nil }
        self.init(traceHigh: high, traceLow: low, span: span, isSampled: flags & 1 == 1)
    }

    private static let hyphen = UInt8(ascii: "-")

    /// The number of at most 16 lower-case hexadecimal digits.
    private static func number(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case 0x30...0x39: number = number << 4 | UInt64(digit - 0x30)
            case 0x61...0x66: number = number << 4 | UInt64(digit - 0x57)
            default: return nil
            }
        }
        return number
    }

    /// The context of a span that begins inside this one.
    ///
    /// - Parameter span: its ID, drawn at random; not 0.
    public func child(span: UInt64) -> TraceContext {
        precondition(span != 0, "a span ID is not 0")
        return TraceContext(traceHigh: traceHigh, traceLow: traceLow, span: span, isSampled: isSampled) ?? self
    }

    /// The trace ID as 32 digits.
    public var traceIDText: String { Self.digits(traceHigh) + Self.digits(traceLow) }

    /// The span ID as 16 digits.
    public var spanIDText: String { Self.digits(span) }

    /// A span ID as 16 digits.
    public static func text(ofSpan span: UInt64) -> String { digits(span) }

    private static func digits(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }
}

extension TraceContext {
    /// Writes the context in front of a request.
    func write(into wire: inout WireWriter) {
        wire.unsigned(traceHigh)
        wire.unsigned(traceLow)
        wire.unsigned(span)
        wire.tag(isSampled ? 1 : 0)
    }

    /// See ``write(into:)``.
    init(from wire: inout WireReader) throws(DecodeError) {
        let (high, low, span) = (try wire.unsigned(), try wire.unsigned(), try wire.unsigned())
        guard let context = TraceContext(traceHigh: high, traceLow: low, span: span, isSampled: try wire.flag()) else {
            throw .outOfRange(0)
        }
        self = context
    }
}
