import PresenceWire

/// The reports of nodes to the owner of a user: sessions and views, and the ends of sessions that a former owner has begun.
///
/// A report about a user that this node will own soon waits here. So a change of the ring costs each registration one message, instead of
/// one for each attempt. A report about a user of another node is rejected.
struct Reports {
    /// Most waiting messages. One more rejects all of them, and they arrive again when this node is active.
    static let postponedMax = 20_000

    /// A message that waits for a ring or for active slots.
    enum Report: Equatable {
        case attach(Attach)
        case detach(Detach)
        case watch([Watch])
        case unwatch([UserID])
        case pendingEnds([PendingEnds])
    }

    private(set) var postponed: [(peer: PeerIndex, report: Report)] = []

    /// Drops a peer's reports about the users for whom `isVoid` holds: the peer is dead, or reports everything again.
    mutating func drop(from peer: PeerIndex, where isVoid: (UserID) -> Bool = { _ in true }) {
        guard !postponed.isEmpty else { return }
        postponed = postponed.compactMap { waiting in
            guard waiting.peer == peer else { return waiting }
            switch waiting.report {
            case .attach(let attach): return isVoid(attach.user) ? nil : waiting
            case .detach(let detach): return isVoid(detach.user) ? nil : waiting
            case .watch(let watches):
                let kept = watches.filter { !isVoid($0.user) }
                return kept.isEmpty ? nil : (peer, .watch(kept))
            case .unwatch(let users):
                let kept = users.filter { !isVoid($0) }
                return kept.isEmpty ? nil : (peer, .unwatch(kept))
            case .pendingEnds: return waiting
            }
        }
    }

    private mutating func postpone(_ report: Report, from peer: PeerIndex, _ cluster: inout Cluster) {
        if postponed.count >= Self.postponedMax { reject(postponed.takeAll(), &cluster) }
        postponed.append((peer, report))
    }

    /// Rejects the waiting reports of a peer that uses another ring than before. By that ring another node may decide about a user, and is
    /// told when a session ends.
    mutating func rejectAll(from peer: PeerIndex, _ cluster: inout Cluster) {
        guard postponed.contains(where: { $0.peer == peer }) else { return }
        let waiting = postponed.takeAll()
        // A former owner sends the pending ends when it changes the ring, and does not send them again.
        let isKept = { (waiting: (peer: PeerIndex, report: Report)) in
            if case .pendingEnds = waiting.report { true } else { waiting.peer != peer }
        }
        postponed = waiting.filter(isKept)
        reject(waiting.filter { !isKept($0) }, &cluster)
    }

    /// The senders report what still holds to those who decide by then.
    private func reject(_ reports: [(peer: PeerIndex, report: Report)], _ cluster: inout Cluster) {
        for (peer, report) in reports {
            switch report {
            case .attach(let attach): cluster.send(.misrouted([attach.user]), to: peer)
            case .watch(let watches): cluster.send(.misrouted(watches.map(\.user)), to: peer)
            case .detach, .unwatch, .pendingEnds: break
            }
        }
    }

    /// Handles the waiting messages, because the ring or the active slots have changed. Some of them wait again or are rejected.
    mutating func resumePostponed(_ kicks: Kicks, owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        let waiting = postponed.takeAll()
        // A node may have registered a session before, which the former owner had ended.
        for (peer, report) in waiting {
            if case .pendingEnds(let ends) = report { onPendingEnds(ends, from: peer, owner: &owner, &cluster, at: now) }
        }
        for (peer, report) in waiting {
            switch report {
            case .attach(let attach): onAttach(attach, from: peer, kicks, owner: &owner, &cluster, at: now)
            case .detach(let detach): onDetach(detach, from: peer, owner: &owner, &cluster, at: now)
            case .watch(let watches): onWatch(watches, from: peer, owner: &owner, &cluster, at: now)
            case .unwatch(let users): onUnwatch(users, from: peer, owner: &owner, &cluster)
            case .pendingEnds: break
            }
        }
    }

    // MARK: Messages

    /// Whether a report comes from a process that is not a member.
    ///
    /// It was sent before the process was declared dead. A live process reports everything again when it is a member again. No message
    /// would ever revoke the report of a dead process.
    private func isVoid(from peer: PeerIndex, _ cluster: borrowing Cluster) -> Bool { peer != 0 && !cluster.peers[peer].isAlive }

    mutating func onAttach(
        _ attach: Attach, from peer: PeerIndex, _ kicks: Kicks, owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        if isVoid(from: peer, cluster) { return }
        if cluster.ownership.decidesSoon(attach.user) { return postpone(.attach(attach), from: peer, &cluster) }
        guard cluster.decides(attach.user) else { return cluster.sendBack([attach.user], to: peer) }
        owner.attach(attach, from: peer, endedBy: kicks.end(of: attach), in: &cluster.outbox[at: now])
    }

    mutating func onDetach(_ detach: Detach, from peer: PeerIndex, owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        if cluster.ownership.decidesSoon(detach.user) { return postpone(.detach(detach), from: peer, &cluster) }
        let isMoving = peer == 0 ? cluster.isDraining : cluster.peers[peer].isDraining
        owner.detach(detach, from: peer, isMoving: isMoving, in: &cluster.outbox[at: now])
    }

    mutating func onWatch(_ watches: [Watch], from peer: PeerIndex, owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        if isVoid(from: peer, cluster) { return }
        var own: [Watch] = []
        var later: [Watch] = []
        var others: [UserID] = []
        for watch in watches {
            if cluster.decides(watch.user) {
                own.append(watch)
            } else if cluster.ownership.decidesSoon(watch.user) {
                later.append(watch)
            } else {
                others.append(watch.user)
            }
        }
        cluster.sendBack(others, to: peer)
        if !later.isEmpty { postpone(.watch(later), from: peer, &cluster) }
        if !own.isEmpty { owner.watch(own, from: peer, in: &cluster.outbox[at: now]) }
    }

    mutating func onUnwatch(_ users: [UserID], from peer: PeerIndex, owner: inout Owner, _ cluster: inout Cluster) {
        let later = users.filter { cluster.ownership.decidesSoon($0) }
        if !later.isEmpty { postpone(.unwatch(later), from: peer, &cluster) }
        owner.unwatch(users, from: peer)
    }

    /// Takes over the pending ends of users whom a peer has owned. The peer may have left meanwhile.
    mutating func onPendingEnds(
        _ ends: [PendingEnds], from peer: PeerIndex, owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        for user in ends where cluster.decides(user.user) { HandedEnds(now: now).goOn(with: user, in: &owner) }
        let later = ends.filter { cluster.ownership.decidesSoon($0.user) }
        if !later.isEmpty { postpone(.pendingEnds(later), from: peer, &cluster) }
    }

    /// Starts a registration of some ranges of slots by a peer.
    mutating func onBeginSync(_ registration: Owner.Registration, from peer: PeerIndex, owner: inout Owner) {
        drop(from: peer) { registration.ranges.contains($0.slot) }
        owner.beginSync(from: peer, registration)
    }
}
