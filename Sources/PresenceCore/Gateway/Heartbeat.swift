import PresenceWire

/// The ping interval and the timeout of one session.
///
/// Both are decided when the session is opened, sent with `onConnected`, and kept until the session ends.
public struct Heartbeat: Equatable, Sendable {
    /// How often a silent client is pinged, in whole seconds; at least one.
    ///
    /// The interval of the node or the one that the client asks for, and at most a third of ``timeout``: two answers may then be lost.
    public let interval: Duration
    /// How long a client may be silent before its session ends.
    public let timeout: Duration

    init(timeout: Duration, intervalMax: Duration) {
        self.timeout = timeout
        interval = .seconds(max(min(intervalMax.components.seconds, timeout.components.seconds / 3), 1))
    }
}

extension Gateway {
    /// The heartbeat of a new session of a user on a platform.
    ///
    /// - Parameter asked: the interval that the client asks for; nil for that of the node, which is the longest.
    public func heartbeat(of user: UserID, on platform: String, every asked: Duration? = nil) -> Heartbeat {
        Heartbeat(
            timeout: policy(of: user).livenessTimeout(of: platform),
            intervalMax: min(settings.heartbeatInterval, asked ?? settings.heartbeatInterval))
    }
}
