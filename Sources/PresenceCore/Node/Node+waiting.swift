import PresenceWire

/// What was said of users about whom this node does not decide yet, but will: kept in its order up to then, so that a change of the ring
/// costs each registration one message and not one for each attempt. Bounded: see ``Node/postpone(_:from:)``.
struct Waiting {
    /// Messages kept. Beyond it all are sent back, and come again when this node says that it decides.
    static let messagesMax = 20_000

    private(set) var messages: [(peer: PeerIndex, message: Message)] = []

    mutating func append(_ message: Message, from peer: PeerIndex) { messages.append((peer, message)) }

    mutating func takeAll() -> [(peer: PeerIndex, message: Message)] { messages.takeAll() }

    /// A peer is gone, or says all anew of the users for whom `isVoid` holds.
    mutating func drop(from peer: PeerIndex, where isVoid: (UserID) -> Bool = { _ in true }) {
        guard !messages.isEmpty else { return }
        messages = messages.compactMap { waiting in
            guard waiting.peer == peer else { return waiting }
            switch waiting.message {
            case .attach(let attach): return isVoid(attach.user) ? nil : waiting
            case .detach(let detach): return isVoid(detach.user) ? nil : waiting
            case .watch(let watches):
                let kept = watches.filter { !isVoid($0.user) }
                return kept.isEmpty ? nil : (peer, .watch(kept))
            case .unwatch(let users):
                let kept = users.filter { !isVoid($0) }
                return kept.isEmpty ? nil : (peer, .unwatch(kept))
            default: return waiting
            }
        }
    }
}

extension Node {
    /// What a process said before it was taken for dead comes late. If it lives it is asked to say all anew (`Node.follow`); if not, nobody
    /// would ever end what it began (seed 402333).
    private func isVoid(from peer: PeerIndex) -> Bool { peer != 0 && !peers[peer].isAlive }

    mutating func onAttach(_ attach: Attach, from peer: PeerIndex, at now: Now) {
        if isVoid(from: peer) { return }
        if mustWait(attach.user) { return postpone(.attach(attach), from: peer) }
        if decides(attach.user, for: peer) { owners.attach(attach, from: peer, at: now, into: &outbox) }
    }

    mutating func onDetach(_ detach: Detach, from peer: PeerIndex, at now: Now) {
        if mustWait(detach.user) { return postpone(.detach(detach), from: peer) }
        let isMoving = peer == 0 ? isDraining : peers[peer].isDraining
        owners.detach(detach, from: peer, isMoving: isMoving, at: now, into: &outbox)
    }

    mutating func onWatch(_ watches: [Watch], from peer: PeerIndex, at now: Now) {
        if isVoid(from: peer) { return }
        var own: [Watch] = []
        var later: [Watch] = []
        var others: [UserID] = []
        for watch in watches {
            if decides(watch.user) {
                own.append(watch)
            } else if mustWait(watch.user) {
                later.append(watch)
            } else {
                others.append(watch.user)
            }
        }
        misroutedCount += UInt64(others.count)
        if !others.isEmpty { send(.misrouted(others), to: peer) }
        if !later.isEmpty { postpone(.watch(later), from: peer) }
        if !own.isEmpty { owners.watch(own, from: peer, at: now, into: &outbox) }
    }

    mutating func onUnwatch(_ users: [UserID], from peer: PeerIndex) {
        let later = users.filter { mustWait($0) }
        if !later.isEmpty { postpone(.unwatch(later), from: peer) }
        owners.unwatch(users, from: peer)
    }

    /// Whether this node does not decide about a user yet, and will soon: its slot is acquiring, or the ring that is prepared gives it to this node.
    func mustWait(_ user: UserID) -> Bool { ownership.decidesSoon(user) }

    /// Keeps a message about a user about whom this node does not decide yet. What was kept before and is too much is sent back.
    mutating func postpone(_ message: Message, from peer: PeerIndex) {
        if waiting.messages.count >= Waiting.messagesMax {
            for (peer, message) in waiting.takeAll() {
                switch message {
                case .attach(let attach): send(.misrouted([attach.user]), to: peer)
                case .watch(let watches): send(.misrouted(watches.map(\.user)), to: peer)
                default: break
                }
            }
        }
        waiting.append(message, from: peer)
    }

    /// The ring, or what this node decides about, is another one: what waited is done, or waits on, or is sent back.
    mutating func resumeWaiting(at now: Now) {
        for (peer, message) in waiting.takeAll() { handle(message, from: peer, at: now) }
    }
}
