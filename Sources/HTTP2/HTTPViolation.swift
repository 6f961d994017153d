/// A rule that a peer has broken. The raw value is the label of the metric.
public enum HTTPViolation: String, Sendable, CaseIterable {
    case headerListTooLarge, bodyTooLarge, bufferedTooMuch, headerTimeout, bodyTimeout, protocolError, resetFlood, frameFlood, answerTimeout
    case headerFlood, windowShut, heldTooMuch, unreadTooMuch
    /// A new connection was left unread for a while, because its address repeats refused requests: see ``PacedAddresses``.
    case pacedAddress
    /// A connection did not begin with the header of the PROXY protocol, on a port that asks for it.
    case noProxyHeader
}
