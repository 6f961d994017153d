import PresenceWire

/// Which nodes keep each user, by the ring of this node's members: the ring's answers as peers of this node.
struct Placement {
    private let ring: Ring
    /// The peer of each member of the ring.
    private let peers: [PeerIndex]

    init(_ members: [(member: Ring.Member, peer: PeerIndex)]) {
        ring = Ring(members: members.map(\.member))
        var indices: [NodeID: PeerIndex] = [:]
        for (member, peer) in members { indices[member.id] = peer }
        peers = ring.members.map { indices[$0.id] ?? 0 }
    }

    /// The peer that owns a user; this node when there is no other.
    func owner(of user: UserID) -> PeerIndex { ring.owner(of: user.slot).map { peers[$0] } ?? 0 }

    /// The peers that keep a user: the owner, then the next ones.
    func keepers(of user: UserID) -> [PeerIndex] {
        let slot = user.slot
        return (0..<ring.replicasCount).compactMap { ring.replica($0, of: slot) }.map { peers[$0] }
    }

    /// The keepers that are not this node.
    func replicas(of user: UserID) -> [PeerIndex] { keepers(of: user).filter { $0 != 0 } }

    /// Whether both this node and `peer` keep a user.
    func isShared(_ user: UserID, with peer: PeerIndex) -> Bool {
        let keepers = keepers(of: user)
        return keepers.contains(0) && keepers.contains(peer)
    }

    /// Slots that this node owns.
    var slotsOwned: Int { slotsCounts[0] ?? 0 }

    /// Slots that each peer owns.
    var slotsCounts: [PeerIndex: Int] {
        Dictionary(uniqueKeysWithValues: zip(peers, ring.slotsCounts))
    }
}
