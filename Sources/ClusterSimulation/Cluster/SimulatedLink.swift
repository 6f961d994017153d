import PresenceCore
import PresenceWire

/// The connection from one node to another, as the caller's shell keeps it (`OutgoingLink`).
///
/// It keeps the order, has acknowledgements, and loses what is on its way when it breaks.
struct SimulatedLink {
    enum State { case idle, connecting, live }

    let from: Int
    let to: Int
    var state = State.idle
    /// The number of the attempt. An event of an earlier attempt is ignored.
    var attempt = 0
    /// The connection of the current attempt, from the hello on.
    var connection = ConnectionID(generation: 0, number: 0)
    /// Whether the core considers the other node linked.
    var isPeer = false
    /// The newest known process at the other end, and the one known when the current attempt started.
    private(set) var expected: Peer?
    var tried: Peer?
    var failuresCount = 0
    /// Why the other node refuses this one, by its last answer.
    var refusal: HelloRefusal?
    var inFlightCount = 0
    /// The messages about clocks that have arrived in the current second.
    var clocks: (since: Nanoseconds, count: Int) = (0, 0)
    var lastSignOfLifeAt: Nanoseconds = 0
    /// The attempt for which ``SimulationEvent/What/silent(link:attempt:)`` is scheduled.
    var watched: Int?
    /// The last arrival. A connection keeps the order of its content.
    var lastArrival: Nanoseconds = 0
    var lastAnswer: Nanoseconds = 0
    var blockedUntil: Nanoseconds = 0
    var delay: Nanoseconds = 0
    var delayedUntil: Nanoseconds = 0
    var random: SplitMix64

    /// The silence after which a link with unacknowledged content is broken, and an attempt to connect fails (`OutgoingLink.silenceMax`).
    static let silenceMax: Nanoseconds = .milliseconds(10_000)
    static let connectTimeout: Nanoseconds = .milliseconds(1_000)

    /// Begins an attempt to connect. Returns false if the link is not idle, or leads to its own node.
    mutating func begin(at now: Nanoseconds) -> Bool {
        guard state == .idle, from != to else { return false }
        state = .connecting
        attempt += 1
        tried = expected
        lastSignOfLifeAt = now
        return true
    }

    /// Drops a link whose own process is gone.
    mutating func drop() {
        attempt += 1
        (state, isPeer, failuresCount) = (.idle, false, 0)
    }

    mutating func expect(_ peer: Peer) { if peer.generation >= expected?.generation ?? 0 { expected = peer } }

    /// Goes live: the other process has accepted this one.
    mutating func open(to peer: Peer) {
        (state, isPeer, failuresCount, inFlightCount, refusal) = (.live, true, 0, 0, nil)
        expect(peer)
    }

    /// Ends the faults of the link.
    mutating func heal(at now: Nanoseconds) { (blockedUntil, delayedUntil, lastArrival, lastAnswer) = (now, now, now, now) }

    mutating func block(until end: Nanoseconds) { blockedUntil = max(blockedUntil, end) }

    /// The arrival time of what is sent now, after everything that was sent before.
    mutating func arrival(at now: Nanoseconds) -> Nanoseconds {
        lastArrival = max(lastArrival + 1, passage(at: now))
        return lastArrival
    }

    /// The time of an answer.
    ///
    /// - Parameter blockedUntil: the end of the block of the answer's direction.
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
