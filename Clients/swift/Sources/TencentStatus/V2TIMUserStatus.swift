import PresenceClient

/// The general status, with the names of Tencent's document.
public enum V2TIMUserStatusType: Int, Sendable {
    /// `V2TIM_USER_STATUS_UNKNOWN`: nothing is known.
    case unknown = 0
    /// `V2TIM_USER_STATUS_ONLINE`: logged in.
    case online = 1
    /// `V2TIM_USER_STATUS_OFFLINE`: the connection was lost without a logout.
    case offline = 2
    /// `V2TIM_USER_STATUS_UNLOGINED`: never logged in, or logged out.
    case unlogined = 3
}

/// The document's spelling of ``V2TIMUserStatusType/unknown``.
public let V2TIM_USER_STATUS_UNKNOWN = V2TIMUserStatusType.unknown
/// The document's spelling of ``V2TIMUserStatusType/online``.
public let V2TIM_USER_STATUS_ONLINE = V2TIMUserStatusType.online
/// The document's spelling of ``V2TIMUserStatusType/offline``.
public let V2TIM_USER_STATUS_OFFLINE = V2TIMUserStatusType.offline
/// The document's spelling of ``V2TIMUserStatusType/unlogined``.
public let V2TIM_USER_STATUS_UNLOGINED = V2TIMUserStatusType.unlogined

/// A user's general and custom status. It belongs to the user, not to a device.
public struct V2TIMUserStatus: Sendable, Equatable {
    /// The user.
    public private(set) var userID: String
    /// The general status. Only the system sets it.
    public private(set) var statusType: V2TIMUserStatusType
    /// The custom status, which the user sets; nil or empty clears it.
    public var customStatus: String?

    /// Makes a status to set.
    public init(customStatus: String? = nil) {
        userID = ""
        statusType = .unknown
        self.customStatus = customStatus
    }

    init(_ status: UserStatus) {
        userID = status.userID
        statusType =
            switch status.statusType {
            case .online: .online
            case .offline: .offline
            case .unlogined: .unlogined
            case .unknown: .unknown
            }
        customStatus = status.customStatus
    }
}

/// The error of a call. A call succeeds or throws it; it has no list of failed users (T37).
public struct V2TIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// The error.
    public let desc: String

    init(_ error: PresenceError) {
        code = error.code.rawValue
        desc = error.detail
    }

    /// The error of the first failed user, which stands for the call.
    init?(_ errors: [UserError]) {
        guard let first = errors.first else { return nil }
        code = first.code.rawValue
        desc = errors.count == 1 ? "\(first.userID): \(first.reason)" : "\(first.userID) and \(errors.count - 1) more: \(first.reason)"
    }
}

/// Receives changes. Every method is optional.
public protocol V2TIMSDKListener: AnyObject, Sendable {
    /// The own status, or that of friends or followed users, has changed. Recognize the own one by ``V2TIMManager/getLoginUser()``.
    func onUserStatusChanged(_ userStatusList: [V2TIMUserStatus])
    /// The client is connecting.
    func onConnecting()
    /// The client is connected.
    func onConnectSuccess()
    /// The first connection failed.
    func onConnectFailed(_ code: Int, _ desc: String)
    /// The session was ended elsewhere: a back end kicked the user, a newer login replaced it, or another device logged it out.
    func onKickedOffline()
}

extension V2TIMSDKListener {
    /// Does nothing.
    public func onUserStatusChanged(_ userStatusList: [V2TIMUserStatus]) {}
    /// Does nothing.
    public func onConnecting() {}
    /// Does nothing.
    public func onConnectSuccess() {}
    /// Does nothing.
    public func onConnectFailed(_ code: Int, _ desc: String) {}
    /// Does nothing.
    public func onKickedOffline() {}
}
