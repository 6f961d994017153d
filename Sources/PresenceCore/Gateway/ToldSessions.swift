import PresenceWire

/// The open sessions of users with sessions on a gateway, as those were last told them (`onSessionsChanged`).
///
/// A session that was always alone is told nothing.
struct ToldSessions {
    private var sessions: [WatchIndex.UserIndex: [UserSession]] = [:]

    /// Takes the sessions of a user from its owner; empty if the owner does not say. Returns whether the open sessions are told them.
    mutating func take(_ new: [UserSession], of user: WatchIndex.UserIndex) -> Bool {
        let known = sessions[user]
        guard !new.isEmpty, new != known else { return false }
        sessions[user] = new
        return known != nil || new.count > 1
    }

    /// The last session of the user has closed.
    mutating func remove(_ user: WatchIndex.UserIndex) { sessions[user] = nil }

    /// Tells a session that logs in of the others, and any other session of a change.
    static func tell(_ session: Gateway.SessionIndex, isLogin: Bool, hasNews: Bool, in gateway: inout Gateway) {
        guard let known = gateway.toldSessions.sessions[gateway.sessions[session].user] else { return }
        if isLogin ? known.count > 1 : hasNews && gateway.sessions[session].hasList { push(to: session, in: &gateway) }
    }

    /// Tells a session all sessions of its user. While the queue is full, it owes the newest ones.
    static func push(to session: Gateway.SessionIndex, in gateway: inout Gateway) {
        guard !gateway.sessions[session].isBlocked else { return gateway.sessions[session].owesSessions = true }
        gateway.sessions[session].owesSessions = false
        let sessions = gateway.toldSessions.sessions[gateway.sessions[session].user] ?? []
        gateway.push(EventText.sessionsChanged(sessions, id: gateway.position(of: session)), to: session)
    }
}
