import PresenceWire

/// What a gateway says to the core of its own node.
public enum GatewayMessage: Equatable, Sendable {
    /// A session was opened.
    case open(Attach)
    /// A session has ended.
    case close(Detach)
    /// Somebody here follows these users now.
    case want([UserID])
    /// Nobody here follows them any more.
    case unwant([UserID])
}

/// What the core of a node says to its gateways.
public enum NodeMessage: Equatable, Sendable {
    /// A newer record of a user that the gateway wants, or the first.
    case deliver(Record)
    /// Whom a user with sessions here follows.
    case interest(Interest)
    /// The call for which such an interest said what it told was refused in the end: it has told nothing.
    case untold(Interest)
    /// End a session's stream.
    case end(SessionID, reason: String)
    /// A user's sessions end, and tokens issued before this time are void.
    case kicked(UserID, before: Milliseconds, reason: String)
    /// These kicks are not remembered any more.
    case forgetKicks([UserID])
    /// The policy of an app, or with nil that of all others. Indirect: it would make every message, and every effect, twice as long.
    indirect case policy(app: String?, Policy)
    /// All that this node shows is complete up to this time.
    case position(Milliseconds)
}

/// What a gateway tells its clients and bears from them.
public struct GatewaySettings: Sendable, Equatable {
    /// How often a silent client is asked for a sign of life, or more often where its app's timeout is short: see ``Heartbeat``. Default 30 s.
    public var heartbeatInterval: Duration = .seconds(30)
    /// How long a session may leave its queue full. Default 60 s.
    public var slowReaderTimeout: Duration = .seconds(60)

    public init() {}
}
