import PresenceCore
import PresenceWire

/// The sessions of a history, and the end that each of them may have.
struct SessionLedger {
    /// The end of the token of a session.
    struct Token {
        /// The end that the gateway knows for certain.
        var least: Milliseconds
        /// The last end that a renewal may have brought.
        var most: Milliseconds
        /// The time of the last acknowledged renewal.
        var renewedAt: Nanoseconds = .min / 2
    }

    /// A stream that its client has left for another one, and that nothing has ended.
    struct HalfOpen {
        let client: Int
        let stream: SimulatedClient.Stream
    }

    private(set) var openedCount = 0
    private var tokens: [SessionID: Token] = [:]
    private(set) var halfOpen: [HalfOpen] = []
    /// The time of the last call of each user that ends all sessions: a logout, and a kick.
    var loggedOutAt: [Int: Nanoseconds] = [:]
    var kickedAt: [Int: Nanoseconds] = [:]

    mutating func open(_ session: SessionID, until expiresAt: Milliseconds) {
        openedCount += 1
        if expiresAt < .max { tokens[session] = Token(least: expiresAt, most: expiresAt) }
    }

    /// The end of the token of a session; nil if it does not end.
    func token(of session: SessionID) -> Token? { tokens[session] }

    mutating func askRenewal(of session: SessionID, until expiresAt: Milliseconds) {
        guard let token = tokens[session] else { return }
        tokens[session]?.most = max(token.most, expiresAt)
    }

    mutating func renewed(_ session: SessionID, until expiresAt: Milliseconds, at now: Nanoseconds) {
        guard let token = tokens[session] else { return }
        tokens[session]?.least = max(token.least, expiresAt)
        tokens[session]?.renewedAt = now
    }

    /// The client of a stream has gone on to another stream.
    mutating func leave(_ stream: SimulatedClient.Stream, by client: Int) { halfOpen.append(HalfOpen(client: client, stream: stream)) }

    /// Removes and returns the stream that a client has left, by its place at a node.
    mutating func takeHalfOpen(_ index: Gateway.SessionIndex, at gateway: Int, of node: Int) -> HalfOpen? {
        halfOpenIndex(index, at: gateway, of: node).map { halfOpen.remove(at: $0) }
    }

    func isHalfOpen(_ index: Gateway.SessionIndex, at gateway: Int, of node: Int) -> Bool {
        halfOpenIndex(index, at: gateway, of: node) != nil
    }

    private func halfOpenIndex(_ index: Gateway.SessionIndex, at gateway: Int, of node: Int) -> Int? {
        halfOpen.firstIndex { $0.stream.node == node && $0.stream.gateway == gateway && $0.stream.index == index }
    }

    /// The process of a node has ended, and its streams with it.
    mutating func processEnded(_ node: Int) { halfOpen.removeAll { $0.stream.node == node } }
}
