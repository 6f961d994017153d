import PresenceWire

/// The users whose open sessions may differ from those that their nodes were last sent (`onSessionsChanged`).
///
/// The nodes with sessions of a user are sent all open sessions at the next tick, so that several changes make one message. A user with one
/// session, whose node was never sent another one, costs nothing.
///
/// The message is a change of the subscription list without a change. The list hash then shows whether it was lost on a broken link
/// (``PresenceWire/ListUpdate/listHash``), and the whole list, which is sent in that case, has the sessions as well.
struct SessionNews {
    /// The hash of sessions that another owner may have sent.
    static let unknown: UInt64 = 1

    private var waiting: [UserID] = []

    mutating func add(_ user: UserID) { waiting.append(user) }

    /// Takes the users that wait.
    mutating func takeAll() -> [UserID] { waiting.takeAll() }

    /// Sends the sessions of the users that wait. Called at every tick.
    static func send(by owner: inout Owner, into outbox: inout Outbox) {
        for id in owner.takeSessionNews() {
            guard let user = owner.users.index(of: id), owner.modify(user, { $0.takeSessionNews() }) else { continue }
            var update = ListUpdate(user: id, version: owner.users[user].followsVersion, isWhole: false, added: [], removed: [])
            update.sessions = owner.users[user].sessionsToTell
            owner.modify(user) { $0.listHash = update.listHash(after: $0.listHash) }
            for peer in owner.users[user].sessionPeers { outbox.send(.listUpdate(update), to: peer) }
        }
    }
}

extension OwnedUser {
    /// The sessions that are not in their grace, in the order of their logins.
    var openSessions: [OwnedSession] {
        sessions.filter { $0.graceDeadline == nil }.sorted { ($0.openedAt, $0.id) < ($1.openedAt, $1.id) }
    }

    /// The open sessions as the nodes are sent them; empty if they have been sent none, and while gateways may still register some.
    var sessionsToTell: [UserSession] {
        guard toldSessions != 0, confirmationDeadline == nil else { return [] }
        return openSessions.map { UserSession(id: $0.id, platform: $0.platform, deviceID: $0.deviceID, node: "", since: $0.openedAt) }
    }

    /// Whether the open sessions differ from those that the nodes were sent. It changes nothing else, like ``currentFactsHash()``.
    mutating func reviewSessionNews() -> Bool {
        if sessions.isEmpty { toldSessions = 0 }
        guard sessions.count > 1 || toldSessions != 0, confirmationDeadline == nil else { return false }
        let hash = openSessionsHash
        return hash != 0 && hash != toldSessions
    }

    /// Records that the open sessions are sent now. Returns false if there is nothing to send.
    fileprivate mutating func takeSessionNews() -> Bool {
        guard !isReplica, reviewSessionNews() else { return false }
        toldSessions = openSessionsHash
        return true
    }

    /// A hash of the open sessions; 0 for none.
    private var openSessionsHash: UInt64 {
        sessions.reduce(0) { $1.graceDeadline == nil ? $0 ^ ViewDigest.hash(of: $1.id) : $0 }
    }
}
