import PresenceWire

/// The state that checkers and tests read. No code here decides anything.
extension Cluster {
    /// The node that owns a user by this node's ring.
    package func ownerID(of user: UserID) -> NodeID { peers[owner(of: user)].peer.id }

    /// The nodes that own these users by this node's ring.
    package func ownerIDs(of users: [UserID]) -> [NodeID] { users.map { ownerID(of: $0) } }

    /// The nodes that keep a user by this node's ring: the owner, then the replicas.
    package func replicaIDs(of user: UserID) -> [NodeID] { placement.replicaSet(of: user).map { peers[$0].peer.id } }

    /// The nodes that this node considers alive, itself included.
    package var memberIDs: [NodeID] { peers.filter(\.isAlive).map(\.peer.id) }

    /// Whether this node considers no other node alive.
    package var isAlone: Bool { !peers.hasAlive }

    /// The number of messages and records that wait for a peer.
    package func queueDepth(for peer: PeerIndex) -> Int { links[peer].depth }

    /// The ring by which this node decides.
    package var ringID: UInt64 { placement.id }

    /// Stops the process at a state of a machine that cannot occur.
    package func checkInvariants() {
        peers.checkInvariants()
        ownership.checkInvariants()
    }
}
