import CNGHTTP2

/// The fault of a peer for which the server ends an HTTP/2 connection.
///
/// The last GOAWAY carries its error code (RFC 9113 §5.4.1).
enum HTTP2Fault: UInt8 {
    /// The received bytes are not HTTP/2.
    case protocolError
    /// A flow-control window grows beyond 2³¹ - 1 (RFC 9113 §6.9.1).
    case flowControl
    /// One header block is far above the limit, or too many are above it.
    case headerFlood
    /// The peer opens and resets too many streams.
    case resetFlood
    /// The peer provokes frames and does not read them.
    case frameFlood
    /// A header block is not complete in time.
    case headerTimeout
    /// Answers wait, and the peer reads nothing.
    case windowShut
    /// The connections of the loop hold too many bytes, and this one holds most.
    case heldTooMuch
    /// The connections of the loop hold too many bytes of unread answers, and those of this one are the oldest.
    case unreadTooMuch

    /// Makes the fault for an error of `nghttp2_session_mem_recv`.
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
        case .headerFlood, .resetFlood, .frameFlood, .windowShut, .heldTooMuch, .unreadTooMuch: UInt32(NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
        case .headerTimeout: UInt32(NGHTTP2_NO_ERROR.rawValue)
        }
    }

    /// Whether the peer sent much that costs little to send. It may connect again at once, so its address is paced.
    var isFlood: Bool { [.headerFlood, .resetFlood, .frameFlood].contains(self) }

    /// The violation for the metrics.
    var violation: HTTPViolation {
        switch self {
        case .protocolError, .flowControl: .protocolError
        case .headerFlood: .headerFlood
        case .resetFlood: .resetFlood
        case .frameFlood: .frameFlood
        case .headerTimeout: .headerTimeout
        case .windowShut: .windowShut
        case .heldTooMuch: .heldTooMuch
        case .unreadTooMuch: .unreadTooMuch
        }
    }
}
