/// What a session is told by a node, and of its own connection.
public enum PresenceEvent: Sendable, Equatable {
    /// A session was opened, for the first time or again.
    case connected(Session)
    /// Statuses that are newer than those told before: of oneself, of friends, of strangers one follows; each user once.
    case userStatusChanged([UserStatus])
    /// Everything of this type that the session follows has been told. Comes once for each type followed.
    case subscriptionSyncCompleted(SubscribeType)
    /// Another device of the same user has subscribed or unsubscribed.
    case subscriptionChangedOnOtherDevices(SubscriptionChange)
    /// Subscriptions of these users have run out; told only where the app's policy wants it (`subscription.notifyExpiry`).
    case subscriptionExpired([String])
    /// The session was ended by the node; the client does not come back by itself.
    case kickedOffline(reason: String)
    /// The user logged this session out on another device; the client does not come back by itself.
    case loggedOut
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
    /// One subscription.
    public struct Entry: Sendable, Hashable {
        /// The user whose status is followed.
        public var userID: String
        /// What is followed.
        public var subscribeType: SubscribeType
        /// When it ends by itself, in milliseconds since 1970; nil for never. The node does not tell of the end.
        public var expiresAt: Int64?

        /// - Parameters: see the properties.
        public init(userID: String, subscribeType: SubscribeType = .onlineStatus, expiresAt: Int64? = nil) {
            self.userID = userID
            self.subscribeType = subscribeType
            self.expiresAt = expiresAt
        }
    }

    /// Subscriptions that were made, or made again with another type or end.
    public var subscriptions: [Entry]
    /// Subscriptions that were ended.
    public var unsubscriptions: [Entry]

    /// Users that are followed now.
    public var subscribed: [String] { subscriptions.map(\.userID) }
    /// Users that are no longer followed.
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

    /// Adds what was changed later; the later word on a user counts.
    mutating func merge(_ later: SubscriptionChange) {
        let named = Set((later.subscriptions + later.unsubscriptions).map { UserKey($0.userID) })
        subscriptions = subscriptions.filter { !named.contains(UserKey($0.userID)) } + later.subscriptions
        unsubscriptions = unsubscriptions.filter { !named.contains(UserKey($0.userID)) } + later.unsubscriptions
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
    /// `logout` was called, on this device or on another one.
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
