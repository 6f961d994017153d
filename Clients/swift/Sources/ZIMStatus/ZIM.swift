import PresenceClient

/// ZEGOCLOUD's user status calls (`documents/003…`), over a ``PresenceClient/PresenceClient``.
///
/// If the document's callback has a list of failed users and an error, a call returns the list and throws the error.
public final class ZIM: Sendable {
    private static let instance = SharedInstance<ZIM>()

    /// The client behind this one, for features that the document does not have.
    public let client: PresenceClient
    private let userID = Locked<String?>(nil)

    /// - Parameter configuration: its limits become ``PresenceClient/CallLimits/zim``.
    public init(_ configuration: ClientConfiguration) throws {
        var configuration = configuration
        configuration.limits = .zim
        client = try PresenceClient(configuration)
    }

    /// Makes the instance that ``getInstance()`` returns, and returns it. An app calls it once, when it starts.
    @discardableResult public static func create(_ configuration: ClientConfiguration) throws -> ZIM {
        let zim = try ZIM(configuration)
        instance.set(zim)
        return zim
    }

    /// The instance of ``create(_:)``, which must have been called.
    public static func getInstance() -> ZIM {
        guard let zim = instance.current else { preconditionFailure("call ZIM.create(_:) before ZIM.getInstance()") }
        return zim
    }

    /// Logs in the user of the token.
    public func login(config: ZIMLoginConfig = ZIMLoginConfig()) async throws(ZIMError) {
        let session = try await call { () async throws(PresenceError) in
            try await self.client.login(customStatus: config.customStatus.isEmpty ? nil : config.customStatus)
        }
        setOwnID(session.userID)
    }

    /// Logs out.
    public func logout() async throws(ZIMError) {
        try await call { () async throws(PresenceError) in try await self.client.logout() }
    }

    /// Sets the only event handler; nil removes it.
    public func setEventHandler(_ handler: (any ZIMEventHandler)?) {
        client.removeListener(self)
        if let handler { client.addListener(Bridge(self, handler), for: self) }
    }

    /// Sets the own custom status; returns it.
    @discardableResult public func updateUserCustomStatus(_ customStatus: String) async throws(ZIMError) -> String {
        try await call { () async throws(PresenceError) in try await self.client.setSelfStatus(customStatus).customStatus }
    }

    /// Subscribes to users for a time. Beyond 3,000 the earliest subscriptions are replaced.
    public func subscribeUsersStatus(
        _ userIDs: [String], config: ZIMUserStatusSubscribeConfig
    ) async throws(ZIMError) -> [ZIMErrorUserInfo] {
        let minutes = config.subscriptionDuration
        // The node refuses durations near these bounds, because no policy allows them.
        let duration = Duration.seconds(60 * Int64(Int32(clamping: minutes)))
        do throws(PresenceError) {
            let answer = try await client.subscribeUserStatus(userIDs, expiry: duration)
            return answer.errorUserList.map { ZIMErrorUserInfo($0) }
        } catch { throw ZIMError(error, minutes: minutes) }
    }

    /// Unsubscribes from users.
    public func unsubscribeUsersStatus(_ userIDs: [String]) async throws(ZIMError) -> [ZIMErrorUserInfo] {
        try await call { () async throws(PresenceError) in try await self.client.unsubscribeUserStatus(userIDs) }
            .map { ZIMErrorUserInfo($0) }
    }

    /// The same as ``unsubscribeUsersStatus(_:)``: the name in the document's sample (Z16).
    public func unsubscribeUserStatus(_ userIDs: [String]) async throws(ZIMError) -> [ZIMErrorUserInfo] {
        try await unsubscribeUsersStatus(userIDs)
    }

    /// Returns the status of users, once. ``ZIMUserStatus/lastUpdateTime`` is the time of the last change of the online status (Z18).
    public func queryUsersStatusByUserIDs(
        _ userIDs: [String]
    ) async throws(ZIMError) -> (userStatusList: [ZIMUserStatus], errorUserList: [ZIMErrorUserInfo]) {
        let answer = try await call { () async throws(PresenceError) in try await self.client.getUserStatus(userIDs) }
        let own = ownID
        return (answer.userStatusList.map { ZIMUserStatus(queried: $0, ownID: own) }, answer.errorUserList.map { ZIMErrorUserInfo($0) })
    }

    /// Returns the own subscriptions: all, or those to the named users that are followed.
    public func querySubscribedUserStatusList(
        _ config: ZIMSubscribedUserStatusQueryConfig
    ) async throws(ZIMError) -> [ZIMUserStatusSubscription] {
        let page = try await call { () async throws(PresenceError) in try await self.client.getSubscribedUserStatus(config.userIDs) }
        let own = ownID
        return page.subscriptions.map { ZIMUserStatusSubscription($0, ownID: own) }
    }

    /// The same as ``querySubscribedUserStatusList(_:)``: the name in the document's sample.
    public func querySubscribedUserStatusListWithConfig(
        _ config: ZIMSubscribedUserStatusQueryConfig
    ) async throws(ZIMError) -> [ZIMUserStatusSubscription] {
        try await querySubscribedUserStatusList(config)
    }

    fileprivate var ownID: String? { userID.withLock { $0 } }

    fileprivate func setOwnID(_ ownID: String) { userID.withLock { $0 = ownID } }

    private func call<Answer>(_ body: () async throws(PresenceError) -> Answer) async throws(ZIMError) -> Answer {
        do { return try await body() } catch { throw ZIMError(error) }
    }
}

private final class Bridge: PresenceListener {
    private let handler: any ZIMEventHandler
    private let zim: Weak

    private final class Weak: Sendable {
        weak let zim: ZIM?

        init(_ zim: ZIM) { self.zim = zim }
    }

    init(_ zim: ZIM, _ handler: any ZIMEventHandler) {
        self.zim = Weak(zim)
        self.handler = handler
    }

    func onConnected(_ session: Session) { zim.zim?.setOwnID(session.userID) }

    func onUserStatusChanged(_ userStatusList: [UserStatus]) {
        guard let zim = zim.zim else { return }
        let own = zim.ownID
        handler.zim(zim, userStatusUpdated: userStatusList.map { ZIMUserStatus($0, ownID: own) })
    }

    func onConnectionStateChanged(_ change: ConnectionChange) {
        guard let zim = zim.zim else { return }
        let state: ZIMConnectionState =
            switch change.state {
            case .disconnected: .disconnected
            case .connecting: .connecting
            case .connected: .connected
            case .reconnecting: .reconnecting
            }
        var data: [String: String] = [:]
        let event: ZIMConnectionEvent
        switch change.reason {
        case .sessionOpened: event = .success
        case .login, .loggedOut, .closed: event = .activeLogin
        case .connectionLost(let detail):
            event = change.state == .disconnected ? .loginTimeout : .loginInterrupted
            data["reason"] = detail
        case .refused(let error):
            event = error.code == .notLoggedIn ? .tokenExpired : .loginInterrupted
            data["reason"] = error.description
        case .kickedOffline(let reason):
            event = .kickedOut
            data["reason"] = reason
        }
        handler.zim(zim, connectionStateChanged: state, event: event, extendedData: data)
    }
}
