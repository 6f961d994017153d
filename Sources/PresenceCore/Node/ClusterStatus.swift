import PresenceWire

/// The members as one node sees them; for operators.
public struct ClusterStatus: Equatable, Sendable {
    /// One member, or one that is missed.
    public struct Member: Equatable, Sendable {
        public let peer: Peer
        public let state: NodeStatistics.MemberState
        /// Of the ring's 65,536.
        public let slotsOwned: Int
    }

    /// Who says so.
    public let node: NodeID
    /// Sorted by ID, the node itself included.
    public let members: [Member]
}

extension Node {
    /// The members as this node sees them.
    public var clusterStatus: ClusterStatus {
        let slots = placement.slotsCounts
        let members = peers.indices.filter { $0 == 0 || peers[$0].wasMember }.map { index in
            let state = index == 0 ? (isDraining ? .draining : .alive) : peers[index].memberState
            return ClusterStatus.Member(peer: peers[index].peer, state: state, slotsOwned: slots[index] ?? 0)
        }
        return ClusterStatus(node: selfPeer.id, members: members.sorted { $0.peer.id < $1.peer.id })
    }
}
