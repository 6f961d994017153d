/// The answer to `getUserStatus`.
public struct UserStatusAnswer: Sendable, Equatable {
    /// What is known, in the order asked for.
    public var userStatusList: [UserStatus] = []
    /// Users that failed, and why.
    public var errorUserList: [UserError] = []
    /// Up to when the answering node knows this to be right, in milliseconds since 1970; the earliest of several calls. 0 if none was made.
    public var asOf: Int64 = 0
}

/// The answer to `subscribeUserStatus`.
public struct SubscribeAnswer: Sendable, Equatable {
    /// Users that failed, and why.
    public var errorUserList: [UserError] = []
    /// Users that are no longer followed, because the quota was reached: the earliest subscribed.
    public var evicted: [String] = []
    /// With `sync`: the users' statuses as they are now.
    public var userStatusList: [UserStatus]?
}

/// One subscription of one's own.
public struct Subscription: Sendable, Equatable, Codable {
    /// Who is followed.
    public var userID: String
    /// What is followed.
    public var subscribeType: Int
    /// Since when, in milliseconds since 1970.
    public var subscribedAt: Int64
    /// When it ends by itself, in milliseconds since 1970; nil for never. Nobody is told then.
    public var expiresAt: Int64?
    /// The user's status as it is now; nil where the user's owner did not answer (``SubscriptionPage/errorUserList``).
    public var userStatus: UserStatus?
}

/// The answer to `getSubscribedUserStatus`.
public struct SubscriptionPage: Sendable, Equatable, Codable {
    /// Subscriptions of this page, or all.
    public var subscriptions: [Subscription] = []
    /// Users whose status is not known now, and why. Their subscriptions are in ``subscriptions``, too.
    public var errorUserList: [UserError] = []
    /// How many there are.
    public var total = 0

    /// An empty page.
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
        /// The contract does not say whether it is a text.
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
    struct Users: Encodable {
        var userIDs: [String]?
        var expiry: Int64?
        var sync: Bool?
        var subscribeType: Int?
        var all: Bool?
        var offset: Int?
        var limit: Int?
        /// The session that asks.
        var sessionID: String?
    }
    struct Publish: Encodable {
        let value: Int64
        var ext: String?
        var expiry: Int64?
        var sendToOnlineUsersOnly: Bool?
        var syncEnabled: Bool?
        /// The session that publishes.
        var sessionID: String?
    }
    struct Logout: Encodable { var sessionID: String? }
}
