/// What a peer did against the rules; for the metric.
public enum HTTPViolation: String, Sendable, CaseIterable {
    case headerListTooLarge, bodyTooLarge, bufferedTooMuch, headerTimeout, bodyTimeout, protocolError, resetFlood, frameFlood, answerTimeout
    case headerFlood, windowShut, heldTooMuch
    /// A new connection was left unread for a while, because its address asks again for what it was just refused: see ``PacedAddresses``.
    case pacedAddress
}
