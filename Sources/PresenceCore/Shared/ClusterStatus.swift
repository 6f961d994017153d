import PresenceWire

/// The members as one node sees them, for operators.
public struct ClusterStatus: Equatable, Sendable {
    /// The state of a member in this node's view.
    public enum MemberState: String, CaseIterable, Sendable {
        case alive
        /// The member did not answer a probe. It is declared dead unless it refutes in time.
        case suspect
        /// The member is alive, without slots, and about to end.
        case draining
        /// The member is gone without notice. It still counts towards the quorum.
        case dead
        /// The member has left on purpose.
        case left
    }

    /// One member, or one that is missing.
    public struct Member: Equatable, Sendable {
        public let peer: Peer
        public let state: MemberState
        /// The slots that it owns, of the ring's 65,536.
        public let slotsOwned: Int
    }

    /// The node that reports the status.
    public let node: NodeID
    /// The members sorted by ID, the node itself included.
    public let members: [Member]
}
