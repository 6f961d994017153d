import PresenceWire

/// The nodes that keep each user, by the ring of this node's members: the ring's nodes as peers of this node.
///
/// It never changes. It is a class, so that a copy is one reference.
final class Placement: Sendable {
    let ring: Ring
    /// The peer of each member of the ring.
    private let peers: [PeerIndex]
    /// The slots that this node owns.
    let isOwn: SlotSet
    /// A hash of the members and their weights. Nodes with the same members have the same hash.
    let id: UInt64

    convenience init(_ members: [(member: Ring.Member, peer: PeerIndex)]) {
        var indices: [NodeID: PeerIndex] = [:]
        for (member, peer) in members { indices[member.id] = peer }
        self.init(ring: Ring(members: members.map(\.member))) { indices[$0] ?? 0 }
    }

    /// Makes the placement of an existing ring, as one of its members sees it.
    init(ring: Ring, peer: (NodeID) -> PeerIndex) {
        self.ring = ring
        peers = ring.members.map { peer($0.id) }
        id = Self.id(of: ring.members)
        isOwn = ring.isOwned(by: peers.firstIndex(of: 0))
    }

    /// See ``id``; the members in any order.
    static func id(of members: [Ring.Member]) -> UInt64 {
        members.reduce(into: 0) { id, member in id ^= Self.id(of: member.id, weight: member.weight) }
    }

    static func id(of member: Peer) -> UInt64 { id(of: member.id, weight: Int(member.weight)) }

    /// The share of one member in ``id``; even, see ``preparedID``.
    static func id(of member: NodeID, weight: Int) -> UInt64 {
        StableHash.mix(StableHash.hash64(member.rawValue.utf8), UInt64(weight)) & ~1
    }

    /// The peers that own slots.
    var members: [PeerIndex] { peers }

    /// The peer that owns a user; this node when there is no other.
    func owner(of user: UserID) -> PeerIndex { owner(of: user.slot) }

    func owner(of slot: Slot) -> PeerIndex { ring.owner(of: slot).map { peers[$0] } ?? 0 }

    /// `users` by owner, in the order of the peers.
    func grouped(_ users: [UserID]) -> [(peer: PeerIndex, users: [UserID])] {
        guard !users.isEmpty else { return [] }
        guard let last = peers.max(), last > 0 else { return [(0, users)] }
        var groups: [[UserID]] = Array(repeating: [], count: last + 1)
        for user in users { groups[owner(of: user)].append(user) }
        return groups.enumerated().filter { !$0.element.isEmpty }.map { ($0.offset, $0.element) }
    }

    /// The replicas of a user: the owner first.
    func replicaSet(of user: UserID) -> [PeerIndex] { replicaSet(of: user.slot) }

    func replicaSet(of slot: Slot) -> [PeerIndex] {
        (0..<ring.replicasCount).compactMap { ring.replica($0, of: slot) }.map { peers[$0] }
    }

    /// The replicas of a user other than this node.
    func replicas(of user: UserID) -> [PeerIndex] { replicaSet(of: user).filter { $0 != 0 } }

    /// Whether `peer` keeps a slot, as its owner or as another replica.
    func isKept(_ slot: Slot, by peer: PeerIndex) -> Bool {
        for rank in 0..<ring.replicasCount {
            if let member = ring.replica(rank, of: slot), peers[member] == peer { return true }
        }
        return false
    }

    /// Whether both this node and `peer` keep a slot.
    func isShared(_ slot: Slot, with peer: PeerIndex) -> Bool { isKept(slot, by: 0) && isKept(slot, by: peer) }

    /// The number of slots that this node owns.
    var slotsOwned: Int { ring.members.isEmpty ? 0 : isOwn.count }

    /// The number of slots that each peer owns.
    var slotsCounts: [PeerIndex: Int] {
        Dictionary(uniqueKeysWithValues: zip(peers, ring.slotsCounts))
    }
}
