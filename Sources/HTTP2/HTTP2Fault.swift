import CNGHTTP2

/// Why a server ends an HTTP/2 connection for its peer's fault; told in the last GOAWAY (RFC 9113 §5.4.1).
enum HTTP2Fault: UInt8 {
    /// The bytes that came are not HTTP/2.
    case protocolError
    /// A flow-control window grows beyond 2³¹ - 1 (RFC 9113 §6.9.1).
    case flowControl
    /// Header blocks far above the limit, or too many above it.
    case headerFlood
    /// Streams opened and reset, again and again.
    case resetFlood
    /// Frames provoked and not read.
    case frameFlood
    /// The time for a header block is over.
    case headerTimeout
    /// Answers wait, and the peer takes nothing of them.
    case windowShut
    /// Of all connections of a loop that held too much it held most.
    case heldTooMuch

    /// What libnghttp2 says of bytes that it does not take.
    init(status: Int) {
        switch status {
        case Int(NGHTTP2_ERR_FLOODED.rawValue): self = .frameFlood
        case Int(NGHTTP2_ERR_TOO_MANY_CONTINUATIONS.rawValue): self = .headerFlood
        default: self = .protocolError
        }
    }

    /// The error code of the GOAWAY (RFC 9113 §7).
    var error: UInt32 {
        switch self {
        case .protocolError: UInt32(NGHTTP2_PROTOCOL_ERROR.rawValue)
        case .flowControl: UInt32(NGHTTP2_FLOW_CONTROL_ERROR.rawValue)
        case .headerFlood, .resetFlood, .frameFlood, .windowShut, .heldTooMuch: UInt32(NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
        case .headerTimeout: UInt32(NGHTTP2_NO_ERROR.rawValue)
        }
    }

    /// The violation that the metrics count.
    var violation: HTTPViolation {
        switch self {
        case .protocolError, .flowControl: .protocolError
        case .headerFlood: .headerFlood
        case .resetFlood: .resetFlood
        case .frameFlood: .frameFlood
        case .headerTimeout: .headerTimeout
        case .windowShut: .windowShut
        case .heldTooMuch: .heldTooMuch
        }
    }
}
