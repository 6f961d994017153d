import PresenceClient

/// A user's online status, as ZEGOCLOUD's document names it.
public enum ZIMUserOnlineStatus: Int, Sendable {
    /// Logged in, with a connection.
    case online = 0
    /// The connection broke.
    case offline = 1
    /// Logged out.
    case logout = 2
    /// Said of oneself (Z22), and of a user whose owner did not answer.
    case unknown = 99
}

/// A user's status (Z14). Times are milliseconds since 1970.
public struct ZIMUserStatus: Sendable, Equatable {
    /// Whose.
    public let userID: String
    /// Unknown for oneself.
    public let onlineStatus: ZIMUserOnlineStatus
    /// Set by the user.
    public let customStatus: String
    /// Where the user is online.
    public let onlinePlatforms: [String]
    /// The last change of anything here; 0 for oneself, and where nothing is known.
    public let lastUpdateTime: Int64
    /// The last change of ``onlineStatus``.
    public let lastOnlineStatusUpdateTime: Int64
    /// The last change of ``customStatus``.
    public let lastCustomStatusUpdateTime: Int64

    /// A user of whom nothing is known now.
    init(unknown userID: String) {
        self.userID = userID
        onlineStatus = .unknown
        customStatus = ""
        onlinePlatforms = []
        lastUpdateTime = 0
        lastOnlineStatusUpdateTime = 0
        lastCustomStatusUpdateTime = 0
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

/// How a call ended; code 0 is success.
public struct ZIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// What was wrong.
    public let message: String

    /// Success.
    public static let success = ZIMError(code: 0, message: "")

    private init(code: Int, message: String) {
        self.code = code
        self.message = message
    }

    init(_ error: PresenceError) { self.init(code: error.code.rawValue, message: error.detail) }

    /// Translates what a node says of `expiry` in seconds, said of `subscriptionDuration` in minutes.
    ///
    /// - Parameter minutes: the duration that the app asked for.
    init(_ error: PresenceError, minutes: Int) {
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

/// One user of a call that names several, and why it failed.
public struct ZIMErrorUserInfo: Sendable, Equatable {
    /// Who.
    public let userID: String
    /// The stable code.
    public let reason: Int

    init(_ error: UserError) {
        userID = error.userID
        reason = error.code.rawValue
    }
}

/// How long a subscription lasts.
public struct ZIMUserStatusSubscribeConfig: Sendable, Equatable {
    /// In minutes, 1 to 43200 (30 days).
    public var subscriptionDuration: Int

    /// - Parameter subscriptionDuration: see the property.
    public init(subscriptionDuration: Int = 0) { self.subscriptionDuration = subscriptionDuration }
}

/// Which subscriptions are asked for.
public struct ZIMSubscribedUserStatusQueryConfig: Sendable, Equatable {
    /// At most 200; the whole table if it is empty.
    public var userIDs: [String]

    /// - Parameter userIDs: see the property.
    public init(userIDs: [String] = []) { self.userIDs = userIDs }
}

/// One subscription.
public struct ZIMUserStatusSubscription: Sendable, Equatable {
    /// The user and its status now; ``ZIMUserOnlineStatus/unknown`` where the user's owner did not answer.
    public let userStatus: ZIMUserStatus
    /// When it ends, in milliseconds since 1970; 0 for never.
    public let subscribeExpiredTime: Int64

    init(_ subscription: Subscription, ownID: String?) {
        userStatus = subscription.userStatus.map { ZIMUserStatus($0, ownID: ownID) } ?? ZIMUserStatus(unknown: subscription.userID)
        subscribeExpiredTime = subscription.expiresAt ?? 0
    }
}

/// What a login sets.
public struct ZIMLoginConfig: Sendable, Equatable {
    /// The custom status; an empty one leaves it unchanged (Z8).
    public var customStatus: String

    /// - Parameter customStatus: see the property.
    public init(customStatus: String = "") { self.customStatus = customStatus }
}

/// The connection's state (Z23).
public enum ZIMConnectionState: Int, Sendable {
    /// Offline.
    case disconnected = 0
    /// Up to the app.
    case connecting = 1
    /// Online.
    case connected = 2
    /// Up to the app.
    case reconnecting = 3
}

/// Why the connection is in its state.
public enum ZIMConnectionEvent: Int, Sendable {
    /// It was made.
    case success = 0
    /// The app asked for it: login or logout.
    case activeLogin = 1
    /// The first connection could not be made in time.
    case loginTimeout = 2
    /// The connection was lost.
    case loginInterrupted = 3
    /// A node has ended the session.
    case kickedOut = 4
    /// The token is not taken, and no other was had.
    case tokenExpired = 5
}

/// Is called for what changes; every method may be left out.
public protocol ZIMEventHandler: AnyObject, Sendable {
    /// Users that are followed, or the own platforms, have changed.
    func zim(_ zim: ZIM, userStatusUpdated userStatusList: [ZIMUserStatus])
    /// The connection is in another state.
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
