import PresenceWire

/// What a node remembers of the past has an end: else nodes under ever new names, which every roll-out brings where names are not kept,
/// would fill its tables, its metrics and its disk.
extension Node {
    /// Peers in the table, this node included and vacant places not counted: beyond it who left longest ago is forgotten before the time.
    /// Twice as many as the membership knows. Who is missed is not forgotten, but by an operator's word.
    var peersMax: Int { settings.membership.membersMax * 2 }

    /// Once an hour.
    mutating func forgetOld(at now: Now) {
        guard now.instant >= nextForgetting else { return }
        nextForgetting = now.instant + .seconds(3_600)
        forgetKicks(at: now)
        let horizon = now.wall - Subscriptions.tombstoneHorizon
        forgetPeers(peers.indices.filter { isForgettable($0) && peers[$0].noted.milliseconds <= horizon }, at: now)
    }

    /// Makes room for one more peer.
    mutating func makeRoomForPeer(at now: Now) {
        guard peerIndices.count >= peersMax else { return }
        let gone = peers.indices.filter { isForgettable($0) }
        if let longest = gone.min(by: { peers[$0].noted < peers[$1].noted }) { forgetPeers([longest], at: now) }
    }

    /// It left, or was never a member, and nothing is heard of it.
    private func isForgettable(_ peer: PeerIndex) -> Bool {
        let state = peers[peer]
        guard peer != 0, !state.isVacant, state.hasLeft, !state.isLinked else { return false }
        guard !ownership.isMember(peer) else { return false }
        return membership.rumour(about: state.peer.id) == nil
    }

    private mutating func forgetPeers(_ gone: [PeerIndex], at now: Now) {
        guard !gone.isEmpty else { return }
        for peer in gone {
            let card = peers[peer].peer
            if peers[peer].wasMember { outbox.forgotten.append(Row(member: card, hasLeft: true, version: peers[peer].noted)) }
            peerIndices[card.id] = nil
            if peerNumbers[card.versionNode] == peer { peerNumbers[card.versionNode] = nil }
            peers[peer] = PeerState(peer: card, link: Link(messagesMax: settings.linkMessagesMax))
            peers[peer].isVacant = true
            vacantPeers.append(peer)
            waiting.drop(from: peer)
            ownership.lose(peer)
            owners.rounds[peer] = nil
        }
        owners.peersLost(Set(gone), at: now, into: &outbox)
    }
}
