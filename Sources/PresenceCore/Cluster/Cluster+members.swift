import PresenceWire

/// The table of members: the rows about them, and their removal.
extension Cluster {
    /// Most peers in the table, this node included. Beyond it the node that left first is removed early.
    ///
    /// It is twice as many as the membership has. Only an operator removes a dead member.
    var peersMax: Int { settings.membership.membersMax * 2 }

    /// Writes a member to disk. After a restart this node knows which members are missing, and their addresses.
    mutating func note(_ peer: PeerIndex, version: Version) {
        peers[peer].noted = version
        outbox.rows.append(Row(member: peers[peer].peer, hasLeft: peers[peer].hasLeft, version: version))
    }

    /// The nodes that have left or were never members, and about which no updates arrive.
    private func removablePeers(notedUpTo horizon: Milliseconds = .max) -> [PeerIndex] {
        peers.others.filter { peer in
            let member = peers[peer]
            guard !member.isVacant, member.hasLeft, !links.isUp(peer), !ownership.isMember(peer) else { return false }
            return member.noted.milliseconds <= horizon && membership.update(about: member.peer.id) == nil
        }
    }

    /// The nodes that left so long ago that no other node mentions them any more.
    func expiredPeers(at now: Now) -> [PeerIndex] { removablePeers(notedUpTo: now.wall - CoreSettings.tombstoneHorizon) }

    /// The node to remove before a new one is added, because the table is full.
    func peerToReplace() -> PeerIndex? {
        guard peers.knownCount >= peersMax else { return nil }
        return removablePeers().min { peers[$0].noted < peers[$1].noted }
    }

    /// Removes a node from the table and from the disk.
    mutating func remove(_ peer: PeerIndex) {
        let member = peers[peer]
        if member.wasMember { outbox.forgotten.append(Row(member: member.peer, hasLeft: true, version: member.noted)) }
        peers.remove(peer)
        links.add(peer)
        ownership.lose(peer)
    }

    /// The index of a node, which is added if it is new. Make room with ``peerToReplace()`` first.
    mutating func insert(_ peer: Peer, noted: @autoclosure () -> Version) -> (index: PeerIndex, isNew: Bool) {
        let found = peers.insert(peer, noted: noted())
        if found.isNew { links.add(found.index) }
        return found
    }

    // MARK: Changes

    /// A change of a member's state. The machines handle it in order.
    struct MemberChange {
        let peer: PeerIndex
        /// Whether the member may have decided without this node. Clients of this node may then have received a position that lacks its
        /// changes.
        let mustRelearn: Bool
        /// Whether the member has died or was restarted, so that its sessions and messages are void.
        let isLost: Bool
        /// Whether the member is alive and was not before.
        let isNew: Bool
        /// Whether the change is written to disk. Suspicions are not, but a restarted node must know the dead members.
        let isNoted: Bool
    }

    /// Stores a member's new state.
    mutating func follow(_ card: Peer, _ state: MemberState, isDraining: Bool, at peer: PeerIndex) -> MemberChange {
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
        peers[peer].isDraining = isDraining
        return MemberChange(
            peer: peer, mustRelearn: state.isLive && old.wasMember && (!old.isAlive || wasRestarted),
            isLost: old.isAlive && (wasRestarted || !state.isLive), isNew: state.isLive && !old.isAlive,
            isNoted: state != .suspect && (wasRestarted || old.isAlive != state.isLive || state == .left))
    }

    /// Connects to a live member, and asks a new one for everything.
    ///
    /// The member may never have noticed that it was declared dead. It does not know then that its registrations here are void, may read
    /// late messages of an old link, and lacks the kicks and policies of that time.
    mutating func greet(_ change: MemberChange) {
        guard peers[change.peer].isAlive else { return }
        peers[change.peer].wasMember = true
        if !links.isUp(change.peer) { outbox.effects.append(.connect(peers[change.peer].peer)) }
        if change.isNew {
            send(.requestSync, to: change.peer)
            send(.requestOffer, to: change.peer)
        }
    }

    /// Loads a member that this node wrote to disk before its restart.
    mutating func restore(_ peer: PeerIndex, hasLeft: Bool, version: Version, at now: Now) {
        peers[peer].noted = version
        peers[peer].wasMember = true
        peers[peer].state = hasLeft ? .left : .dead
        if !hasLeft { membership.learn(peers[peer].peer, at: now) }
    }
}
