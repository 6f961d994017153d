/// The answer to `getUserStatus`.
public struct UserStatusAnswer: Sendable, Equatable {
    /// The statuses, in the order of the request.
    public var userStatusList: [UserStatus] = []
    /// The users that failed, and the reasons.
    public var errorUserList: [UserError] = []
    /// The time up to which the answering node knows the statuses to be right, in milliseconds since 1970; the earliest of several calls. 0
    /// without a call.
    public var asOf: Int64 = 0
}

/// The answer to `subscribeUserStatus`.
public struct SubscribeAnswer: Sendable, Equatable {
    /// The users that failed, and the reasons.
    public var errorUserList: [UserError] = []
    /// The users that the node unsubscribed from because the quota was reached: those subscribed earliest.
    public var evicted: [String] = []
    /// With `sync`: the current statuses of the users.
    public var userStatusList: [UserStatus]?
}

/// One subscription of the own user.
public struct Subscription: Sendable, Equatable, Codable {
    /// The user that is followed.
    public var userID: String
    /// The type of the subscription: ``SubscribeType``.
    public var subscribeType: Int
    /// The time of the subscription, in milliseconds since 1970.
    public var subscribedAt: Int64
    /// The time at which the subscription ends by itself, in milliseconds since 1970; nil for never. The node sends no notice then.
    public var expiresAt: Int64?
    /// The user's current status; nil if the user's owner did not answer (``SubscriptionPage/errorUserList``).
    public var userStatus: UserStatus?

    package init(userID: String, subscribeType: Int, subscribedAt: Int64, expiresAt: Int64? = nil, userStatus: UserStatus? = nil) {
        self.userID = userID
        self.subscribeType = subscribeType
        self.subscribedAt = subscribedAt
        self.expiresAt = expiresAt
        self.userStatus = userStatus
    }
}

/// The answer to `getSubscribedUserStatus`.
public struct SubscriptionPage: Sendable, Equatable, Codable {
    /// The subscriptions of this page, or all.
    public var subscriptions: [Subscription] = []
    /// The users whose status is unknown now, and the reasons. Their subscriptions are in ``subscriptions``, too.
    public var errorUserList: [UserError] = []
    /// The number of all subscriptions.
    public var total = 0

    /// Makes an empty page.
    public init() {}

    /// Reads the JSON of a node.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        subscriptions = try fields.decode([Subscription].self, forKey: .subscriptions)
        errorUserList = try fields.decodeIfPresent([UserError].self, forKey: .errorUserList) ?? []
        total = try fields.decode(Int.self, forKey: .total)
    }
}

/// The answer to `publishEvent`.
public struct PublishAnswer: Sendable, Equatable {
    /// The event's identity: ``UserStatus/Event/eventID``.
    public var eventID: String
    /// The own status with the event in it, or with a newer event that has replaced it.
    public var userStatus: UserStatus

    package init(eventID: String, userStatus: UserStatus) { (self.eventID, self.userStatus) = (eventID, userStatus) }
}

/// The JSON bodies of calls and answers (<doc:HTTPAPI#Operations>).
enum Wire {
    struct Status: Decodable { let userStatus: UserStatus }
    struct Statuses: Decodable {
        let userStatusList: [UserStatus]
        let errorUserList: [UserError]?
        let asOf: Int64?
    }
    struct Subscribed: Decodable {
        let errorUserList: [UserError]?
        let evicted: [String]?
        let userStatusList: [UserStatus]?
    }
    struct Errors: Decodable { let errorUserList: [UserError]? }
    struct Published: Decodable {
        /// The API does not say whether the ID is a text.
        enum EventID: Decodable {
            case text(String), number(Int64)

            init(from decoder: any Decoder) throws {
                let value = try decoder.singleValueContainer()
                do { self = .text(try value.decode(String.self)) } catch DecodingError.typeMismatch {
                    self = .number(try value.decode(Int64.self))
                }
            }

            var text: String {
                switch self {
                case .text(let text): text
                case .number(let number): String(number)
                }
            }
        }
        let eventID: EventID
        let userStatus: UserStatus
    }
    struct Empty: Decodable {}

    struct SetStatus: Encodable {
        let customStatus: String
        var expiry: Int64?
    }
    struct Users: Encodable, SessionNaming {
        var userIDs: [String]?
        var expiry: Int64?
        var sync: Bool?
        var subscribeType: Int?
        var all: Bool?
        var offset: Int?
        var limit: Int?
        /// The calling session.
        var sessionID: String?
    }
    struct Publish: Encodable, SessionNaming {
        let value: Int64
        var ext: String?
        var expiry: Int64?
        var sendToOnlineUsersOnly: Bool?
        var syncEnabled: Bool?
        /// The publishing session.
        var sessionID: String?
    }
    struct Logout: Encodable { var sessionID: String? }
    struct Renew: Encodable { var sessionID: String }
    struct Alive: Encodable { var sessionID: String }
}
