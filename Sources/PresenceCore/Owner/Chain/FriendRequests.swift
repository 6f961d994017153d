import PresenceWire

/// The friend requests in the lists of one user (P20–P28).
struct FriendRequests {
    let received: RowList
    let sent: RowList
    /// The time up to which the user has read the received requests (P28); 0 for none.
    let readTime: Milliseconds
    /// The number of received requests that were made after ``readTime``.
    let unreadCount: Int64

    /// - Parameter owned: the lists of the user; nil for a user who is not known here.
    init(of user: UserID, _ owned: OwnedUser?) {
        (received, sent) = (owned?.list(.pendencyIn) ?? RowList(), owned?.list(.pendencyOut) ?? RowList())
        (readTime, unreadCount) = (owned?.lists.readTime(of: user) ?? 0, Int64(owned?.lists.unreadCount ?? 0))
    }

    /// The state of both lists as an opaque text. Clients compare it for equality.
    ///
    /// It has the sequences of both, because a change of one list may be older than the newest change of the other.
    var sequence: String { received.sequence + sent.sequence }
}

extension Owner {
    /// The friend requests in the lists of a user.
    func friendRequests(of user: UserID) -> FriendRequests { FriendRequests(of: user, index(ofKnown: user).map { users[$0] }) }
}
