import PresenceClient

/// A user's online status, with the names of ZEGOCLOUD's document.
public enum ZIMUserOnlineStatus: Int, Sendable {
    /// The user is logged in and connected.
    case online = 0
    /// The user's connection broke.
    case offline = 1
    /// The user has logged out.
    case logout = 2
    /// The own status (Z22), or that of a user who was asked about and whose owner the node did not hear.
    case unknown = 99
}

/// A user's status (Z14). Times are milliseconds since 1970.
public struct ZIMUserStatus: Sendable, Equatable {
    /// The user.
    public let userID: String
    /// The online status; unknown for the own user.
    public let onlineStatus: ZIMUserOnlineStatus
    /// The custom status, which the user sets.
    public let customStatus: String
    /// The platforms on which the user is online.
    public let onlinePlatforms: [String]
    /// The time of the last change of any field; in the result of ``ZIM/queryUsersStatusByUserIDs(_:)`` that of ``onlineStatus`` (Z18).
    ///
    /// It is 0 for the own user, and if nothing is known.
    public let lastUpdateTime: Int64
    /// The time of the last change of ``onlineStatus``.
    public let lastOnlineStatusUpdateTime: Int64
    /// The time of the last change of ``customStatus``.
    public let lastCustomStatusUpdateTime: Int64

    /// Makes the status of a user of whom nothing is known now.
    init(unknown userID: String) {
        self.userID = userID
        onlineStatus = .unknown
        customStatus = ""
        onlinePlatforms = []
        lastUpdateTime = 0
        lastOnlineStatusUpdateTime = 0
        lastCustomStatusUpdateTime = 0
    }

    /// Makes the status that a query returns. Its ``lastUpdateTime`` is that of the online status, which a custom status does not move.
    init(queried status: UserStatus, ownID: String?) {
        var status = status
        status.lastUpdateTime = status.lastOnlineStatusUpdateTime
        self.init(asked: status, ownID: ownID)
    }

    /// Makes the status that an answer has. It is unknown if the node may not know better: the user's owner may say otherwise.
    init(asked status: UserStatus, ownID: String?) {
        var status = status
        if status.isUnsure { status.statusType = .unknown }
        self.init(status, ownID: ownID)
    }

    init(_ status: UserStatus, ownID: String?) {
        userID = status.userID
        let isOwn = ownID.map { UserKey($0) == UserKey(status.userID) } ?? false
        onlineStatus =
            switch status.statusType {
            case _ where isOwn, .unknown: .unknown
            case .online: .online
            case .offline: .offline
            case .unlogined: .logout
            }
        customStatus = status.customStatus
        onlinePlatforms = status.onlinePlatforms
        lastUpdateTime = isOwn ? 0 : status.lastUpdateTime
        lastOnlineStatusUpdateTime = status.lastOnlineStatusUpdateTime
        lastCustomStatusUpdateTime = status.lastCustomStatusUpdateTime
    }
}

/// The result of a call. Code 0 is success.
public struct ZIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// The error.
    public let message: String

    /// Success.
    public static let success = ZIMError(code: 0, message: "")

    private init(code: Int, message: String) {
        self.code = code
        self.message = message
    }

    init(_ error: PresenceError) { self.init(code: error.code.rawValue, message: error.detail) }

    /// Translates a node's error about `expiry` in seconds to `subscriptionDuration` in minutes.
    ///
    /// - Parameter minutes: the duration that the app requested.
    package init(_ error: PresenceError, minutes: Int) {
        self.init(error)
        guard error.code == .badParameter, error.detail.hasPrefix("expiry:") else { return }
        let words = error.detail.split(separator: " ").compactMap { word -> (Int64, Int64)? in
            let bounds = word.split(separator: ".").compactMap { Int64($0) }
            return bounds.count == 2 ? (bounds[0], bounds[1]) : nil
        }
        let range = words.first.map { " is not in \(($0.0 + 59) / 60)...\($0.1 / 60)" } ?? " is not allowed"
        self.init(code: code, message: "subscriptionDuration: \(minutes) minutes\(range)")
    }
}

/// One failed user of a call with several users.
public struct ZIMErrorUserInfo: Sendable, Equatable {
    /// The user.
    public let userID: String
    /// The stable code.
    public let reason: Int

    init(_ error: UserError) {
        userID = error.userID
        reason = error.code.rawValue
    }
}

/// The validity of a subscription.
public struct ZIMUserStatusSubscribeConfig: Sendable, Equatable {
    /// The validity in minutes, 1 to 43200 (30 days).
    public var subscriptionDuration: Int

    /// - Parameter subscriptionDuration: see the property.
    public init(subscriptionDuration: Int = 0) { self.subscriptionDuration = subscriptionDuration }
}

/// The subscriptions to return.
public struct ZIMSubscribedUserStatusQueryConfig: Sendable, Equatable {
    /// The users, at most 200; all subscriptions if it is empty.
    public var userIDs: [String]

    /// - Parameter userIDs: see the property.
    public init(userIDs: [String] = []) { self.userIDs = userIDs }
}

/// One subscription.
public struct ZIMUserStatusSubscription: Sendable, Equatable {
    /// The user and its current status; ``ZIMUserOnlineStatus/unknown`` if the user's owner did not answer, or is not heard.
    public let userStatus: ZIMUserStatus
    /// The time at which it ends, in milliseconds since 1970; 0 for never.
    public let subscribeExpiredTime: Int64

    package init(_ subscription: Subscription, ownID: String?) {
        userStatus = subscription.userStatus.map { ZIMUserStatus(asked: $0, ownID: ownID) } ?? ZIMUserStatus(unknown: subscription.userID)
        subscribeExpiredTime = subscription.expiresAt ?? 0
    }
}

/// The settings of a login.
public struct ZIMLoginConfig: Sendable, Equatable {
    /// The custom status; an empty one leaves it unchanged (Z8).
    public var customStatus: String

    /// - Parameter customStatus: see the property.
    public init(customStatus: String = "") { self.customStatus = customStatus }
}

/// The connection's state (Z23).
public enum ZIMConnectionState: Int, Sendable {
    /// The client is not connected.
    case disconnected = 0
    /// The client is connecting.
    case connecting = 1
    /// The client is connected.
    case connected = 2
    /// The client is reconnecting.
    case reconnecting = 3
}

/// The reason for the state of the connection.
public enum ZIMConnectionEvent: Int, Sendable {
    /// The connection was made.
    case success = 0
    /// The app called login or logout.
    case activeLogin = 1
    /// The first connection timed out.
    case loginTimeout = 2
    /// The connection was lost.
    case loginInterrupted = 3
    /// A node ended the session.
    case kickedOut = 4
    /// The token was rejected, and there was no other.
    case tokenExpired = 5
}

/// Receives changes. Every method is optional.
public protocol ZIMEventHandler: AnyObject, Sendable {
    /// Followed users, or the own platforms, have changed.
    func zim(_ zim: ZIM, userStatusUpdated userStatusList: [ZIMUserStatus])
    /// The state of the connection has changed.
    func zim(_ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent, extendedData: [String: String])
}

extension ZIMEventHandler {
    /// Does nothing.
    public func zim(_ zim: ZIM, userStatusUpdated userStatusList: [ZIMUserStatus]) {}
    /// Does nothing.
    public func zim(
        _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent, extendedData: [String: String]
    ) {}
}
