import PresenceCore
import PresenceWire

/// The turns in which one event loop carries out the output of its gateway.
///
/// A turn that is under way takes what comes meanwhile, so that turns neither overlap nor nest.
struct PushTurns {
    private enum Phase { case idle, scheduled, underWay }

    /// The output of the gateway that is being carried out.
    private(set) var output = Gateway.Output()
    /// The time from a change to its push.
    private(set) var seconds = LatencyHistogram()
    private var phase = Phase.idle

    init() {}

    /// Returns whether a turn has to be scheduled, because none is scheduled or under way.
    mutating func schedule() -> Bool {
        guard phase == .idle else { return false }
        phase = .scheduled
        return true
    }

    /// Begins a turn. Returns false if one is under way.
    mutating func begin() -> Bool {
        guard phase != .underWay else { return false }
        phase = .underWay
        return true
    }

    /// Takes the output of the gateway, and gives it the memory of the output before. Returns false if there is nothing to carry out.
    mutating func takeOutput(of gateway: inout Gateway) -> Bool {
        gateway.endTurn()
        guard !gateway.output.isEmpty else { return false }
        swap(&gateway.output, &output)
        return true
    }

    /// All of the output was carried out. Returns the messages to the node.
    mutating func finishOutput() -> [GatewayMessage] {
        let messages = output.toNode
        output.clear()
        return messages
    }

    /// Ends the turn.
    mutating func end() { phase = .idle }

    /// Counts a change that was pushed to `sessionsCount` sessions. A change that is older than a minute says nothing of this node.
    mutating func observe(age: Milliseconds, sessionsCount: Int) {
        guard sessionsCount > 0, age < 60_000 else { return }
        seconds.observe(seconds: Double(max(age, 0)) / 1_000, count: UInt64(sessionsCount))
    }
}
