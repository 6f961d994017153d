import PresenceWire

/// What a node's core counts; for the metrics.
public struct NodeStatistics: Equatable, Sendable {
    /// What this node takes another one for.
    public enum MemberState: String, CaseIterable, Sendable {
        case alive
        /// Did not answer somebody; dead unless it refutes in time.
        case suspect
        /// Alive, without slots, and about to end.
        case draining
        /// Gone without a word; missed.
        case dead
        /// Ended on purpose.
        case left
    }

    /// One other node.
    public struct PeerStatistics: Equatable, Sendable {
        public let id: NodeID
        public let state: MemberState
        public let deltasSent: UInt64
        /// Records that it has sent, believed or not.
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
    /// Users whose facts are kept for another owner.
    public let usersReplicated: Int
    /// Changes whose answers wait for disks.
    public let writesWaiting: Int
    public let digestDifferences: UInt64
    public let rowsRefused: UInt64
    public let isDraining: Bool
    public let evictions: UInt64
    /// Ended subscriptions that are remembered no longer, of users owned here or kept for others.
    public let tombstonesForgotten: UInt64
    /// Users whose blank records are kept no longer, owned here or kept for others.
    public let usersRemoved: UInt64
    public let clocksRefused: UInt64
    public let usersWatched: Int
    public let slotsOwned: Int
    /// Slots that this node owns and does not decide about yet: it waits for what others hold of them.
    public let slotsAcquiring: Int
    /// How long slots have been cold; while none is, how long the last ones were.
    public let handoffDuration: Duration
    /// Bytes of rows that other nodes have sent because they were asked for slots.
    public let handoffBytes: UInt64
    /// How long the oldest change waits that waits for a replica.
    public let replicaLag: Duration
    public let callsWaiting: Int
    public let misrouted: UInt64
    /// Digests of what other nodes watch and host, sent to them.
    public let viewDigestsSent: UInt64
    /// Ranges of such digests of another node that were not like what is here.
    public let viewDigestDifferences: UInt64
    /// Records sent with a share of other nodes to pass them on to.
    public let relaysSent: UInt64
    /// Records passed on for another node.
    public let relaysForwarded: UInt64
    /// Nodes that a record could not be passed on to.
    public let relaysDropped: UInt64
    /// Messages about users about whom this node will decide soon.
    public let messagesPostponed: Int
    /// Records asked of their owner because nobody had passed them on.
    public let relaysFetched: UInt64
    /// Calls refused because they came too often (7008).
    public let callsRateLimited: UInt64
    /// Users who were kicked, as long as it is remembered.
    public let kicks: Int
    /// Apps with a policy of their own.
    public let policies: Int
    public let peers: [PeerStatistics]
}
