import PresenceWire

/// The counts of a node's core, for the metrics.
public struct NodeStatistics: Equatable, Sendable {
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

    /// One other node.
    public struct PeerStatistics: Equatable, Sendable {
        public let id: NodeID
        public let state: MemberState
        public let deltasSent: UInt64
        /// The records that the node has sent, accepted or not.
        public let deltasReceived: UInt64
        public let deltasCoalesced: UInt64
        public let batchesSent: UInt64
        public let bytesSent: UInt64
        public let overflows: UInt64
        public let queueDepth: Int
    }

    public let logins: UInt64
    public let logouts: UInt64
    public let sessionsDisconnected: UInt64
    public let sessionsKicked: UInt64
    /// Sessions ended to make room for newer ones of the same user.
    public let sessionsEvicted: UInt64
    public let usersOnline: Int
    public let usersOwned: Int
    /// Users that this node keeps for another owner.
    public let usersReplicated: Int
    /// Changes whose answers wait for disks.
    public let writesWaiting: Int
    public let digestDifferences: UInt64
    public let rowsRefused: UInt64
    public let isDraining: Bool
    public let evictions: UInt64
    /// Expired tombstones of subscriptions, of users owned here or kept for others.
    public let tombstonesForgotten: UInt64
    /// Users whose blank records have expired, owned here or kept for others.
    public let usersRemoved: UInt64
    public let clocksRefused: UInt64
    public let usersWatched: Int
    public let slotsOwned: Int
    /// Slots that this node owns and that are acquiring.
    public let slotsAcquiring: Int
    /// How long slots have been acquiring. If none is, how long the last ones were.
    public let handoffDuration: Duration
    /// Bytes of the rows that other nodes have sent for requested slots.
    public let handoffBytes: UInt64
    /// The age of the oldest change that waits for a replica.
    public let replicaLag: Duration
    public let callsWaiting: Int
    public let misrouted: UInt64
    /// View digests sent to other nodes.
    public let viewDigestsSent: UInt64
    /// Ranges of other nodes' view digests that differed from those here.
    public let viewDigestDifferences: UInt64
    /// Records sent together with targets to which the receiver forwards them.
    public let relaysSent: UInt64
    /// Records forwarded for another node.
    public let relaysForwarded: UInt64
    /// Targets to which a record could not be forwarded.
    public let relaysDropped: UInt64
    /// Messages about users for whom this node is not active yet.
    public let messagesPostponed: Int
    /// Records requested from their owner because no relay had forwarded them.
    public let relaysFetched: UInt64
    /// Calls refused by a rate limit (7008).
    public let callsRateLimited: UInt64
    /// Users with a kick that still counts.
    public let kicks: Int
    /// Apps with a policy of their own.
    public let policies: Int
    public let peers: [PeerStatistics]
}
