import HTTP2
import NIOCore
import PresenceCore

extension HTTPServerConnection {
    /// Of all sessions on it the shortest times count.
    func bear(_ limits: SilenceLimits) {
        silenceLimits = silenceLimits.map { SilenceLimits(ping: min($0.ping, limits.ping), end: min($0.end, limits.end)) } ?? limits
        // A client that speaks HTTP/1.1 says nothing on a stream: TCP tells that it is gone, by what it does not acknowledge.
        if !isHTTP2 { boundUnacknowledged(limits.unacknowledgedMax) }
    }
}

extension HTTPServerConnection.SilenceLimits {
    init(_ heartbeat: Heartbeat) { self.init(ping: TimeAmount(heartbeat.interval), end: TimeAmount(heartbeat.timeout)) }

    /// How long TCP may wait for an acknowledgement of what was sent, for the session to end within ``end`` of silence (T6).
    ///
    /// A network that dies just after a comment was acknowledged leaves nothing unacknowledged until the next comment. That is due after
    /// ``ping``, and is sent by the tick after it, up to a second later. The wait that TCP begins then is what remains of ``end``;
    /// never less than a second, because TCP takes 0 for no bound at all.
    var unacknowledgedMax: TimeAmount { max(end - ping - TimeAmount(GatewayLoop.tickInterval), .seconds(1)) }
}

extension TimeAmount {
    init(_ duration: Duration) { self = .nanoseconds(duration.wholeNanoseconds) }
}
