/// Is called for what a client is told, one event after the other, on a background thread.
///
/// A slow listener delays only itself: what it has not been told yet is replaced by what is newer.
public protocol PresenceListener: AnyObject, Sendable {
    /// A session was opened, for the first time or again.
    func onConnected(_ session: Session)
    /// The own status, that of a friend, or that of a user one follows has changed; each user once, whole records.
    func onUserStatusChanged(_ userStatusList: [UserStatus])
    /// Everything of this type that the session follows has been told. Comes once for each type followed.
    func onSubscriptionSyncCompleted(_ type: SubscribeType)
    /// Another device of the same user has subscribed or unsubscribed.
    func onSubscriptionChangedOnOtherDevices(_ change: SubscriptionChange)
    /// Subscriptions of these users have run out; told only where the app's policy wants it (`subscription.notifyExpiry`).
    func onSubscriptionExpired(_ userIDs: [String])
    /// The node has ended the session; the client does not come back by itself.
    func onKickedOffline(reason: String)
    /// The user logged this session out on another device; the client does not come back by itself.
    func onLogout()
    /// The connection is in another state.
    func onConnectionStateChanged(_ change: ConnectionChange)
}

/// Every method may be left out.
extension PresenceListener {
    /// Does nothing.
    public func onConnected(_ session: Session) {}
    /// Does nothing.
    public func onUserStatusChanged(_ userStatusList: [UserStatus]) {}
    /// Does nothing.
    public func onSubscriptionSyncCompleted(_ type: SubscribeType) {}
    /// Does nothing.
    public func onSubscriptionChangedOnOtherDevices(_ change: SubscriptionChange) {}
    /// Does nothing.
    public func onSubscriptionExpired(_ userIDs: [String]) {}
    /// Does nothing.
    public func onKickedOffline(reason: String) {}
    /// Does nothing.
    public func onLogout() {}
    /// Does nothing.
    public func onConnectionStateChanged(_ change: ConnectionChange) {}

    func receive(_ event: PresenceEvent) {
        switch event {
        case .connected(let session): onConnected(session)
        case .userStatusChanged(let statuses): onUserStatusChanged(statuses)
        case .subscriptionSyncCompleted(let type): onSubscriptionSyncCompleted(type)
        case .subscriptionChangedOnOtherDevices(let change): onSubscriptionChangedOnOtherDevices(change)
        case .subscriptionExpired(let users): onSubscriptionExpired(users)
        case .kickedOffline(let reason): onKickedOffline(reason: reason)
        case .loggedOut: onLogout()
        case .connectionStateChanged(let change): onConnectionStateChanged(change)
        }
    }
}
