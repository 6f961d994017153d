/// An open session of the own user, on this device or on another one.
public struct DeviceSession: Sendable, Hashable, Codable {
    /// The session's ID, for ``PresenceClient/logout(sessionID:)``.
    public var sessionID: String
    /// The platform that other users see.
    public var platform: String
    /// The device's ID; empty if the device has no name.
    public var deviceID: String
    /// The time of the login, in milliseconds since 1970.
    public var since: Int64
    /// The node that holds the session; nil in events.
    public var node: String?
    /// Whether it is the session of this client; nil in events.
    public var isCurrent: Bool?

    /// - Parameters: see the properties.
    public init(sessionID: String, platform: String, deviceID: String = "", since: Int64, node: String? = nil, isCurrent: Bool? = nil) {
        self.sessionID = sessionID
        self.platform = platform
        self.deviceID = deviceID
        self.since = since
        self.node = node
        self.isCurrent = isCurrent
    }
}

/// The answer to `explainSelf`.
public struct SelfExplanation: Sendable, Equatable, Decodable {
    /// The node that decides the status.
    public var node: String
    /// The own status.
    public var userStatus: UserStatus
    /// The reasons, in words for people.
    public var because: [String]
}

extension PresenceClient {
    /// Returns the own user's open sessions on all devices, in the order of their logins.
    public func getSessions() async throws(PresenceError) -> [DeviceSession] {
        try await call("getSessions", Wire.Sessions(sessionID: session?.sessionID), as: Wire.SessionList.self).sessions
    }

    /// Explains why others see the own user ONLINE, OFFLINE or UNLOGINED.
    public func explainSelf() async throws(PresenceError) -> SelfExplanation {
        try await call("explainSelf", Wire.Nothing(), as: SelfExplanation.self)
    }

    /// Ends one session of the own user, on whichever device. That device does not log in again by itself.
    public func logout(sessionID: String) async throws(PresenceError) {
        if sessionID == lastSessionID { return try await logout() }
        _ = try await call("logout", Wire.Sessions(sessionID: sessionID), as: Wire.Empty.self)
    }
}

extension Wire {
    fileprivate struct Nothing: Encodable {}
    fileprivate struct Sessions: Encodable { var sessionID: String? }
    struct SessionList: Decodable { var sessions: [DeviceSession] }
}
