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
