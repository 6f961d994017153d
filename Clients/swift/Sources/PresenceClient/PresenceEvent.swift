/// An event of a session or of its connection.
public enum PresenceEvent: Sendable, Equatable {
    /// A session was opened, for the first time or again.
    case connected(Session)
    /// Newer statuses of the own user, of friends and of followed users; each user once.
    case userStatusChanged([UserStatus])
    /// All statuses of this type that the session follows have arrived. It comes once for each type.
    case subscriptionSyncCompleted(SubscribeType)
    /// Another device of the same user has subscribed or unsubscribed.
    case subscriptionChangedOnOtherDevices(SubscriptionChange)
    /// Subscriptions to these users have expired. Sent only if the app's policy says so (`subscription.notifyExpiry`).
    case subscriptionExpired([String])
    /// The own user's open sessions on all devices have changed. It comes after a login, too, if there are others.
    case sessionsChanged([DeviceSession])
    /// The own relationship chain has changed, or the profile of a user whom the own user follows.
    case relationshipChanged(RelationshipChange)
    /// The node ended the session. The client does not log in again by itself.
    case kickedOffline(reason: String)
    /// The user logged this session out on another device. The client does not log in again by itself.
    case loggedOut
    /// The state of the connection has changed.
    case connectionStateChanged(ConnectionChange)
}

/// A session as `onConnected` describes it.
public struct Session: Sendable, Equatable, Codable {
    /// The session's ID, for `logout`.
    public var sessionID: String
    /// The user that the token names.
    public var userID: String
    /// The node that holds the session.
    public var node: String
    /// Seconds between two signs of life.
    public var heartbeatInterval: Int
    /// Seconds of silence after which the node ends the session.
    public var heartbeatTimeout: Int
    /// The node's clock, in milliseconds since 1970.
    public var serverTime: Int64

    package init(sessionID: String, userID: String, node: String, heartbeatInterval: Int, heartbeatTimeout: Int, serverTime: Int64) {
        self.sessionID = sessionID
        self.userID = userID
        self.node = node
        self.heartbeatInterval = heartbeatInterval
        self.heartbeatTimeout = heartbeatTimeout
        self.serverTime = serverTime
    }
}

/// A change that another device of the same user has made to the subscriptions.
public struct SubscriptionChange: Sendable, Equatable {
    /// One subscription.
    public struct Entry: Sendable, Hashable {
        /// The user whose status is followed.
        public var userID: String
        /// The type of the subscription.
        public var subscribeType: SubscribeType
        /// The time at which it ends by itself, in milliseconds since 1970; nil for never. The node sends no notice then.
        public var expiresAt: Int64?

        /// - Parameters: see the properties.
        public init(userID: String, subscribeType: SubscribeType = .onlineStatus, expiresAt: Int64? = nil) {
            self.userID = userID
            self.subscribeType = subscribeType
            self.expiresAt = expiresAt
        }
    }

    /// Subscriptions that were made, or renewed with another type or expiry.
    public var subscriptions: [Entry]
    /// Subscriptions that were ended.
    public var unsubscriptions: [Entry]

    /// The users that are followed now.
    public var subscribed: [String] { subscriptions.map(\.userID) }
    /// The users that are not followed any more.
    public var unsubscribed: [String] { unsubscriptions.map(\.userID) }

    /// - Parameters: see the properties.
    public init(subscriptions: [Entry], unsubscriptions: [Entry] = []) {
        self.subscriptions = subscriptions
        self.unsubscriptions = unsubscriptions
    }

    /// A change of subscriptions to the online status whose end is not known.
    ///
    /// - Parameters: see the properties.
    public init(subscribed: [String] = [], unsubscribed: [String] = []) {
        self.init(subscriptions: subscribed.map { Entry(userID: $0) }, unsubscriptions: unsubscribed.map { Entry(userID: $0) })
    }

    /// Adds a later change, which wins for each user.
    mutating func merge(_ later: SubscriptionChange) {
        let named = Set((later.subscriptions + later.unsubscriptions).map { UserKey($0.userID) })
        subscriptions = subscriptions.filter { !named.contains(UserKey($0.userID)) } + later.subscriptions
        unsubscriptions = unsubscriptions.filter { !named.contains(UserKey($0.userID)) } + later.unsubscriptions
    }
}

/// The state of the connection.
public enum ConnectionState: Sendable, Hashable {
    /// There is no session, and the client opens none.
    case disconnected
    /// The first session is being opened.
    case connecting
    /// A session is open.
    case connected
    /// The session was lost, and another is being opened.
    case reconnecting
}

/// The reason for the state of the connection.
public enum ConnectionReason: Sendable, Equatable {
    /// `login` was called.
    case login
    /// A node has opened the session.
    case sessionOpened
    /// The connection broke, or the node ended the stream.
    case connectionLost(String)
    /// No node accepted the session.
    case refused(PresenceError)
    /// A node ended the session.
    case kickedOffline(String)
    /// `logout` was called, on this device or on another one.
    case loggedOut
    /// `close` was called.
    case closed
}

/// A change of the connection's state.
public struct ConnectionChange: Sendable, Equatable {
    /// The current state.
    public var state: ConnectionState
    /// The reason.
    public var reason: ConnectionReason

    /// - Parameters: see the properties.
    public init(_ state: ConnectionState, _ reason: ConnectionReason) {
        self.state = state
        self.reason = reason
    }
}
