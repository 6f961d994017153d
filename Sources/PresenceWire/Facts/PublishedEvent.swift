/// A numeric status that a user publishes for a time (N10–N14).
///
/// The record carries the event in force on every path to everyone who may see the user. The client decides from the record whether to
/// raise it.
public struct PublishedEvent: Hashable, Sendable {
    /// The number, at least 10000 (N2).
    public var value: Int64
    /// A free text of the app.
    public var ext: String
    /// The time at which the event ends.
    public var expiresAt: Milliseconds
    /// The version of the first record that carried the event: its `eventID` (N11).
    ///
    /// The publisher and every receiver know the event by this ID.
    public var id: Version
    /// Whether only sessions that are open at publication raise the event (N13).
    public var isForOnlineOnly: Bool
    /// Whether the publisher's other sessions raise the event, too (N14).
    public var isSynced: Bool
    /// The session that published the event; nil if the call named none. Only the user's own sessions receive it.
    public var session: SessionID?

    /// The time of publication (N11).
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
    /// The ID of the newest event that was ever published.
    ///
    /// A copy with a larger ID wins, even if its event has ended.
    public private(set) var newestID: Version
    /// The ID of the newest event that was ever published for later logins.
    public private(set) var newestIDForLogins: Version

    /// Without arguments no event is in force. Only the IDs remain of events that have ended.
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

    /// Merges the newer events of `other`. Each side of a split may have stored some.
    public mutating func merge(_ other: PublishedEvents) {
        let login = other.newestIDForLogins > newestIDForLogins ? other.loginEvent : loginEvent
        let newest = other.newestID > newestID ? other.newest : newest
        self = PublishedEvents(
            newest: newest, forLogins: login?.id == newest?.id ? nil : login, newestID: max(newestID, other.newestID),
            newestIDForLogins: max(newestIDForLogins, other.newestIDForLogins))
    }

    /// Whether no event is in force.
    public var isEmpty: Bool { newest == nil && forLogins == nil }

    /// The time at which the next event ends; nil for never.
    public var nextExpiry: Milliseconds? {
        switch (newest?.expiresAt, forLogins?.expiresAt) {
        case (let first?, let second?): min(first, second)
        case (let first, let second): first ?? second
        }
    }

    /// Puts `event` into force.
    ///
    /// An event for online users only does not replace the newest event for later logins (N13).
    public mutating func publish(_ event: PublishedEvent) {
        if !event.isForOnlineOnly { forLogins = nil } else if let newest, !newest.isForOnlineOnly { forLogins = newest }
        newest = event
        newestID = event.id
        if !event.isForOnlineOnly { newestIDForLogins = event.id }
    }

    /// Removes the events that have ended at `wall`.
    public mutating func expire(at wall: Milliseconds) {
        if let newest, newest.expiresAt <= wall { self.newest = nil }
        if let forLogins, forLogins.expiresAt <= wall { self.forLogins = nil }
    }
}
