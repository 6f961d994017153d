import PresenceClient

/// The own status as a listener knows it, over losses of the connection (T11).
///
/// No node reaches a client whose connection is lost. So the client itself tells its listener that the user is OFFLINE without a custom
/// status.
struct OwnStatus {
    private var userID: String?
    /// The newest own status that a node has sent.
    private var newest: UserStatus?
    /// Whether the listener was told of a loss, and of no status since.
    private var isLost = false

    /// Records the user of a session.
    mutating func connected(_ session: Session) {
        guard userID.map({ UserKey($0) != UserKey(session.userID) }) ?? true else { return }
        self = OwnStatus(userID: session.userID)
    }

    /// Records statuses that the listener receives.
    mutating func received(_ statuses: [UserStatus]) {
        guard let userID, let own = statuses.last(where: { UserKey($0.userID) == UserKey(userID) }) else { return }
        (newest, isLost) = (own, false)
    }

    /// Records that the connection is lost. Returns the status to tell, if the listener knows the user as ONLINE.
    mutating func lost() -> UserStatus? {
        guard var status = newest, status.statusType == .online, !isLost else { return nil }
        isLost = true
        (status.statusType, status.customStatus) = (.offline, "")
        return status
    }

    /// Records that a session has sent all statuses. Returns the status to tell, if the loss has changed nothing for the cluster.
    mutating func synced() -> UserStatus? {
        guard isLost else { return nil }
        isLost = false
        return newest
    }

    /// Records the end of the login.
    mutating func ended() { self = OwnStatus() }
}

extension OwnStatus {
    private init(userID: String) { self.userID = userID }
}
