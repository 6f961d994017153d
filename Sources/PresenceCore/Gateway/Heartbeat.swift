import PresenceWire

/// How a session is seen to be alive: decided when it begins, told by `onConnected`, and kept while it lasts.
public struct Heartbeat: Equatable, Sendable {
    /// How often a silent client is asked for a sign of life: the node's interval, or a third of ``timeout`` if that is shorter, so that
    /// two signs may be lost; whole seconds, at least one.
    public let interval: Duration
    /// After how much silence the session is lost.
    public let timeout: Duration

    init(timeout: Duration, intervalMax: Duration) {
        self.timeout = timeout
        interval = .seconds(max(min(intervalMax.components.seconds, timeout.components.seconds / 3), 1))
    }
}

extension Gateway {
    /// Of a session on a platform.
    public func heartbeat(of user: UserID, on platform: String) -> Heartbeat {
        Heartbeat(timeout: policies.policy(of: user).livenessTimeout(of: platform), intervalMax: settings.heartbeatInterval)
    }
}
