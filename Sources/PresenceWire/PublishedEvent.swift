/// A published numeric status (N10–N14). The record carries the event in force to everyone who may see the user, on every path: a client
/// decides from the record whether to raise it (contract §4).
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

    /// No event.
    public init(newest: PublishedEvent? = nil, forLogins: PublishedEvent? = nil) {
        self.newest = newest
        self.forLogins = forLogins
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
    }

    /// Ends the events whose time is up.
    public mutating func expire(at wall: Milliseconds) {
        if let newest, newest.expiresAt <= wall { self.newest = nil }
        if let forLogins, forLogins.expiresAt <= wall { self.forLogins = nil }
    }
}
