import PresenceCore
import PresenceWire

/// The connection from one node to another, as the caller's shell keeps it (`OutgoingLink`): in order, acknowledged, and broken with
/// what is on the way.
struct SimulatedLink {
    enum State { case idle, connecting, live }

    let from: Int
    let to: Int
    var state = State.idle
    /// Counts the attempts: what belongs to an earlier one is void.
    var attempt = 0
    /// The connection of the present attempt, from the hello on it.
    var connection = ConnectionID(generation: 0, number: 0)
    /// The core takes the other node for linked.
    var isPeer = false
    /// The newest card of the process that is to be at the other end, and the one known when the present attempt began.
    private(set) var expected: Peer?
    var tried: Peer?
    var failuresCount = 0
    var inFlightCount = 0
    var heardAt: Nanoseconds = 0
    /// The attempt for which ``Occurrence/What/silent(link:attempt:)`` is planned.
    var watched: Int?
    /// Connections keep the order of what they carry.
    var lastArrival: Nanoseconds = 0
    var lastAnswer: Nanoseconds = 0
    var blockedUntil: Nanoseconds = 0
    var delay: Nanoseconds = 0
    var delayedUntil: Nanoseconds = 0
    var random: SplitMix64

    /// A link that is silent for so long with something in flight is broken; so is an attempt to connect (`OutgoingLink.silenceMax`).
    static let silenceMax: Nanoseconds = .milliseconds(10_000)
    static let connectTimeout: Nanoseconds = .milliseconds(1_000)

    mutating func expect(_ card: Peer) { if card.generation >= expected?.generation ?? 0 { expected = card } }

    /// When what is sent now arrives, after everything that was sent before.
    mutating func arrival(at now: Nanoseconds) -> Nanoseconds {
        lastArrival = max(lastArrival + 1, passage(at: now))
        return lastArrival
    }

    /// - Parameter blockedUntil: of the direction in which the answer goes.
    mutating func answer(at now: Nanoseconds, blockedUntil: Nanoseconds) -> Nanoseconds {
        let passage = max(now, blockedUntil) + latency(at: now)
        lastAnswer = max(lastAnswer + 1, passage)
        return lastAnswer
    }

    private mutating func passage(at now: Nanoseconds) -> Nanoseconds { max(now, blockedUntil) + latency(at: now) }

    mutating func latency(at now: Nanoseconds) -> Nanoseconds {
        let base = random.microseconds(100...900)
        return now < delayedUntil ? base + random.microseconds(0...Int(delay / 1_000)) : base
    }

    func isBlocked(at now: Nanoseconds) -> Bool { now < blockedUntil }
}
