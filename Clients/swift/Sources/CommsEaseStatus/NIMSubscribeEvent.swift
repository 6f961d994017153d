import PresenceClient

/// The only event type (N1).
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

/// The users of a subscription, its type and its validity.
public struct NIMSubscribeRequest: Sendable, Equatable {
    /// The event type: 1.
    public var type: Int
    /// The validity in seconds, 60 s to 30 days. Then the subscription ends by itself.
    public var expiry: Int
    /// Whether the current value is sent at once, by ``NIMEventSubscribeManagerDelegate/onRecvSubscribeEvents(_:)``.
    public var syncEnabled: Bool
    /// The users. A list of more than 100 becomes several calls.
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

/// The additional fields of an online status event (N11).
public struct NIMSubscribeOnlineInfo: Sendable, Equatable {
    /// The platforms on which the user is online.
    public let onlinePlatforms: [String]
    /// The user's custom status as text.
    public let customStatus: String
}

/// An event that is published, or that a followed user has published.
public struct NIMSubscribeEvent: Sendable, Equatable {
    /// The event's ID, the same at its publisher and at every receiver. Not for publishing.
    public private(set) var eventId = ""
    /// The publisher. Not for publishing.
    public private(set) var from: String?
    /// The time of publication, in seconds since 1970. Not for publishing.
    public private(set) var timestamp: Double = 0
    /// The event type: 1.
    public var type: Int
    /// The number: 10000 and above to publish. The provider uses 1 to 3.
    public var value: Int64
    /// The validity in seconds, 60 s to 7 days.
    public var expiry: Int
    /// A free text of the app.
    public var ext: String?
    /// False if users who log in later receive it, too.
    public var sendToOnlineUsersOnly = true
    /// Whether the own other clients receive it, too.
    public var syncEnabled = true
    /// The additional fields of an event of type 1. Not for publishing.
    public private(set) var subscribeInfo: NIMSubscribeOnlineInfo?

    /// Makes an event to publish.
    public init(type: Int = NIMSubscribeSystemEventType.online, value: Int64, expiry: Int = 604_800, ext: String? = nil) {
        self.type = type
        self.value = value
        self.expiry = expiry
        self.ext = ext
    }

    /// The event of a status that is ONLINE or not.
    ///
    /// Subscribers who log in later receive a login, but not its end (N21).
    static func online(_ status: UserStatus) -> NIMSubscribeEvent {
        let value =
            switch status.statusType {
            case .online, .unknown: NIMSubscribeEventOnlineValue.login  // Only users who are online receive unknown.
            case .unlogined: NIMSubscribeEventOnlineValue.logout
            case .offline: NIMSubscribeEventOnlineValue.offline
            }
        var event = NIMSubscribeEvent(status, value: value, at: status.lastOnlineStatusUpdateTime)
        event.sendToOnlineUsersOnly = value != NIMSubscribeEventOnlineValue.login
        event.syncEnabled = false
        return event
    }

    /// The event that the user of a status has published.
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

    /// Copies the event's ID, times and flags (N11).
    private mutating func describe(as published: UserStatus.Event) {
        eventId = published.eventID
        timestamp = Double(published.publishedAt) / 1_000
        expiry = Int(clamping: max(published.expiresAt - published.publishedAt, 0) / 1_000)
        sendToOnlineUsersOnly = published.sendToOnlineUsersOnly
        syncEnabled = published.syncEnabled
    }

    /// Records that the node has published the event. Its answer has a newer event if another one was published meanwhile.
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

/// The subscription to one account (N16).
public struct NIMSubscribeResult: Sendable, Equatable {
    /// The user that is followed.
    public let publisher: String
    /// The event type: 1.
    public let type: Int
    /// The time of the subscription, in seconds since 1970.
    public let timestamp: Double
    /// The validity from then on, in seconds; 0 for unlimited.
    public let expiry: Int

    init(_ subscription: Subscription) {
        publisher = subscription.userID
        type = subscription.subscribeType
        timestamp = Double(subscription.subscribedAt) / 1_000
        expiry = subscription.expiresAt.map { Int(($0 - subscription.subscribedAt) / 1_000) } ?? 0
    }
}

/// The reason why a call failed.
public struct NIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// The error.
    public let message: String

    init(_ error: PresenceError) {
        code = error.code.rawValue
        message = error.detail
    }

    static func type(_ type: Int) -> PresenceError {
        PresenceError(code: .badParameter, title: "bad parameter", detail: "type: \(type) is not 1, the only event type there is")
    }
}

/// Receives the events that followed users, and the own account, have published.
public protocol NIMEventSubscribeManagerDelegate: AnyObject, Sendable {
    /// Several events at once.
    func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent])
}
