import PresenceWire

/// A message of a gateway to the core of its own node.
public enum GatewayMessage: Equatable, Sendable {
    /// A session was opened.
    case open(Attach)
    /// A session has ended.
    case close(Detach)
    /// A session here follows these users from now on, and none did before.
    case subscribe([UserID])
    /// No session here follows these users any more.
    case release([UserID])
}

/// A message of a node's core to its gateways.
public enum NodeMessage: Equatable, Sendable {
    /// The first or a newer record of a user that the gateway has subscribed to.
    case deliver(Record)
    /// The subscription list of a user with sessions here, or a change of it.
    case listUpdate(ListUpdate)
    /// The call that has made this change of the list has failed, so its answer sends the client no record.
    case callFailed(ListUpdate)
    /// End a session's stream.
    case end(SessionID, reason: String)
    /// A client has renewed its session with a token that ends at this time, or has shown with `.min` only that it is alive.
    case renew(SessionID, until: Milliseconds)
    /// The sessions of a user end, and tokens that were issued earlier than this time are void (``VoidTokens``).
    case kicked(UserID, before: Milliseconds, reason: String)
    /// The kicks of these users have expired.
    case expireKicks([UserID])
    /// The policy of an app and the time of its last change; for nil, the policy of all other apps.
    ///
    /// Indirect, because it would double the size of every message.
    indirect case policy(app: String?, Policy, changedAt: Milliseconds = 0)
    /// The node stood still, so its records may be old. Each is withheld until it is delivered again.
    case doubt
    /// The node may not know better about these users from now on, and knows about all others.
    case unsure(UnsureUsers)
    /// The records of this node are complete up to this time.
    case position(Milliseconds)
}

/// Heartbeat and slow-reader limits of a gateway.
public struct GatewaySettings: Sendable, Equatable {
    /// How often a silent client is pinged. Default 30 s.
    ///
    /// A client whose app has a short timeout is pinged more often: see ``Heartbeat``.
    public var heartbeatInterval: Duration = .seconds(30)
    /// How long the queue of a session may stay full before the session is cut off. Default 60 s.
    public var slowReaderTimeout: Duration = .seconds(60)

    public init() {}
}
