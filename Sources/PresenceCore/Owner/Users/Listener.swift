import PresenceWire

/// A stream of a user that hears without being seen (`presence=none`), at the user's owner.
///
/// Its node receives all that the nodes of the user's sessions receive. It is no session: it changes no status, has no grace, is in no list
/// of sessions, and its beginning and its end are no events.
enum Listener {
    /// A listener is open. One of the same device ends, and beyond ``PresenceWire/Limits/listenersPerUserMax`` the first one.
    static func attach(_ attach: Attach, from peer: PeerIndex, to owner: inout Owner, in turn: inout Turn) {
        let user = owner.index(of: attach.user)
        let listener = OwnedSession(
            id: attach.session, peer: peer, openedAt: attach.openedAt, platform: attach.platform, deviceID: attach.deviceID,
            isPushReachable: false, registrationID: owner.registrations[peer]?.id ?? 0)
        let isFirst = owner.users[user].streams.isEmpty
        let ended = owner.modify(user) { user in
            user.listeners.removeAll { $0.id == listener.id }
            let ofDevice = user.listeners.filter { !$0.deviceID.isEmpty && $0.isOfDevice(of: listener) }
            user.listeners.removeAll { other in ofDevice.contains { $0.id == other.id } }
            user.listeners.append(listener)
            user.listeners.sort { ($0.openedAt, $0.id) < ($1.openedAt, $1.id) }
            let surplus = user.listeners.prefix(max(user.listeners.count - Limits.listenersPerUserMax, 0))
            user.listeners.removeFirst(surplus.count)
            return ofDevice + surplus
        }
        for other in ended { turn.outbox.send(.end(other.id, user: attach.user, reason: SessionEnd.replaced), to: other.peer) }
        if isFirst {
            let listHash = ViewDigest.newListHash(owner.nextVersion(at: turn.now))
            owner.modify(user) { $0.listHash = listHash }
        }
        turn.outbox.lists.append((peer, attach.user))
    }

    /// A stream that is the stream of no session is gone.
    static func detach(_ detach: Detach, from peer: PeerIndex, of owner: inout Owner) {
        guard let user = owner.users.index(of: detach.user), !owner.users[user].listeners.isEmpty else { return }
        owner.modify(user) { $0.listeners.removeAll { $0.id == detach.session && $0.peer == peer } }
        owner.removeBlank(detach.user)
    }

    /// Ends a listener that its user has logged out. Returns false if there is no such listener.
    static func end(_ id: SessionID, of user: Owner.Index, by owner: inout Owner, _ outbox: inout Outbox) -> Bool {
        guard let listener = owner.users[user].listeners.first(where: { $0.id == id }) else { return false }
        owner.modify(user) { $0.listeners.removeAll { $0.id == id } }
        outbox.send(.end(id, user: owner.users.user(at: user), reason: SessionEnd.logout), to: listener.peer)
        return true
    }
}
