import PresenceWire

/// The ends of the tokens by which the sessions of a gateway were opened or renewed.
///
/// Each session has one deadline: first that of the notice to its client, then that of its end.
struct TokenEnds {
    typealias SessionIndex = Gateway.SessionIndex

    /// How long before the end of a token its client is notified: 30 s.
    static let notice: Milliseconds = 30_000

    /// The action that is due for a session.
    enum Due: Equatable {
        /// The client must learn that its token ends at this time.
        case notice(expiresAt: Milliseconds)
        /// The session must end.
        case end
    }

    private var deadlines = Deadlines<Milliseconds>()
    /// By session, the end of its token. The value of a session without a deadline has no meaning.
    private var ends: [Milliseconds] = []

    /// Whether a session ends with its token.
    func contains(_ session: SessionIndex) -> Bool { deadlines.deadline(of: session) != nil }

    /// Sets the end of a new session's token. A token without an end has the time `.max`.
    mutating func open(_ session: SessionIndex, expiresAt: Milliseconds) {
        guard expiresAt < .max else { return }
        while ends.count <= Int(session) { ends.append(0) }
        ends[Int(session)] = expiresAt
        deadlines.set(session, at: expiresAt - Self.notice)
    }

    /// Moves the end of a session to that of a newer token. The end never moves back, whatever the order of arrival.
    ///
    /// A client whose token ends no later is notified again: an app may hand out several tokens with the same end, and the client needs one
    /// that ends later.
    mutating func renew(_ session: SessionIndex, expiresAt: Milliseconds) {
        guard contains(session) else { return }
        deadlines.remove(session)
        open(session, expiresAt: max(expiresAt, ends[Int(session)]))
    }

    mutating func close(_ session: SessionIndex) { deadlines.remove(session) }

    /// Applies a changed grace to a session whose client has been notified.
    mutating func setGrace(_ grace: Duration, of session: SessionIndex) {
        guard contains(session), !awaitsNotice(session) else { return }
        deadlines.set(session, at: end(of: session, grace))
    }

    /// The session with the earliest deadline that has passed; nil if there is none.
    func firstDue(at wall: Milliseconds) -> SessionIndex? {
        guard let (time, session) = deadlines.first, time <= wall else { return nil }
        return session
    }

    /// Returns the action for a session whose deadline has passed.
    ///
    /// - Parameter grace: the time between the end of the token and that of the session.
    mutating func takeDue(of session: SessionIndex, _ grace: Duration) -> Due {
        guard awaitsNotice(session) else {
            deadlines.remove(session)
            return .end
        }
        deadlines.set(session, at: end(of: session, grace))
        return .notice(expiresAt: ends[Int(session)])
    }

    private func awaitsNotice(_ session: SessionIndex) -> Bool {
        deadlines.deadline(of: session) == ends[Int(session)] - Self.notice
    }

    private func end(of session: SessionIndex, _ grace: Duration) -> Milliseconds {
        let (end, isBeyond) = ends[Int(session)].addingReportingOverflow(grace.wholeMilliseconds)
        return isBeyond ? .max : end
    }
}

extension Gateway {
    /// Notifies the clients whose tokens end soon, and ends the sessions whose tokens have ended.
    mutating func followTokenEnds(at wall: Milliseconds) {
        while let session = tokenEnds.firstDue(at: wall) {
            let policy = policies.policy(of: watches.user(at: sessions[session].user))
            switch tokenEnds.takeDue(of: session, policy.tokenGrace) {
            case .notice(let expiresAt): push(EventText.tokenExpiring(at: expiresAt, id: position(of: session)), to: session)
            case .end:
                counters.expiredSessions += 1
                end(session, reason: SessionEnd.tokenExpired)
            }
        }
    }
}
