import PresenceWire

/// The table of members: the rows about them, and their removal.
extension Cluster {
    /// Most peers in the table, this node included. Beyond it the node that left first is removed early.
    ///
    /// It is twice as many as the membership has. Only an operator removes a dead member.
    var peersMax: Int { settings.membership.membersMax * 2 }

    /// Writes a member to disk. After a restart this node knows which members are missing, and their addresses.
    mutating func store(_ peer: PeerIndex, version: Version) {
        peers[peer].rowVersion = version
        outbox.rows.append(Row(member: peers[peer].peer, hasLeft: peers[peer].hasLeft, version: version))
    }

    /// The nodes that have left or were never members, and about which no updates arrive.
    private func removablePeers(storedUpTo horizon: Milliseconds = .max) -> [PeerIndex] {
        peers.others.filter { peer in
            let member = peers[peer]
            guard !member.isVacant, member.hasLeft, !links.isUp(peer), !ownership.isMember(peer) else { return false }
            return member.rowVersion.milliseconds <= horizon && membership.update(about: member.peer.id) == nil
        }
    }

    /// The nodes that left so long ago that no other node mentions them any more.
    func expiredPeers(at now: Now) -> [PeerIndex] { removablePeers(storedUpTo: now.wall - CoreSettings.tombstoneHorizon) }

    /// The node to remove before a new one is added, because the table is full.
    func peerToReplace() -> PeerIndex? {
        guard peers.knownCount >= peersMax else { return nil }
        return removablePeers().min { peers[$0].rowVersion < peers[$1].rowVersion }
    }

    /// Removes a node from the table and from the disk.
    mutating func remove(_ peer: PeerIndex) {
        let member = peers[peer]
        if member.wasMember { outbox.deletedRows.append(Row(member: member.peer, hasLeft: true, version: member.rowVersion)) }
        peers.remove(peer)
        links.add(peer)
        reach.add(peer)
        ownership.lose(peer)
    }

    /// The index of a node, which is added if it is new. Make room with ``peerToReplace()`` first.
    mutating func insert(_ peer: Peer, rowVersion: @autoclosure () -> Version) -> (index: PeerIndex, isNew: Bool) {
        let found = peers.insert(peer, rowVersion: rowVersion())
        if found.isNew {
            links.add(found.index)
            reach.add(found.index)
        }
        return found
    }

    /// The outcome of an operator's request to remove a member.
    public enum MemberRemoval: Sendable {
        /// The member is removed. The other nodes and the disks learn of it.
        case removed
        /// The node is a live member, or this node itself.
        case alive
        /// No node of that name was ever a member.
        case unknown
    }

    /// Removes a dead member on behalf of an operator.
    mutating func removeMember(_ id: NodeID, at now: Now) -> MemberRemoval {
        guard let peer = peers.index(of: id), peer == 0 || peers[peer].wasMember else { return .unknown }
        guard peer != 0, !peers[peer].isAlive else { return .alive }
        membership.removeMember(peers[peer].peer, at: now)
        return .removed
    }

    /// The wall time until which a member that was declared dead may show what it knew, if it is cut off; nil if there is none.
    ///
    /// It then declares the owners of its views dead, and takes over their users. It believes their ONLINE for the grace.
    func mayBeSeenUntil(at now: Now) -> Milliseconds? {
        guard let until = membership.cutOffMembersGoOnUntil() else { return nil }
        let left = until + settings.takeoverTimeout + settings.reconnectGrace - now.instant
        return left > .zero ? now.wall + left.wholeMilliseconds : nil
    }

    // MARK: Changes

    /// A step that follows from a change of a member's state.
    enum MemberStep {
        /// The member may have decided without this node. Clients of this node may have received a position that lacks its changes.
        case observeAll
        /// The member has died or was restarted, so that its sessions and messages are void.
        case lose
        /// The member is alive. A new one, which was not alive before, is asked for everything.
        case greet(isNew: Bool)
        /// The member is back. Its requests for offers were ignored while it was dead.
        case offerAgain
        /// The change is written to disk. Suspicions are not, but a restarted node must know the dead members.
        case store
        /// The member is alive and was not before, or the other way round.
        case announce
    }

    /// Stores a member's new state. Returns what follows from it, in order.
    mutating func follow(_ card: Peer, _ state: MemberState, _ role: MemberRole, at peer: PeerIndex) -> [MemberStep] {
        let old = peers[peer]
        let wasRestarted = old.isAlive && card.generation > old.peer.generation
        let isMet = state.isLive && !old.isAlive && old.wasMember
        // While this node was alone, nodes that had left may have gone on together. No position is complete before their rows arrive, even
        // if the ring stays the same because they drain.
        if isMet, !peers.hasAlive { ownership.metWhileAlone() }
        // The same process went on, or a dead member is back. It may have decided on another side of a split. Its links may have held, and
        // a node that refutes a suspicion never learns that it was declared dead.
        let mayHaveDecided = isMet && (card.generation == old.peer.generation || old.state == .dead)
        if mayHaveDecided, peers.isMinority { ownership.demote(.smallerSide) }
        if mayHaveDecided || (old.isAlive && (wasRestarted || !state.isLive) && ownership.isMember(peer)) {
            ownership.demote(.abruptChange)
        }
        peers[peer].peer = card
        peers[peer].state = state
        peers[peer].role = role
        var steps: [MemberStep] = []
        if state.isLive, old.wasMember, !old.isAlive || wasRestarted { steps.append(.observeAll) }
        if old.isAlive, wasRestarted || !state.isLive { steps.append(.lose) }
        if state.isLive { steps.append(.greet(isNew: !old.isAlive)) }
        if isMet { steps.append(.offerAgain) }
        if state != .suspect, wasRestarted || old.isAlive != state.isLive || state == .left { steps.append(.store) }
        if old.isAlive != state.isLive { steps.append(.announce) }
        return steps
    }

    /// Connects to a live member, and asks a new one for everything.
    ///
    /// The member may never have noticed that it was declared dead. It does not know then that its registrations here are void, may read
    /// late messages of an old link, and lacks the kicks and policies of that time.
    mutating func greet(_ peer: PeerIndex, isNew: Bool) {
        peers[peer].wasMember = true
        if !links.isUp(peer) { outbox.effects.append(.connect(peers[peer].peer)) }
        guard isNew else { return }
        send(.requestSync, to: peer)
        send(.requestOffer, to: peer)
    }

    /// Loads a member that this node wrote to disk before its restart.
    mutating func restore(_ peer: PeerIndex, hasLeft: Bool, version: Version, at now: Now) {
        peers[peer].rowVersion = version
        peers[peer].wasMember = true
        peers[peer].state = hasLeft ? .left : .dead
        if !hasLeft { membership.learn(peers[peer].peer, at: now) }
    }
}
