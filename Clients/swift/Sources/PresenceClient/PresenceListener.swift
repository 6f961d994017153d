/// Receives a client's events, one after the other, on a background thread.
///
/// A slow listener delays only itself. Newer events replace those that it has not received yet.
public protocol PresenceListener: AnyObject, Sendable {
    /// A session was opened, for the first time or again.
    func onConnected(_ session: Session)
    /// The status of the own user, of a friend or of a followed user has changed; each user once, whole records.
    func onUserStatusChanged(_ userStatusList: [UserStatus])
    /// All statuses of this type that the session follows have arrived. Called once for each type.
    func onSubscriptionSyncCompleted(_ type: SubscribeType)
    /// Another device of the same user has subscribed or unsubscribed.
    func onSubscriptionChangedOnOtherDevices(_ change: SubscriptionChange)
    /// Subscriptions to these users have expired. Called only if the app's policy says so (`subscription.notifyExpiry`).
    func onSubscriptionExpired(_ userIDs: [String])
    /// The own user's open sessions on all devices have changed. Called after a login, too, if there are others.
    func onSessionsChanged(_ sessions: [DeviceSession])
    /// The own relationship chain has changed, or the profile of a user whom the own user follows.
    func onRelationshipChanged(_ change: RelationshipChange)
    /// The node ended the session. The client does not log in again by itself.
    func onKickedOffline(reason: String)
    /// The user logged this session out on another device. The client does not log in again by itself.
    func onLogout()
    /// The state of the connection has changed.
    func onConnectionStateChanged(_ change: ConnectionChange)
}

/// Default implementations: every method is optional.
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
    public func onSessionsChanged(_ sessions: [DeviceSession]) {}
    /// Does nothing.
    public func onRelationshipChanged(_ change: RelationshipChange) {}
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
        case .sessionsChanged(let sessions): onSessionsChanged(sessions)
        case .relationshipChanged(let change): onRelationshipChanged(change)
        case .kickedOffline(let reason): onKickedOffline(reason: reason)
        case .loggedOut: onLogout()
        case .connectionStateChanged(let change): onConnectionStateChanged(change)
        }
    }
}
