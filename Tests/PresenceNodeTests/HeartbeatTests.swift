import HTTP2
import NIOCore
import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct HeartbeatTests {
    /// The network may die just after a comment was acknowledged: the next one is sent an interval and a tick later at most.
    @Test("TCP gives up within the session's time of silence, counted from the last comment before it", arguments: [15, 60, 400, 3_600])
    func unacknowledged(timeout: Int64) throws {
        var policy = Policy()
        try policy.set("liveness.timeout", to: .integer(timeout))
        var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
        gateway.receive(.policy(app: nil, policy))
        let heartbeat = gateway.heartbeat(of: UserID(app: "default", id: "ann"), on: "ios")
        let interval = heartbeat.interval.components.seconds
        let limits = HTTPServerConnection.SilenceLimits(heartbeat)
        #expect(limits.unacknowledgedMax == .seconds(timeout - interval - 1))
        #expect(limits.unacknowledgedMax >= .seconds(1))
    }

    @Test("A client may ask for a shorter interval than that of the node, not for a longer one") func asked() {
        let gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
        let intervals = [nil, 4, 60].map { (seconds: Int64?) in
            gateway.heartbeat(of: UserID(app: "default", id: "ann"), on: "ios", every: seconds.map { .seconds($0) }).interval
        }
        #expect(intervals == [.seconds(30), .seconds(4), .seconds(30)])
    }
}
