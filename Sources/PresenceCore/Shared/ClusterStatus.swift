import PresenceWire

/// The members as one node sees them, for operators.
public struct ClusterStatus: Equatable, Sendable {
    /// One member, or one that is missing.
    public struct Member: Equatable, Sendable {
        public let peer: Peer
        public let state: NodeStatistics.MemberState
        /// The slots that it owns, of the ring's 65,536.
        public let slotsOwned: Int
    }

    /// The node that reports the status.
    public let node: NodeID
    /// The members sorted by ID, the node itself included.
    public let members: [Member]
}
