import PresenceClient

/// CommsEase's event calls (`documents/002…`), over a ``PresenceClient/PresenceClient``.
public final class NIMEventSubscribeManager: Sendable {
    /// The client behind the manager, for features that the document does not have.
    public let client: PresenceClient
    private let bridges = Locked<[ObjectIdentifier: Bridge]>([:])

    /// - Parameter configuration: its limits become ``PresenceClient/CallLimits/commsease``.
    public init(_ configuration: ClientConfiguration) throws {
        var configuration = configuration
        configuration.limits = .commsease
        client = try PresenceClient(configuration)
    }

    /// Logs in the user of the token.
    public func login() async throws(NIMError) {
        _ = try await call { () async throws(PresenceError) in try await self.client.login() }
    }

    /// Logs out.
    public func logout() async throws(NIMError) {
        try await call { () async throws(PresenceError) in try await self.client.logout() }
    }

    /// Adds a delegate. Call it before ``login()``: a later one is told events in force as if they were new.
    public func addDelegate(_ delegate: any NIMEventSubscribeManagerDelegate) {
        let bridge = Bridge(delegate, since: client.loginSession)
        bridges.withLock { $0[ObjectIdentifier(delegate)] = bridge }
        client.addListener(bridge, for: delegate)
    }

    /// Removes a delegate.
    public func removeDelegate(_ delegate: any NIMEventSubscribeManagerDelegate) {
        bridges.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(delegate)) }
        client.removeListener(delegate)
    }

    /// Subscribes to users. Returns the publishers that failed.
    ///
    /// A new subscription replaces the validity, and with `syncEnabled` sends the current values again (N8).
    @discardableResult public func subscribeEvent(_ request: NIMSubscribeRequest) async throws(NIMError) -> [String] {
        let bridges = request.syncEnabled ? bridges.withLock { Array($0.values) } : []
        for bridge in bridges { bridge.expect(request.publishers) }
        do {
            let answer = try await call(type: request.type) { () async throws(PresenceError) in
                try await self.client.subscribeUserStatus(
                    request.publishers, expiry: .seconds(request.expiry), sync: request.syncEnabled)
            }
            let users = (answer.userStatusList ?? []).map(\.userID)
            let delivered = Set(users.map { UserKey($0) })
            for bridge in bridges {
                bridge.expectNoMore(request.publishers.filter { !delivered.contains(UserKey($0)) })
                await client.sendAgain(users, to: bridge.delegate)
            }
            return answer.errorUserList.map(\.userID)
        } catch {
            for bridge in bridges { bridge.expectNoMore(request.publishers) }
            throw error
        }
    }

    /// Unsubscribes from users; without publishers, from all. Returns the publishers that failed.
    @discardableResult public func unSubscribeEvent(_ request: NIMSubscribeRequest) async throws(NIMError) -> [String] {
        try await call(type: request.type) { () async throws(PresenceError) -> [String] in
            if !request.publishers.isEmpty { return try await self.client.unsubscribeUserStatus(request.publishers).map(\.userID) }
            try await self.client.unsubscribeAllUserStatus()
            return []
        }
    }

    /// Publishes an event. Returns it with the fields that the node has added.
    @discardableResult public func publishEvent(_ event: NIMSubscribeEvent) async throws(NIMError) -> NIMSubscribeEvent {
        let answer = try await call(type: event.type) { () async throws(PresenceError) in
            try await self.client.publishEvent(
                event.value, ext: event.ext, expiry: .seconds(event.expiry), sendToOnlineUsersOnly: event.sendToOnlineUsersOnly,
                syncEnabled: event.syncEnabled)
        }
        var published = event
        published.wasPublished(answer)
        return published
    }

    /// Returns the subscriptions to the publishers of the request, without those that are not followed. The document has no call to list
    /// all (N17).
    public func querySubscribeEvent(_ request: NIMSubscribeRequest) async throws(NIMError) -> [NIMSubscribeResult] {
        try await call(type: request.type) { () async throws(PresenceError) -> [NIMSubscribeResult] in
            guard !request.publishers.isEmpty else {
                throw PresenceError(code: .badParameter, title: "bad parameter", detail: "publishers: is empty")
            }
            return try await self.client.getSubscribedUserStatus(request.publishers).subscriptions.map { NIMSubscribeResult($0) }
        }
    }

    private func call<Answer>(
        type: Int = NIMSubscribeSystemEventType.online, _ body: () async throws(PresenceError) -> Answer
    ) async throws(NIMError) -> Answer {
        do throws(PresenceError) {
            guard type == NIMSubscribeSystemEventType.online else { throw NIMError.type(type) }
            return try await body()
        } catch { throw NIMError(error) }
    }

    private final class Bridge: PresenceListener {
        let delegate: any NIMEventSubscribeManagerDelegate
        private let delivered: Locked<DeliveredEvents>

        /// - Parameter session: the first session of the current login.
        init(_ delegate: any NIMEventSubscribeManagerDelegate, since session: Session?) {
            self.delegate = delegate
            delivered = Locked(DeliveredEvents(session))
        }

        /// Has the values of these users sent next, even if they were sent before.
        func expect(_ users: [String]) { delivered.withLock { $0.awaited.formUnion(users.map { UserKey($0) }) } }

        func expectNoMore(_ users: [String]) { delivered.withLock { $0.awaited.subtract(users.map { UserKey($0) }) } }

        func onConnected(_ session: Session) { delivered.withLock { $0.connected(session) } }

        func onSubscriptionSyncCompleted(_ type: SubscribeType) { delivered.withLock { $0.synced(type) } }

        /// A later login sends the state of that time (N21).
        func onConnectionStateChanged(_ change: ConnectionChange) {
            if change.state == .disconnected { delivered.withLock { $0 = DeliveredEvents() } }
        }

        func onUserStatusChanged(_ userStatusList: [UserStatus]) {
            let events = delivered.withLock { delivered in userStatusList.flatMap { delivered.undelivered(of: $0) } }
            if !events.isEmpty { delegate.onRecvSubscribeEvents(events) }
        }
    }
}
