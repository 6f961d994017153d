/// Decides which published events an app receives as news, from the statuses that it receives.
///
/// A status carries the event in force, on every path and as long as it is valid. An event is *raised*, which means that the app receives
/// it as news, if all of this holds:
/// - It was not raised before in this login.
/// - It was not published by another session of the same user, or its `syncEnabled` is true.
/// - Its `sendToOnlineUsersOnly` is false, or it was not published before the first session of this login was opened.
public struct RaisedEvents: Sendable {
    private struct Key: Hashable {
        let user: UserKey
        let eventID: String
    }

    /// The memory of raised events holds at least as many, and at most twice as many.
    private let eventsMax: Int
    private var ownID: String?
    /// The last sessions of this client since the login.
    private var sessionIDs: [String] = []
    /// The node's clock when the first session since the login was opened; nil without a session.
    private var beganAt: Int64?
    private var raised: Set<Key> = []
    private var raisedEarlier: Set<Key> = []

    /// - Parameter eventsMax: the number of remembered events. Beyond it an event may be raised again.
    public init(eventsMax: Int = 10_000) { self.eventsMax = max(eventsMax, 1) }

    /// Records that a session was opened, for the first time or again.
    public mutating func connected(_ session: Session) {
        ownID = session.userID
        beganAt = beganAt ?? session.serverTime
        sessionIDs = sessionIDs.suffix(15) + [session.sessionID]
    }

    /// Records the end of the login. The next login raises the events that are in force then.
    public mutating func disconnected() { self = RaisedEvents(eventsMax: eventsMax) }

    /// The events that a status raises: ``UserStatus/loginEvent`` before ``UserStatus/event``.
    public mutating func events(of status: UserStatus) -> [UserStatus.Event] {
        var events: [UserStatus.Event] = []
        if let event = status.loginEvent, isDue(event, of: status), remember(event, of: status) { events.append(event) }
        if let event = status.event, isDue(event, of: status), isFromThisLogin(event) || !event.sendToOnlineUsersOnly,
            remember(event, of: status)
        {
            events.append(event)
        }
        return events
    }

    /// The events in force, also those raised before, for an app that has requested the current values.
    public mutating func eventsInForce(of status: UserStatus) -> [UserStatus.Event] {
        let events = [status.loginEvent, status.event].compactMap(\.self)
        for event in events { _ = remember(event, of: status) }
        return events
    }

    /// Whether the event is not older than the login. Nodes of an earlier version do not send the time of publication; such an event counts
    /// as new.
    private func isFromThisLogin(_ event: UserStatus.Event) -> Bool {
        event.publishedAt == 0 || event.publishedAt >= beganAt ?? .max
    }

    private func isDue(_ event: UserStatus.Event, of status: UserStatus) -> Bool {
        event.syncEnabled || !isOfAnotherDevice(event, of: status)
    }

    private func isOfAnotherDevice(_ event: UserStatus.Event, of status: UserStatus) -> Bool {
        guard let ownID, UserKey(ownID) == UserKey(status.userID) else { return false }
        return event.sessionID.map { !sessionIDs.contains($0) } ?? true
    }

    /// Remembers an event. Returns false if it was raised before.
    private mutating func remember(_ event: UserStatus.Event, of status: UserStatus) -> Bool {
        // Nodes of an earlier version send no event ID.
        let id = event.eventID.isEmpty ? "\(event.value) \(event.expiresAt)" : event.eventID
        let key = Key(user: UserKey(status.userID), eventID: id)
        if raisedEarlier.contains(key) || !raised.insert(key).inserted { return false }
        if raised.count >= eventsMax { (raised, raisedEarlier) = ([], raised) }
        return true
    }
}
