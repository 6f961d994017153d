import PresenceClient

/// RongCloud's subscription calls (`documents/001…`), over a ``PresenceClient/PresenceClient``.
///
/// Every call returns (status, …) like the document's completions. If some users failed, the status is the code of the first.
public final class RCCoreClient: Sendable {
    private static let instance = SharedInstance<RCCoreClient>()

    /// The client behind this one, for features that the document does not have.
    public let client: PresenceClient
    private let types = FollowedTypes()

    /// - Parameter configuration: its limits become ``PresenceClient/CallLimits/rongcloud``.
    public init(_ configuration: ClientConfiguration) throws {
        var configuration = configuration
        configuration.limits = .rongcloud
        client = try PresenceClient(configuration)
    }

    /// Makes the instance that ``sharedCoreClient()`` returns. An app calls it once, when it starts.
    public static func configure(_ configuration: ClientConfiguration) throws { instance.set(try RCCoreClient(configuration)) }

    /// The instance of ``configure(_:)``, which must have been called.
    public static func sharedCoreClient() -> RCCoreClient {
        guard let core = instance.current else { preconditionFailure("call RCCoreClient.configure(_:) before sharedCoreClient()") }
        return core
    }

    /// Connects as the user of the token.
    public func connect() async -> (status: RCErrorCode, userId: String?) {
        // The first statuses arrive with the login.
        await types.refresh(from: client)
        do { return (RC_SUCCESS, try await client.login().userID) } catch { return (RCErrorCode(error), nil) }
    }

    /// Logs out.
    public func logout() async -> RCErrorCode {
        do {
            try await client.logout()
            return RC_SUCCESS
        } catch { return RCErrorCode(error) }
    }

    /// Adds a delegate. Call it before ``connect()``.
    public func addSubscribeEventDelegate(_ delegate: any RCSubscribeEventDelegate) {
        let bridge = Bridge(delegate, own: client.loginSession?.userID, types: types) { [types = self.types, weak client = self.client] in
            if let client { Task { await types.refresh(from: client) } }
        }
        client.addListener(bridge, for: delegate)
    }

    /// Removes a delegate.
    public func removeSubscribeEventDelegate(_ delegate: any RCSubscribeEventDelegate) { client.removeListener(delegate) }

    /// Subscribes to users.
    public func subscribeEvent(_ request: RCSubscribeEventRequest) async -> (status: RCErrorCode, failedUserIds: [String]?) {
        let expiry = request.expiry == 0 ? nil : Duration.seconds(request.expiry)
        // The statuses may arrive before the answer.
        let earlier = types.set(request.subscribeType, of: request.userIds)
        do {
            let answer = try await client.subscribeUserStatus(
                request.userIds, expiry: expiry, subscribeType: request.subscribeType.wire)
            types.restore(earlier, of: answer.errorUserList.map(\.userID))
            return Self.result(answer.errorUserList)
        } catch {
            // A newer call of the same users has set their types.
            if error.code != .superseded { types.restore(earlier, of: request.userIds) }
            return (RCErrorCode(error), request.userIds)
        }
    }

    /// Unsubscribes from users.
    public func unSubscribeEvent(_ request: RCSubscribeEventRequest) async -> (status: RCErrorCode, failedUserIds: [String]?) {
        do {
            return Self.result(try await client.unsubscribeUserStatus(request.userIds, subscribeType: request.subscribeType.wire))
        } catch { return (RCErrorCode(error), request.userIds) }
    }

    /// Returns the subscriptions to the users of the request.
    public func querySubscribeEvent(
        _ request: RCSubscribeEventRequest
    ) async -> (status: RCErrorCode, subscribeEvents: [RCSubscribeInfoEvent]?) {
        guard !request.userIds.isEmpty else { return (RCErrorCode(rawValue: PresenceError.Code.badParameter.rawValue), nil) }
        do {
            let page = try await client.getSubscribedUserStatus(request.userIds, subscribeType: request.subscribeType.wire)
            return (RC_SUCCESS, page.subscriptions.map { RCSubscribeInfoEvent($0) })
        } catch { return (RCErrorCode(error), nil) }
    }

    /// Returns a page of all subscriptions.
    ///
    /// - Parameters:
    ///   - pageSize: 1 to 200.
    ///   - startIndex: 0 first, then the number of rows already returned.
    public func querySubscribeEvent(
        _ request: RCSubscribeEventRequest, pageSize: Int, startIndex: Int
    ) async -> (status: RCErrorCode, subscribeEvents: [RCSubscribeInfoEvent]?) {
        do {
            let page = try await client.getSubscribedUserStatus(
                offset: startIndex, limit: pageSize, subscribeType: request.subscribeType.wire)
            return (RC_SUCCESS, page.subscriptions.map { RCSubscribeInfoEvent($0) })
        } catch { return (RCErrorCode(error), nil) }
    }

    private static func result(_ errors: [UserError]) -> (status: RCErrorCode, failedUserIds: [String]?) {
        guard let first = errors.first else { return (RC_SUCCESS, nil) }
        return (RCErrorCode(rawValue: first.code.rawValue), errors.map(\.userID))
    }

    /// Translates the events of the client for a delegate.
    final class Bridge: PresenceListener {
        private let delegate: any RCSubscribeEventDelegate
        private let own: Locked<UserKey?>
        private let types: FollowedTypes
        private let refreshTypes: @Sendable () -> Void

        /// - Parameter refreshTypes: begins to read the types again, because another device may have changed them.
        init(
            _ delegate: any RCSubscribeEventDelegate, own: String? = nil, types: FollowedTypes, refreshTypes: @escaping @Sendable () -> Void
        ) {
            self.delegate = delegate
            self.own = Locked(own.map { UserKey($0) })
            self.types = types
            self.refreshTypes = refreshTypes
        }

        func onConnected(_ session: Session) {
            own.withLock { $0 = UserKey(session.userID) }
            refreshTypes()
        }

        /// Nobody subscribes to itself, so the own status is not an event.
        func onUserStatusChanged(_ userStatusList: [UserStatus]) {
            let own = own.withLock { $0 }
            let others = userStatusList.filter { UserKey($0.userID) != own }
            if !others.isEmpty { delegate.onEventChange(others.map { RCSubscribeInfoEvent($0, types.type(of: $0.userID)) }) }
        }

        func onSubscriptionSyncCompleted(_ type: SubscribeType) {
            delegate.onSubscriptionSyncCompleted(RCSubscribeType(rawValue: type.rawValue) ?? .onlineStatus)
            if type == .onlineStatus { delegate.onSubscriptionSyncCompleted() }
        }

        func onSubscriptionChangedOnOtherDevices(_ change: SubscriptionChange) {
            types.set(change)
            let made = change.subscriptions.map { RCSubscribeEvent($0, .subscribe) }
            let ended = change.unsubscriptions.map { RCSubscribeEvent($0, .unsubscribe) }
            delegate.onSubscriptionChangedOnOtherDevices(made + ended)
        }
    }
}

extension RCErrorCode {
    fileprivate init(_ error: PresenceError) { self.init(rawValue: error.code.rawValue) }
}
