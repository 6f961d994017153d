import PresenceClient

/// The type of a subscription, with the numbers of RongCloud's document.
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

/// The result of a call.
public struct RCErrorCode: RawRepresentable, Sendable, Hashable {
    /// The stable code; 0 is success.
    public let rawValue: Int

    /// Makes a code of any number.
    public init(rawValue: Int) { self.rawValue = rawValue }
}

/// The document's word for success.
public let RC_SUCCESS = RCErrorCode(rawValue: 0)

/// The users of a subscription, its type and its validity.
public struct RCSubscribeEventRequest: Sendable, Equatable {
    /// The type of the subscription.
    public var subscribeType: RCSubscribeType
    /// The users. A list of more than 200 becomes several calls.
    public var userIds: [String]
    /// The validity in seconds; 0 for unlimited.
    public var expiry: Int

    /// - Parameters: see the properties.
    public init(subscribeType: RCSubscribeType = .onlineStatus, userIds: [String] = [], expiry: Int = 0) {
        self.subscribeType = subscribeType
        self.userIds = userIds
        self.expiry = expiry
    }
}

/// A subscription and the user's status.
public struct RCSubscribeInfoEvent: Sendable, Equatable {
    /// The user that is followed.
    public let userId: String
    /// The type of the subscription.
    public let subscribeType: RCSubscribeType
    /// The time of the subscription, in milliseconds since 1970; 0 in ``RCSubscribeEventDelegate/onEventChange(_:)``.
    public let subscribeTime: Int64
    /// The validity from then on, in seconds; 0 if unlimited, and in ``RCSubscribeEventDelegate/onEventChange(_:)``.
    ///
    /// No notice is sent at the end (R12).
    public let expiry: Int
    /// Whether the user is online; false also if ``userStatus`` is nil.
    public let isOnline: Bool
    /// The platforms on which the user is online.
    public let onlinePlatforms: [String]
    /// The user's status; nil if the user's owner did not answer.
    public let userStatus: UserStatus?

    init(_ subscription: Subscription) {
        let lasts = subscription.expiresAt.map { Int(clamping: ($0 - subscription.subscribedAt) / 1_000) } ?? 0
        self.init(
            subscription.userID, subscription.userStatus, type: RCSubscribeType(rawValue: subscription.subscribeType) ?? .onlineStatus,
            since: subscription.subscribedAt, expiry: lasts)
    }

    init(_ status: UserStatus, _ type: RCSubscribeType) { self.init(status.userID, status, type: type) }

    private init(_ user: String, _ status: UserStatus?, type: RCSubscribeType, since: Int64 = 0, expiry: Int = 0) {
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
    /// Whether the subscription was made or ended.
    public enum OperationType: Int, Sendable {
        /// The subscription was made.
        case subscribe = 1
        /// The subscription was ended.
        case unsubscribe = 2
    }

    /// The user of the subscription.
    public let userId: String
    /// The type of the subscription.
    public let subscribeType: RCSubscribeType
    /// The time at which the subscription ends by itself, in milliseconds since 1970; 0 for never, and if it was ended.
    ///
    /// The node sends no notice then (R12).
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

/// Receives changes on a background thread. Every method is optional.
public protocol RCSubscribeEventDelegate: AnyObject, Sendable {
    /// All changes, in one call.
    func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent])
    /// All statuses of this type that the device follows have arrived. Called once for each type.
    func onSubscriptionSyncCompleted(_ type: RCSubscribeType)
    /// Called with ``onSubscriptionSyncCompleted(_:)`` for ``RCSubscribeType/onlineStatus``. The document calls it deprecated.
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
