import PresenceWire

/// The table of members: what a node writes down about them, and when it forgets them.
extension Cluster {
    /// Peers in the table, this node included: beyond it the node that left first is removed before its time.
    ///
    /// Twice as many as the membership knows. A dead member is removed only by an operator.
    var peersMax: Int { settings.membership.membersMax * 2 }

    /// Writes a member down: after a restart this node knows which members are missing, and where they may be.
    mutating func note(_ peer: PeerIndex, version: Version) {
        peers[peer].noted = version
        outbox.rows.append(Row(member: peers[peer].peer, hasLeft: peers[peer].hasLeft, version: version))
    }

    /// The nodes that left, or were never members, and about which no news comes in.
    private func removablePeers(notedUpTo horizon: Milliseconds = .max) -> [PeerIndex] {
        peers.others.filter { peer in
            let member = peers[peer]
            guard !member.isVacant, member.hasLeft, !links.isUp(peer), !ownership.isMember(peer) else { return false }
            return member.noted.milliseconds <= horizon && membership.update(about: member.peer.id) == nil
        }
    }

    /// The nodes whose departure is so long ago that no node brings them up again.
    func expiredPeers(at now: Now) -> [PeerIndex] { removablePeers(notedUpTo: now.wall - CoreSettings.tombstoneHorizon) }

    /// The node to remove before a new one is added: the table is full.
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

    /// A change of a member's state, in the order in which the machines take their part in it.
    struct MemberChange {
        let peer: PeerIndex
        /// The member may have decided without this node: clients of this node may have been sent a position that lacks its changes.
        let mustRelearn: Bool
        /// The member has died or was restarted: what it hosted and sent is void.
        let isLost: Bool
        /// The member is alive, and was not.
        let isNew: Bool
        /// The change is written down. Suspicions come and go; which members are dead must be known after a restart.
        let isNoted: Bool
    }

    /// Takes over a member's state.
    mutating func follow(_ card: Peer, _ state: MemberState, isDraining: Bool, at peer: PeerIndex) -> MemberChange {
        let old = peers[peer]
        let wasRestarted = old.isAlive && card.generation > old.peer.generation
        let isMet = state.isLive && !old.isAlive && old.wasMember
        // While this node was alone, nodes that had left may have gone on together. Nothing is complete before they are heard, also where the
        // ring stays the same because they drain.
        if isMet, !peers.hasAlive { ownership.metWhileAlone() }
        // The same process went on, or a dead member is back: it may have decided on another side of a split. Links may have held, and a node
        // that refutes a suspicion never hears that it was declared dead.
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
    /// The member may never have noticed that it was declared dead. Then it does not know that what it registered here is void. It may read
    /// late messages of a link that held. It has not got the kicks and policies of that time.
    mutating func greet(_ change: MemberChange) {
        guard peers[change.peer].isAlive else { return }
        peers[change.peer].wasMember = true
        if !links.isUp(change.peer) { outbox.effects.append(.connect(peers[change.peer].peer)) }
        if change.isNew {
            send(.requestSync, to: change.peer)
            send(.requestOffer, to: change.peer)
        }
    }

    /// Takes a member back that this node wrote down before it was restarted.
    mutating func restore(_ peer: PeerIndex, hasLeft: Bool, version: Version, at now: Now) {
        peers[peer].noted = version
        peers[peer].wasMember = true
        peers[peer].state = hasLeft ? .left : .dead
        if !hasLeft { membership.learn(peers[peer].peer, at: now) }
    }
}
