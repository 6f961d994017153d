import PresenceClient

/// The only event type there is (N1).
public enum NIMSubscribeSystemEventType {
    /// `NIMSubscribeSystemEventTypeOnline`: online status; custom statuses are published under it.
    public static let online = 1
}

/// The values of the online status event that the provider publishes (N3).
public enum NIMSubscribeEventOnlineValue {
    /// Login.
    public static let login: Int64 = 1
    /// Logout.
    public static let logout: Int64 = 2
    /// The connection was lost.
    public static let offline: Int64 = 3
}

/// Whom to follow, how, and for how long.
public struct NIMSubscribeRequest: Sendable, Equatable {
    /// 1.
    public var type: Int
    /// In seconds, 60 s to 30 days; after it the subscription ends by itself.
    public var expiry: Int
    /// Tell the present value at once, by ``NIMEventSubscribeManagerDelegate/onRecvSubscribeEvents(_:)``.
    public var syncEnabled: Bool
    /// Who; at most 100 a call.
    public var publishers: [String]

    /// - Parameters: see the properties.
    public init(
        type: Int = NIMSubscribeSystemEventType.online, expiry: Int = 0, syncEnabled: Bool = false, publishers: [String] = []
    ) {
        self.type = type
        self.expiry = expiry
        self.syncEnabled = syncEnabled
        self.publishers = publishers
    }
}

/// What accompanies an online status event (N11).
public struct NIMSubscribeOnlineInfo: Sendable, Equatable {
    /// Where the user is online.
    public let onlinePlatforms: [String]
    /// The user's custom status as text.
    public let customStatus: String
}

/// An event that is published, or that a followed user has published.
public struct NIMSubscribeEvent: Sendable, Equatable {
    /// The event's identity, the same at its publisher and at every receiver; not for publishing.
    public private(set) var eventId = ""
    /// Who; not for publishing.
    public private(set) var from: String?
    /// When, in seconds since 1970; not for publishing.
    public private(set) var timestamp: Double = 0
    /// 1.
    public var type: Int
    /// 10000 and above to publish; 1 to 3 are the provider's.
    public var value: Int64
    /// In seconds, 60 s to 7 days.
    public var expiry: Int
    /// Free text of the app.
    public var ext: String?
    /// False to tell those, too, who log in later.
    public var sendToOnlineUsersOnly = true
    /// Tell the own other clients, too.
    public var syncEnabled = true
    /// What accompanies an event of type 1; not for publishing.
    public private(set) var subscribeInfo: NIMSubscribeOnlineInfo?

    /// An event to publish.
    public init(type: Int = NIMSubscribeSystemEventType.online, value: Int64, expiry: Int = 604_800, ext: String? = nil) {
        self.type = type
        self.value = value
        self.expiry = expiry
        self.ext = ext
    }

    /// What a status says of being online.
    ///
    /// A login is told to subscribers who log in later; the end of one is not (N21).
    static func online(_ status: UserStatus) -> NIMSubscribeEvent {
        let value =
            switch status.statusType {
            case .online, .unknown: NIMSubscribeEventOnlineValue.login  // Unknown is told to those alone who are there.
            case .unlogined: NIMSubscribeEventOnlineValue.logout
            case .offline: NIMSubscribeEventOnlineValue.offline
            }
        var event = NIMSubscribeEvent(status, value: value, at: status.lastOnlineStatusUpdateTime)
        event.sendToOnlineUsersOnly = value != NIMSubscribeEventOnlineValue.login
        event.syncEnabled = false
        return event
    }

    /// An event that the user of a status has published.
    static func published(_ published: UserStatus.Event, by status: UserStatus) -> NIMSubscribeEvent {
        var event = NIMSubscribeEvent(status, value: published.value, at: published.publishedAt)
        event.ext = published.ext
        event.describe(as: published)
        return event
    }

    private init(_ status: UserStatus, value: Int64, at milliseconds: Int64) {
        self.init(value: value, expiry: 0)
        eventId = "\(status.userID)-\(milliseconds)-\(value)"
        from = status.userID
        timestamp = Double(milliseconds) / 1_000
        subscribeInfo = NIMSubscribeOnlineInfo(onlinePlatforms: status.onlinePlatforms, customStatus: status.customStatus)
    }

    /// The event's own identity, times and flags (N11).
    private mutating func describe(as published: UserStatus.Event) {
        eventId = published.eventID
        timestamp = Double(published.publishedAt) / 1_000
        expiry = Int(clamping: max(published.expiresAt - published.publishedAt, 0) / 1_000)
        sendToOnlineUsersOnly = published.sendToOnlineUsersOnly
        syncEnabled = published.syncEnabled
    }

    /// The node has taken the event. Its answer has a newer event when another one was published meanwhile.
    mutating func wasPublished(_ answer: PublishAnswer) {
        let status = answer.userStatus
        from = status.userID
        subscribeInfo = NIMSubscribeOnlineInfo(onlinePlatforms: status.onlinePlatforms, customStatus: status.customStatus)
        if let own = [status.event, status.loginEvent].compactMap(\.self).first(where: { $0.eventID == answer.eventID }) {
            describe(as: own)
        } else {
            eventId = answer.eventID
            timestamp = Double(status.lastUpdateTime) / 1_000
        }
    }
}

/// The relation to one account (N16).
public struct NIMSubscribeResult: Sendable, Equatable {
    /// Who is followed.
    public let publisher: String
    /// 1.
    public let type: Int
    /// Since when, in seconds since 1970.
    public let timestamp: Double
    /// How long it lasts from then, in seconds; 0 for ever.
    public let expiry: Int

    init(_ subscription: Subscription) {
        publisher = subscription.userID
        type = subscription.subscribeType
        timestamp = Double(subscription.subscribedAt) / 1_000
        expiry = subscription.expiresAt.map { Int(($0 - subscription.subscribedAt) / 1_000) } ?? 0
    }
}

/// Why a call failed.
public struct NIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// What was wrong.
    public let message: String

    init(_ error: PresenceError) {
        code = error.code.rawValue
        message = error.detail
    }

    static func type(_ type: Int) -> PresenceError {
        PresenceError(code: .badParameter, title: "bad parameter", detail: "type: \(type) is not 1, the only event type there is")
    }
}

/// Is called for what followed users, and the own account, have published.
public protocol NIMEventSubscribeManagerDelegate: AnyObject, Sendable {
    /// Several events at once.
    func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent])
}
