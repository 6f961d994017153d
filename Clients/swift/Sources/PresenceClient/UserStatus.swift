/// The general status of a user. Only the system sets it.
public enum StatusType: String, Sendable, Codable {
    /// The user has at least one open session.
    case online = "ONLINE"
    /// The connection was lost without a logout.
    case offline = "OFFLINE"
    /// The user never logged in, or logged out.
    case unlogined = "UNLOGINED"
    /// The own status, if the app's policy hides it from the user itself (`self.reportStatus`).
    case unknown = "UNKNOWN"
}

/// All that others may know of a user: one whole, versioned value. Times are milliseconds since 1970 (UTC), 0 for never.
public struct UserStatus: Sendable, Hashable, Codable, Identifiable {
    /// A numeric status that the user published. ``RaisedEvents`` decides when it is news.
    public struct Event: Sendable, Hashable, Codable {
        /// The event's ID: the same at its publisher, at every receiver and at each login.
        public var eventID: String
        /// The number, at least 10000.
        public var value: Int64
        /// A free text of the app.
        public var ext: String
        /// The time of publication, in milliseconds since 1970.
        public var publishedAt: Int64
        /// The time at which it ends, in milliseconds since 1970.
        public var expiresAt: Int64
        /// False if users who log in later receive it, too.
        public var sendToOnlineUsersOnly: Bool
        /// Whether the publisher's other devices receive it, too.
        public var syncEnabled: Bool
        /// The session that published it. Present only in a user's own statuses.
        public var sessionID: String?

        /// - Parameters: see the properties.
        public init(
            eventID: String = "", value: Int64, ext: String = "", publishedAt: Int64 = 0, expiresAt: Int64 = 0,
            sendToOnlineUsersOnly: Bool = true, syncEnabled: Bool = true, sessionID: String? = nil
        ) {
            self.eventID = eventID
            self.value = value
            self.ext = ext
            self.publishedAt = publishedAt
            self.expiresAt = expiresAt
            self.sendToOnlineUsersOnly = sendToOnlineUsersOnly
            self.syncEnabled = syncEnabled
            self.sessionID = sessionID
        }

        /// Reads the JSON of a node. A field that is missing has the default of `publishEvent`.
        public init(from decoder: any Decoder) throws {
            let fields = try decoder.container(keyedBy: CodingKeys.self)
            self.init(
                eventID: try fields.decodeIfPresent(String.self, forKey: .eventID) ?? "",
                value: try fields.decode(Int64.self, forKey: .value), ext: try fields.decodeIfPresent(String.self, forKey: .ext) ?? "",
                publishedAt: try fields.decodeIfPresent(Int64.self, forKey: .publishedAt) ?? 0,
                expiresAt: try fields.decodeIfPresent(Int64.self, forKey: .expiresAt) ?? 0,
                sendToOnlineUsersOnly: try fields.decodeIfPresent(Bool.self, forKey: .sendToOnlineUsersOnly) ?? true,
                syncEnabled: try fields.decodeIfPresent(Bool.self, forKey: .syncEnabled) ?? true,
                sessionID: try fields.decodeIfPresent(String.self, forKey: .sessionID))
        }
    }

    /// The user.
    public var userID: String
    /// The general status.
    public var statusType: StatusType
    /// The custom status; empty when none is set.
    public var customStatus: String
    /// Platforms with a session, each once.
    public var onlinePlatforms: [String]
    /// The numeric status that the user published last, if it has not ended.
    public var event: Event?
    /// The newest event with ``Event/sendToOnlineUsersOnly`` false that has not ended, where ``event`` is another one.
    public var loginEvent: Event?
    /// The time of the last change of any field.
    public var lastUpdateTime: Int64
    /// The time of the last change of ``statusType``.
    public var lastOnlineStatusUpdateTime: Int64
    /// The time of the last change of ``customStatus``.
    public var lastCustomStatusUpdateTime: Int64
    /// The time of the last sign of life.
    public var lastSeenTime: Int64
    /// An opaque text. For one user a larger text is newer, on whichever node it was read.
    public var version: String
    /// Whether the node may not know better, because it is cut off from the user's owner or from most nodes.
    ///
    /// The same version with false follows when the node knows again. A status of the client's own making is sure.
    public var isUnsure = false

    /// The user's ID: a user has one status.
    public var id: String { userID }

    /// - Parameters: see the properties.
    public init(userID: String, statusType: StatusType, customStatus: String = "", onlinePlatforms: [String] = [], version: String) {
        self.userID = userID
        self.statusType = statusType
        self.customStatus = customStatus
        self.onlinePlatforms = onlinePlatforms
        lastUpdateTime = 0
        lastOnlineStatusUpdateTime = 0
        lastCustomStatusUpdateTime = 0
        lastSeenTime = 0
        self.version = version
    }

    /// Reads the JSON of a node. A field that a policy hides is empty.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        userID = try fields.decode(String.self, forKey: .userID)
        statusType = try fields.decode(StatusType.self, forKey: .statusType)
        version = try fields.decode(String.self, forKey: .version)
        isUnsure = try fields.decodeIfPresent(Bool.self, forKey: .isUnsure) ?? false
        customStatus = try fields.decodeIfPresent(String.self, forKey: .customStatus) ?? ""
        onlinePlatforms = try fields.decodeIfPresent([String].self, forKey: .onlinePlatforms) ?? []
        event = try fields.decodeIfPresent(Event.self, forKey: .event)
        loginEvent = try fields.decodeIfPresent(Event.self, forKey: .loginEvent)
        lastUpdateTime = try fields.decodeIfPresent(Int64.self, forKey: .lastUpdateTime) ?? 0
        lastOnlineStatusUpdateTime = try fields.decodeIfPresent(Int64.self, forKey: .lastOnlineStatusUpdateTime) ?? 0
        lastCustomStatusUpdateTime = try fields.decodeIfPresent(Int64.self, forKey: .lastCustomStatusUpdateTime) ?? 0
        lastSeenTime = try fields.decodeIfPresent(Int64.self, forKey: .lastSeenTime) ?? 0
    }
}

/// The type of a subscription.
public enum SubscribeType: Int, Sendable, Codable {
    /// Online status and custom status, the purpose of this client.
    case onlineStatus = 1
    /// The user's profile.
    case userProfile = 2
    /// The online status of every friend.
    case friendOnlineStatus = 3
    /// The profile of every friend.
    case friendUserProfile = 4
}
