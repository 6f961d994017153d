import HTTP2
import NIOCore
import PresenceCore

extension EventStreamConnection {
    /// Adds a session to the connection. Of all its sessions, the shortest times count.
    func tightenSilenceLimits(to limits: HTTPServerConnection.SilenceLimits) {
        silenceLimits =
            silenceLimits.map {
                HTTPServerConnection.SilenceLimits(ping: min($0.ping, limits.ping), end: min($0.end, limits.end))
            } ?? limits
        // A client that speaks HTTP/1.1 sends nothing on a stream. TCP notices by missing acknowledgements that the client is gone.
        if !isHTTP2 { boundUnacknowledged(limits.unacknowledgedMax) }
    }
}

extension HTTPServerConnection.SilenceLimits {
    init(_ heartbeat: Heartbeat) { self.init(ping: TimeAmount(heartbeat.interval), end: TimeAmount(heartbeat.timeout)) }

    /// How long TCP may wait for an acknowledgement of what was sent, so that the session ends within ``end`` of silence (T6).
    ///
    /// If a network fails just after a comment was acknowledged, nothing is unacknowledged until the next comment. That comment is due
    /// after ``ping``, and the next tick sends it, up to a second later. TCP may then wait for the rest of ``end``. The least is a second,
    /// because TCP takes 0 for no bound at all.
    var unacknowledgedMax: TimeAmount { max(end - ping - TimeAmount(GatewayLoop.tickInterval), .seconds(1)) }
}

extension TimeAmount {
    init(_ duration: Duration) { self = .nanoseconds(duration.wholeNanoseconds) }
}
