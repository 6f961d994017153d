import PresenceClient

/// What a subscription is about, as RongCloud's document numbers it.
public enum RCSubscribeType: Int, Sendable {
    /// `RCSubscribeTypeOnlineStatus`.
    case onlineStatus = 1
    /// `RCSubscribeTypeUserProfile`.
    case userProfile = 2
    /// `RCSubscribeTypeFriendOnlineStatus`.
    case friendOnlineStatus = 3
    /// `RCSubscribeTypeFriendUserProfile`.
    case friendUserProfile = 4

    var wire: SubscribeType {
        switch self {
        case .onlineStatus: .onlineStatus
        case .userProfile: .userProfile
        case .friendOnlineStatus: .friendOnlineStatus
        case .friendUserProfile: .friendUserProfile
        }
    }
}

/// The document's spelling of ``RCSubscribeType/onlineStatus``.
public let RCSubscribeTypeOnlineStatus = RCSubscribeType.onlineStatus
/// The document's spelling of ``RCSubscribeType/userProfile``.
public let RCSubscribeTypeUserProfile = RCSubscribeType.userProfile
/// The document's spelling of ``RCSubscribeType/friendOnlineStatus``.
public let RCSubscribeTypeFriendOnlineStatus = RCSubscribeType.friendOnlineStatus
/// The document's spelling of ``RCSubscribeType/friendUserProfile``.
public let RCSubscribeTypeFriendUserProfile = RCSubscribeType.friendUserProfile

/// How a call ended.
public struct RCErrorCode: RawRepresentable, Sendable, Hashable {
    /// The stable code; 0 is success.
    public let rawValue: Int

    /// Any number.
    public init(rawValue: Int) { self.rawValue = rawValue }
}

/// The document's word for success.
public let RC_SUCCESS = RCErrorCode(rawValue: 0)

/// Whom to follow, how, and for how long.
public struct RCSubscribeEventRequest: Sendable, Equatable {
    /// What is followed.
    public var subscribeType: RCSubscribeType
    /// Who; at most 200 a call.
    public var userIds: [String]
    /// In seconds; 0 for no end.
    public var expiry: Int

    /// - Parameters: see the properties.
    public init(subscribeType: RCSubscribeType = .onlineStatus, userIds: [String] = [], expiry: Int = 0) {
        self.subscribeType = subscribeType
        self.userIds = userIds
        self.expiry = expiry
    }
}

/// A subscription, and the user's status.
public struct RCSubscribeInfoEvent: Sendable, Equatable {
    /// Who is followed.
    public let userId: String
    /// What is followed.
    public let subscribeType: RCSubscribeType
    /// Since when, in milliseconds since 1970; 0 where it is a change that is told.
    public let subscribeTime: Int64
    /// How long it lasts from then, in seconds; 0 where it is not known or for ever. Nobody is told when it ends (R12).
    public let expiry: Int
    /// Whether the user is online; false also where ``userStatus`` is nil.
    public let isOnline: Bool
    /// Where the user is online.
    public let onlinePlatforms: [String]
    /// All that is known of the user; nil where the user's owner did not answer.
    public let userStatus: UserStatus?

    init(_ subscription: Subscription) {
        let lasts = subscription.expiresAt.map { Int(clamping: ($0 - subscription.subscribedAt) / 1_000) } ?? 0
        self.init(
            subscription.userID, subscription.userStatus, type: RCSubscribeType(rawValue: subscription.subscribeType) ?? .onlineStatus,
            since: subscription.subscribedAt, expiry: lasts)
    }

    init(_ status: UserStatus) { self.init(status.userID, status) }

    private init(_ user: String, _ status: UserStatus?, type: RCSubscribeType = .onlineStatus, since: Int64 = 0, expiry: Int = 0) {
        userId = user
        subscribeType = type
        subscribeTime = since
        self.expiry = expiry
        isOnline = status?.statusType == .online
        onlinePlatforms = status?.onlinePlatforms ?? []
        userStatus = status
    }
}

/// A subscription that another device has made or ended.
public struct RCSubscribeEvent: Sendable, Equatable {
    /// Whether it was made, or ended.
    public enum OperationType: Int, Sendable {
        /// Made.
        case subscribe = 1
        /// Ended.
        case unsubscribe = 2
    }

    /// Who is followed, or no longer.
    public let userId: String
    /// What is followed.
    public let subscribeType: RCSubscribeType
    /// When the subscription ends by itself, in milliseconds since 1970; 0 for never, and where it was ended. The node does not tell of the
    /// end (R12).
    public let expiresAt: Int64
    /// Whether it was made or ended.
    public let operationType: OperationType

    init(_ entry: SubscriptionChange.Entry, _ operationType: OperationType) {
        userId = entry.userID
        subscribeType = RCSubscribeType(rawValue: entry.subscribeType.rawValue) ?? .onlineStatus
        expiresAt = operationType == .subscribe ? entry.expiresAt ?? 0 : 0
        self.operationType = operationType
    }
}

/// Is called for what changes, on a background thread; every method may be left out.
public protocol RCSubscribeEventDelegate: AnyObject, Sendable {
    /// All that has changed, in one call.
    func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent])
    /// Everything of this type that is followed has been told to this device. Comes once for each type followed.
    func onSubscriptionSyncCompleted(_ type: RCSubscribeType)
    /// As ``onSubscriptionSyncCompleted(_:)`` with ``RCSubscribeType/onlineStatus``. The document calls it deprecated.
    func onSubscriptionSyncCompleted()
    /// Another device of the same user has subscribed or unsubscribed.
    func onSubscriptionChangedOnOtherDevices(_ subscribeEvents: [RCSubscribeEvent])
}

extension RCSubscribeEventDelegate {
    /// Does nothing.
    public func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent]) {}
    /// Does nothing.
    public func onSubscriptionSyncCompleted(_ type: RCSubscribeType) {}
    /// Does nothing.
    public func onSubscriptionSyncCompleted() {}
    /// Does nothing.
    public func onSubscriptionChangedOnOtherDevices(_ subscribeEvents: [RCSubscribeEvent]) {}
}
