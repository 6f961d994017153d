/// A published numeric status (N10–N14). The record carries the event in force to everyone who may see the user, on every path: a client
/// decides from the record whether to raise it.
public struct PublishedEvent: Hashable, Sendable {
    /// 10000 and above (N2).
    public var value: Int64
    /// Free text of the app.
    public var ext: String
    /// When it ends.
    public var expiresAt: Milliseconds
    /// The version of the record that carried it first: its `eventID` (N11). It names the event at its publisher and at every receiver.
    public var id: Version
    /// Only sessions that are open when it is published raise it (N13).
    public var isForOnlineOnly: Bool
    /// The other sessions of its publisher raise it, too (N14).
    public var isSynced: Bool
    /// The session that published it; nil where the call did not name one. Only the user's own sessions are shown it.
    public var session: SessionID?

    /// When it was published (N11).
    public var publishedAt: Milliseconds { id.milliseconds }

    public init(
        value: Int64, ext: String, expiresAt: Milliseconds, id: Version = .zero, isForOnlineOnly: Bool = true, isSynced: Bool = true,
        session: SessionID? = nil
    ) {
        self.value = value
        self.ext = ext
        self.expiresAt = expiresAt
        self.id = id
        self.isForOnlineOnly = isForOnlineOnly
        self.isSynced = isSynced
        self.session = session
    }
}

/// The events of a user that are in force.
public struct PublishedEvents: Hashable, Sendable {
    /// The newest event.
    public var newest: PublishedEvent?
    /// The newest event that later logins raise (N13), where ``newest`` is another one.
    public var forLogins: PublishedEvent?
    /// The newest event that was ever published: a copy that knows a newer one wins, also when that has ended.
    public private(set) var newestID: Version
    /// The same of the events that later logins raise.
    public private(set) var newestIDForLogins: Version

    /// No event, unless some are given. Events that have ended are known by their IDs alone.
    public init(
        newest: PublishedEvent? = nil, forLogins: PublishedEvent? = nil, newestID: Version = .zero, newestIDForLogins: Version = .zero
    ) {
        self.newest = newest
        self.forLogins = forLogins
        (self.newestID, self.newestIDForLogins) = (newestID, newestIDForLogins)
        self.newestIDForLogins = max(newestIDForLogins, loginEvent?.id ?? .zero)
        self.newestID = max(newestID, self.newestIDForLogins, newest?.id ?? .zero)
    }

    /// The event that later logins raise.
    private var loginEvent: PublishedEvent? { newest.flatMap { $0.isForOnlineOnly ? nil : $0 } ?? forLogins }

    /// Whether `other` knows an event that was published later.
    public func isBehind(_ other: PublishedEvents) -> Bool {
        other.newestID > newestID || other.newestIDForLogins > newestIDForLogins
    }

    /// Takes the newer events of `other`: two sides of a split may each have taken some.
    public mutating func merge(_ other: PublishedEvents) {
        let login = other.newestIDForLogins > newestIDForLogins ? other.loginEvent : loginEvent
        let newest = other.newestID > newestID ? other.newest : newest
        self = PublishedEvents(
            newest: newest, forLogins: login?.id == newest?.id ? nil : login, newestID: max(newestID, other.newestID),
            newestIDForLogins: max(newestIDForLogins, other.newestIDForLogins))
    }

    /// No event is in force.
    public var isEmpty: Bool { newest == nil && forLogins == nil }

    /// When the next event ends; nil for never.
    public var nextExpiry: Milliseconds? {
        switch (newest?.expiresAt, forLogins?.expiresAt) {
        case (let first?, let second?): min(first, second)
        case (let first, let second): first ?? second
        }
    }

    /// Puts `event` into force. An event for online users only leaves the newest one for later logins in force beside it (N13).
    public mutating func publish(_ event: PublishedEvent) {
        if !event.isForOnlineOnly { forLogins = nil } else if let newest, !newest.isForOnlineOnly { forLogins = newest }
        newest = event
        newestID = event.id
        if !event.isForOnlineOnly { newestIDForLogins = event.id }
    }

    /// Ends the events whose time is up.
    public mutating func expire(at wall: Milliseconds) {
        if let newest, newest.expiresAt <= wall { self.newest = nil }
        if let forLogins, forLogins.expiresAt <= wall { self.forLogins = nil }
    }
}
