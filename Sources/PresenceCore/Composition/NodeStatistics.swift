import PresenceWire

/// The counts of a node's core, for the metrics.
public struct NodeStatistics: Equatable, Sendable {
    /// One other node.
    public struct PeerStatistics: Equatable, Sendable {
        public let id: NodeID
        public let state: ClusterStatus.MemberState
        public let link: LinkCounters
        /// The records that the node has sent, accepted or not.
        public let deltasReceived: UInt64
        /// Visibilities sent with all their names. A connection carries an unchanged one once.
        public let rulesSent: UInt64
        public let queueDepth: Int
    }

    /// The condition of this machine, and whether the node holds slots.
    public struct Condition: Equatable, Sendable {
        /// Whether the node gives its slots away, because it will end or has a fault.
        public let isDraining: Bool
        /// Whether the node gives its slots away because its clock is wrong.
        public let isClockWrong: Bool
        /// How far the system clock is ahead, or this node's clock if most other nodes differ from it; 0 for a right clock.
        public let clockError: Milliseconds
        /// Slots about whose users this node may not know better (``UnsureUsers``).
        public let slotsUnsure: Int
    }

    /// The comparison with other replicas.
    public struct Repair: Equatable, Sendable {
        /// Digests of another node that differed from this node's.
        public let differences: UInt64
        /// Rows sent to other nodes because they differed.
        public let rowsSent: UInt64
        /// Batches of rows of other nodes that could not be read.
        public let rowsRefused: UInt64
        /// Rows that this node's disk had before the start and has lost.
        public let rowsLost: UInt64
    }

    /// The views of the users that sessions here follow.
    public struct Views: Equatable, Sendable {
        /// The users.
        public let count: Int
        /// Users whose newest record waits, because they change more often than `rate.changes`.
        public let waiting: Int
        /// Records that a newer one replaced while they waited.
        public let replaced: UInt64
    }

    /// The open decisions of the relationship chain, and the lists.
    public struct Chain: Equatable, Sendable {
        /// The durable lists of users owned here or kept for others: friends, requests, blocklists, groups, profiles and open decisions.
        public struct Lists: Equatable, Sendable {
            /// Allocated bytes.
            public let bytes: Int
            /// Rows, tombstones included.
            public let rows: Int
        }

        /// Decisions of users of this node that have not ended.
        public let openCount: Int
        /// The age of the oldest of them.
        public let oldest: Duration
        /// Decisions that ended without an answer of the other user's owner.
        public let expired: UInt64
        /// Calls refused because too many were open (50002).
        public let refused: UInt64
        public let lists: Lists
    }

    /// The calls that owners have refused by a limit, or keep until later.
    public struct Calls: Equatable, Sendable {
        /// Calls refused by a rate limit (7008).
        public let rateLimited: UInt64
        /// Calls of `setVisibility` that wait until a lost user would be OFFLINE.
        public let hidesWaiting: Int
        /// Such calls that have hidden their users at once, because too many waited.
        public let hidesBeyondMax: UInt64
    }

    /// The facts that every node keeps.
    public struct Shared: Equatable, Sendable {
        /// Users with a kick that still counts.
        public let kicks: Int
        /// Apps with a policy of their own.
        public let policies: Int
    }

    /// The deliveries of webhook events.
    public struct Webhooks: Equatable, Sendable {
        public let accepted: UInt64
        public let failed: UInt64
        /// Events of the accepted deliveries.
        public let events: UInt64
        /// Users with events that the receiver has not accepted.
        public let usersWaiting: Int
        /// Bytes of these events.
        public let bytesWaiting: Int
        /// Apps whose receivers have failed often.
        public let circuitsOpen: Int
    }

    public let logins: UInt64
    public let owner: OwnerCounters
    public let usersOnline: Int
    public let usersOwned: Int
    /// Users that this node keeps for another owner.
    public let usersReplicated: Int
    /// Changes whose answers wait for disks.
    public let writesWaiting: Int
    public let repair: Repair
    public let relays: RelayCounters
    public let chain: Chain
    public let webhooks: Webhooks
    public let condition: Condition
    public let views: Views
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
    /// Messages about users for whom this node is not active yet.
    public let messagesPostponed: Int
    public let calls: Calls
    public let shared: Shared
    public let peers: [PeerStatistics]
}

extension ReplicaRepair {
    fileprivate func statistics(_ receiver: RowReceiver) -> NodeStatistics.Repair {
        NodeStatistics.Repair(
            differences: differences, rowsSent: rowsSent, rowsRefused: receiver.refusedCount, rowsLost: receiver.lostCount)
    }
}

extension Webhooks {
    fileprivate func statistics(_ backlog: WebhookBacklog) -> NodeStatistics.Webhooks {
        NodeStatistics.Webhooks(
            accepted: counters.accepted, failed: counters.failed, events: counters.events, usersWaiting: backlog.usersCount,
            bytesWaiting: backlog.bytesCount, circuitsOpen: openCount)
    }
}

extension Chain {
    fileprivate func statistics(_ size: UserLists.Size) -> NodeStatistics.Chain {
        let lists = NodeStatistics.Chain.Lists(bytes: size.bytes, rows: size.rows)
        return NodeStatistics.Chain(openCount: openCount, oldest: oldest, expired: expiredCount, refused: refusedCount, lists: lists)
    }
}

extension Calls {
    fileprivate var statistics: NodeStatistics.Calls {
        NodeStatistics.Calls(
            rateLimited: rates.refusedCount + hides.refusedCount, hidesWaiting: hides.count, hidesBeyondMax: hides.beyondMaxCount)
    }
}

extension FanOut {
    fileprivate var statistics: NodeStatistics.Views {
        NodeStatistics.Views(count: count, waiting: pacing.waitingCount, replaced: pacing.replacedCount)
    }
}

extension Composition {
    var condition: NodeStatistics.Condition {
        let check = cluster.clockCheck
        return NodeStatistics.Condition(
            isDraining: cluster.isDraining, isClockWrong: check.givesSlotsAway, clockError: check.error,
            slotsUnsure: cluster.unsure.slotsCount)
    }

    /// Counts since the start.
    var statistics: NodeStatistics {
        let (transfer, kept) = (cluster.ownership.transfer, owner.users.replicaCount)
        return NodeStatistics(
            logins: edge.loginsCount, owner: owner.counters, usersOnline: owner.users.onlineCount,
            usersOwned: owner.users.count - kept, usersReplicated: kept, writesWaiting: replication.writes.count,
            repair: repair.statistics(receiver), relays: edge.relays.counters, chain: chain.statistics(owner.users.listsSize),
            webhooks: webhooks.statistics(owner.webhookBacklog), condition: condition, views: edge.fanOut.statistics,
            slotsOwned: cluster.placement.slotsOwned, slotsAcquiring: cluster.ownership.acquiringCount, handoffDuration: transfer.duration,
            handoffBytes: transfer.bytesReceived,
            replicaLag: replication.writes.replicaLag(timeout: cluster.settings.replicationTimeout), callsWaiting: calls.waiting.count,
            misrouted: cluster.misroutedCount, viewDigestsSent: edge.comparison.sentCount,
            viewDigestDifferences: edge.comparison.differences,
            messagesPostponed: reports.postponed.count, calls: calls.statistics,
            shared: NodeStatistics.Shared(kicks: facts.kicks.count, policies: owner.policies.apps.count),
            peers: cluster.peers.others.filter { !cluster.peers[$0].isVacant }.map { peer in
                NodeStatistics.PeerStatistics(
                    id: cluster.peers[peer].peer.id, state: cluster.peers[peer].memberState, link: cluster.links[peer].counters,
                    deltasReceived: edge.relays.deltasReceived(from: peer), rulesSent: cluster.links[peer].rulesSent,
                    queueDepth: cluster.links[peer].depth)
            })
    }
}
