import PresenceWire

/// A session that its owner has ended, or all sessions up to a time, until the session's node reports the end.
///
/// The node may register the session once more before it reads of the end: with a new owner, or after a comparison that differed. The
/// user would be ONLINE again after a logout or a kick, and an app's webhook would be told of a second login.
///
/// A kick is a fact that every node keeps. So each later owner ends such a session as well (``Kicks/end(of:)``).
struct EndedSession {
    enum Which {
        case one(SessionID)
        /// Every session that was opened until then, by the clock of its gateway.
        case opened(until: Milliseconds)
    }

    let which: Which
    /// The node of the session's gateway; nil if no node has registered the session here.
    let peer: PeerIndex?
    /// The reason that the client is told, see ``PresenceWire/SessionEnd``.
    let reason: String
    /// The time until which a node may register the session for the first time.
    var deadline = Instant.farFuture
    /// The ID of the last registration that named the session.
    var registrationID: UInt64 = 0

    /// The form in which the next owner receives it.
    var handed: PendingEnds.Ended {
        switch which {
        case .one(let session): PendingEnds.Ended(session: session, openedUntil: 0, reason: reason)
        case .opened(let time): PendingEnds.Ended(session: nil, openedUntil: time, reason: reason)
        }
    }

    fileprivate func names(_ session: SessionID) -> Bool { if case .one(session) = which { true } else { false } }

    fileprivate func names(_ attach: Attach) -> Bool {
        switch which {
        case .one(let session): session == attach.session
        case .opened(let time): !attach.isLogin && attach.openedAt <= time
        }
    }
}

extension EndedSession {
    /// Sessions that a former owner has ended. Their nodes may register them with this owner until `deadline`.
    init(handed: PendingEnds.Ended, until deadline: Instant) {
        let which = handed.session.map { Which.one($0) } ?? .opened(until: handed.openedUntil)
        self.init(which: which, peer: nil, reason: handed.reason, deadline: deadline)
    }
}

extension OwnedUser {
    /// Records that a session's node is told of the session's end.
    ///
    /// A node reports the end of each session that it is told of, also of one that it does not have. So few wait at a time.
    mutating func awaitEnd(_ ended: EndedSession) {
        if case .one(let session) = ended.which { reportEnd(of: session) }
        if endedSessions.count >= Limits.sessionsPerUserMax { endedSessions.removeFirst() }
        endedSessions.append(ended)
    }

    /// Records that a node has reported the end of a session, or that it does not have the session.
    mutating func reportEnd(of session: SessionID) { endedSessions.removeAll { $0.names(session) } }

    /// The reason of the end of a session that a node registers; nil if the session has not ended here.
    mutating func reasonOfEnd(of attach: Attach, registrationID: UInt64, at now: Instant) -> String? {
        endedSessions.removeAll { $0.deadline <= now }
        guard let index = endedSessions.firstIndex(where: { $0.names(attach) }), !sessions.contains(where: { $0.id == attach.session })
        else { return nil }
        endedSessions[index].registrationID = registrationID
        return endedSessions[index].reason
    }
}
