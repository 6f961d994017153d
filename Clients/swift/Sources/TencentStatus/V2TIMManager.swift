import PresenceClient

/// Tencent's user status calls (`documents/000…`), over a ``PresenceClient/PresenceClient``.
///
/// A call that fails for one user of many throws (T37). The node has carried it out for the others.
public final class V2TIMManager: Sendable {
    /// The client behind this one, for features that the document does not have.
    public let client: PresenceClient
    private static let instance = SharedInstance<V2TIMManager>()

    /// - Parameter configuration: its limits become ``PresenceClient/CallLimits/tencent``.
    public init(_ configuration: ClientConfiguration) throws {
        var configuration = configuration
        configuration.limits = .tencent
        client = try PresenceClient(configuration)
    }

    /// Makes the instance that ``sharedInstance()`` returns. An app calls it once, when it starts.
    public static func configure(_ configuration: ClientConfiguration) throws { instance.set(try V2TIMManager(configuration)) }

    /// The instance of ``configure(_:)``, which must have been called.
    public static func sharedInstance() -> V2TIMManager {
        guard let manager = instance.current else { preconditionFailure("call V2TIMManager.configure(_:) before sharedInstance()") }
        return manager
    }

    /// The same as ``sharedInstance()``: the name in the document's other samples.
    public static func getInstance() -> V2TIMManager { sharedInstance() }

    /// Logs in the user of the token.
    public func login() async throws(V2TIMError) {
        _ = try await call { () async throws(PresenceError) in try await self.client.login() }
    }

    /// Logs out: the user goes UNLOGINED.
    public func logout() async throws(V2TIMError) {
        try await call { () async throws(PresenceError) in try await self.client.logout() }
    }

    /// The user that is logged in, even while a lost connection is reopened; nil for none.
    public func getLoginUser() -> String? { client.loginSession?.userID }

    /// Adds a listener.
    public func addIMSDKListener(_ listener: any V2TIMSDKListener) { client.addListener(Bridge(listener), for: listener) }

    /// Removes a listener.
    public func removeIMSDKListener(_ listener: any V2TIMSDKListener) { client.removeListener(listener) }

    /// Sets the own custom status; nil or empty clears it.
    public func setSelfStatus(_ status: V2TIMUserStatus) async throws(V2TIMError) {
        _ = try await call { () async throws(PresenceError) in try await self.client.setSelfStatus(status.customStatus) }
    }

    /// Returns the status of users, which may include the own user.
    public func getUserStatus(_ userIDList: [String]) async throws(V2TIMError) -> [V2TIMUserStatus] {
        let answer = try await call { () async throws(PresenceError) in try await self.client.getUserStatus(userIDList) }
        if let error = V2TIMError(answer.errorUserList) { throw error }
        return answer.userStatusList.map { V2TIMUserStatus($0) }
    }

    /// Subscribes to users. Beyond the quota the earliest subscriptions are removed.
    public func subscribeUserStatus(_ userIDList: [String]) async throws(V2TIMError) {
        let answer = try await call { () async throws(PresenceError) in try await self.client.subscribeUserStatus(userIDList) }
        if let error = V2TIMError(answer.errorUserList) { throw error }
    }

    /// Unsubscribes from users; with an empty list, from all.
    public func unsubscribeUserStatus(_ userIDList: [String]) async throws(V2TIMError) {
        let errors = try await call { () async throws(PresenceError) -> [UserError] in
            if !userIDList.isEmpty { return try await self.client.unsubscribeUserStatus(userIDList) }
            try await self.client.unsubscribeAllUserStatus()
            return []
        }
        if let error = V2TIMError(errors) { throw error }
    }

    private func call<Answer>(_ body: () async throws(PresenceError) -> Answer) async throws(V2TIMError) -> Answer {
        do { return try await body() } catch { throw V2TIMError(error) }
    }

    private final class Bridge: PresenceListener {
        private let listener: any V2TIMSDKListener
        private let own = Locked(OwnStatus())

        init(_ listener: any V2TIMSDKListener) { self.listener = listener }

        func onConnected(_ session: Session) { own.withLock { $0.connected(session) } }

        func onUserStatusChanged(_ userStatusList: [UserStatus]) {
            own.withLock { $0.received(userStatusList) }
            listener.onUserStatusChanged(userStatusList.map { V2TIMUserStatus($0) })
        }

        func onSubscriptionSyncCompleted(_ type: SubscribeType) { tell(own.withLock { $0.synced() }) }

        private func tell(_ status: UserStatus?) {
            if let status { listener.onUserStatusChanged([V2TIMUserStatus(status)]) }
        }

        func onKickedOffline(reason: String) { listener.onKickedOffline() }

        /// The document has no other callback for a session that was ended elsewhere.
        func onLogout() { listener.onKickedOffline() }

        func onConnectionStateChanged(_ change: ConnectionChange) {
            if change.state == .reconnecting { tell(own.withLock { $0.lost() }) }
            if change.state == .disconnected { own.withLock { $0.ended() } }
            switch (change.state, change.reason) {
            case (.connecting, _), (.reconnecting, _): listener.onConnecting()
            case (.connected, _): listener.onConnectSuccess()
            case (.disconnected, .refused(let error)): listener.onConnectFailed(error.code.rawValue, error.detail)
            case (.disconnected, .connectionLost(let detail)):
                listener.onConnectFailed(PresenceError.Code.unreachable.rawValue, detail)
            case (.disconnected, _): break
            }
        }
    }
}
