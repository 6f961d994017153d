/// What a session is told by a node, and of its own connection.
public enum PresenceEvent: Sendable, Equatable {
    /// A session was opened, for the first time or again.
    case connected(Session)
    /// Statuses that are newer than those told before: of oneself, of friends, of strangers one follows; each user once.
    case userStatusChanged([UserStatus])
    /// Everything that the session follows has been told.
    case subscriptionSyncCompleted(SubscribeType)
    /// Another device of the same user has subscribed or unsubscribed.
    case subscriptionChangedOnOtherDevices(SubscriptionChange)
    /// Subscriptions of these users have run out; told only where the app's policy wants it (`subscription.notifyExpiry`).
    case subscriptionExpired([String])
    /// The session was ended by the node; the client does not come back by itself.
    case kickedOffline(reason: String)
    /// The connection is in another state.
    case connectionStateChanged(ConnectionChange)
}

/// A session as `onConnected` describes it.
public struct Session: Sendable, Equatable, Codable {
    /// The session's name, for `logout`.
    public var sessionID: String
    /// The user that the token names.
    public var userID: String
    /// The node that holds the session.
    public var node: String
    /// Seconds between two signs of life.
    public var heartbeatInterval: Int
    /// Seconds of silence after which the node gives the session up.
    public var heartbeatTimeout: Int
    /// The node's clock, in milliseconds since 1970.
    public var serverTime: Int64
}

/// What another device of the same user has changed in the subscriptions that they share.
public struct SubscriptionChange: Sendable, Equatable {
    /// Users that are followed now.
    public var subscribed: [String]
    /// Users that are no longer followed.
    public var unsubscribed: [String]

    /// - Parameters: see the properties.
    public init(subscribed: [String] = [], unsubscribed: [String] = []) {
        self.subscribed = subscribed
        self.unsubscribed = unsubscribed
    }

    /// Adds what was changed later; the later word on a user counts.
    mutating func merge(_ later: SubscriptionChange) {
        let named = Set((later.subscribed + later.unsubscribed).map { UserKey($0) })
        subscribed = subscribed.filter { !named.contains(UserKey($0)) } + later.subscribed
        unsubscribed = unsubscribed.filter { !named.contains(UserKey($0)) } + later.unsubscribed
    }
}

/// Whether the client is connected.
public enum ConnectionState: Sendable, Hashable {
    /// No session, and none is sought.
    case disconnected
    /// The first session is being opened.
    case connecting
    /// A session is open.
    case connected
    /// The session was lost, and another is being opened.
    case reconnecting
}

/// Why the connection is in its state.
public enum ConnectionReason: Sendable, Equatable {
    /// `login` was called.
    case login
    /// A node has opened the session.
    case sessionOpened
    /// The connection broke, or the node ended the stream.
    case connectionLost(String)
    /// No node took the session.
    case refused(PresenceError)
    /// A node ended the session.
    case kickedOffline(String)
    /// `logout` was called.
    case loggedOut
    /// `close` was called.
    case closed
}

/// A change of the connection's state.
public struct ConnectionChange: Sendable, Equatable {
    /// The state now.
    public var state: ConnectionState
    /// Why.
    public var reason: ConnectionReason

    /// - Parameters: see the properties.
    public init(_ state: ConnectionState, _ reason: ConnectionReason) {
        self.state = state
        self.reason = reason
    }
}
