import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct PushTurnsTests {
    private var turns = PushTurns()

    @Test("A turn is scheduled once, and not while one is under way")
    mutating func phases() {
        expect(turns.schedule() && !turns.schedule())
        expect(turns.begin() && !turns.begin() && !turns.schedule())
        turns.end()
        expect(turns.begin(), "a turn need not be scheduled")
        turns.end()
        expect(turns.schedule())
    }

    @Test("A turn takes the whole output of the gateway, and returns the messages for the node once")
    mutating func output() {
        var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
        expect(!turns.takeOutput(of: &gateway))
        let attach = Attach(session: SessionID(stamp: 1, node: 1), user: UserID(app: "default", id: "ann"), platform: "web")
        _ = gateway.open(attach, resumeFrom: nil, at: Now(instant: Instant(nanoseconds: 0), wall: 0))
        expect(turns.takeOutput(of: &gateway) && turns.output.pushes.count == 1 && gateway.output.isEmpty)
        expect(turns.finishOutput().count == 2 && turns.output.isEmpty)
        expect(!turns.takeOutput(of: &gateway))
    }

    @Test("A change counts once for each session that is pushed it, unless it is older than a minute")
    mutating func latency() {
        turns.observe(age: 20, sessionsCount: 3)
        turns.observe(age: -5, sessionsCount: 1)
        turns.observe(age: 20, sessionsCount: 0)
        turns.observe(age: 60_000, sessionsCount: 1)
        expect(turns.seconds.counts.reduce(0, +) == 4)
    }
}
