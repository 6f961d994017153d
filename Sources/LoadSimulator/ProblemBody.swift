import PresenceWire

/// The fields of a refusal's body that the simulator reads.
struct ProblemBody {
    /// The refusal's code.
    let code: String?
    /// The seconds to wait before the next try, at most an hour; nil when the node does not say.
    let retryAfter: Int64?
    /// Whether the node has passed the call on, so that it may still take effect.
    let mayTakeEffect: Bool

    init(_ bytes: [UInt8]) {
        let object = try? JSONReader.read(bytes)
        mayTakeEffect = object?["mayTakeEffect"] == true
        if case .integer(let code)? = object?["code"] { self.code = String(code) } else { code = nil }
        if case .integer(let seconds)? = object?["retryAfter"] { retryAfter = min(max(seconds, 0), 3_600) } else { retryAfter = nil }
    }
}
