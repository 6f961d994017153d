import PresenceWire

/// The counts of a node's core, for the metrics.
public struct NodeStatistics: Equatable, Sendable {
    /// One other node.
    public struct PeerStatistics: Equatable, Sendable {
        public let id: NodeID
        public let state: ClusterStatus.MemberState
        public let deltasSent: UInt64
        /// The records that the node has sent, accepted or not.
        public let deltasReceived: UInt64
        public let deltasCoalesced: UInt64
        public let batchesSent: UInt64
        public let bytesSent: UInt64
        public let overflows: UInt64
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
    }

    /// The comparison with other replicas.
    public struct Repair: Equatable, Sendable {
        /// Digests of another node that differed from this node's.
        public let differences: UInt64
        /// Rows sent to other nodes because they differed.
        public let rowsSent: UInt64
        /// Batches of rows of other nodes that could not be read.
        public let rowsRefused: UInt64
    }

    /// Records that travel through other nodes.
    public struct Relays: Equatable, Sendable {
        /// Records sent together with targets to which the receiver forwards them.
        public let sent: UInt64
        /// Records forwarded for another node.
        public let forwarded: UInt64
        /// Targets to which a record could not be forwarded.
        public let dropped: UInt64
        /// Records requested from their owner because no relay had forwarded them.
        public let fetched: UInt64
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
        /// Events that were not accepted in time.
        public let expired: UInt64
        /// Events that were removed because too many of their user waited.
        public let dropped: UInt64
        /// Events that were removed because too many of their app or of this node waited.
        public let beyondBacklog: UInt64
        /// Users with events that the receiver has not accepted.
        public let usersWaiting: Int
        /// Bytes of these events.
        public let bytesWaiting: Int
        /// Apps whose receivers have failed often.
        public let circuitsOpen: Int
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
    public let repair: Repair
    public let relays: Relays
    public let chain: Chain
    public let webhooks: Webhooks
    public let condition: Condition
    public let evictions: UInt64
    /// Expired tombstones of subscriptions, of users owned here or kept for others.
    public let tombstonesForgotten: UInt64
    /// Users whose blank records have expired, owned here or kept for others.
    public let usersRemoved: UInt64
    public let clocksRefused: UInt64
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
        NodeStatistics.Repair(differences: differences, rowsSent: rowsSent, rowsRefused: receiver.refusedCount)
    }
}

extension Webhooks {
    fileprivate func statistics(_ owner: OwnerCounters, _ backlog: WebhookBacklog) -> NodeStatistics.Webhooks {
        NodeStatistics.Webhooks(
            accepted: counters.accepted, failed: counters.failed, events: counters.events, expired: owner.webhookEventsExpired,
            dropped: owner.webhookEventsDropped, beyondBacklog: owner.webhookEventsBeyondBacklog, usersWaiting: backlog.usersCount,
            bytesWaiting: backlog.bytesCount, circuitsOpen: openCount)
    }
}

extension Chain {
    fileprivate func statistics(_ size: UserLists.Size) -> NodeStatistics.Chain {
        let lists = NodeStatistics.Chain.Lists(bytes: size.bytes, rows: size.rows)
        return NodeStatistics.Chain(openCount: openCount, oldest: oldest, expired: expiredCount, refused: refusedCount, lists: lists)
    }
}

extension RelayTree {
    fileprivate var statistics: NodeStatistics.Relays {
        NodeStatistics.Relays(sent: counters.sent, forwarded: counters.forwarded, dropped: counters.dropped, fetched: counters.fetched)
    }
}

extension Calls {
    fileprivate var statistics: NodeStatistics.Calls {
        NodeStatistics.Calls(rateLimited: rates.refusedCount, hidesWaiting: hides.count, hidesBeyondMax: hides.beyondMaxCount)
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
        return NodeStatistics.Condition(isDraining: cluster.isDraining, isClockWrong: check.givesSlotsAway, clockError: check.error)
    }

    /// Counts since the start.
    var statistics: NodeStatistics {
        let (counters, transfer, kept) = (owner.counters, cluster.ownership.transfer, owner.users.replicaCount)
        return NodeStatistics(
            logins: edge.loginsCount, logouts: counters.logouts, sessionsDisconnected: counters.sessionsDisconnected,
            sessionsKicked: counters.sessionsKicked, sessionsEvicted: counters.sessionsEvicted, usersOnline: owner.users.onlineCount,
            usersOwned: owner.users.count - kept, usersReplicated: kept, writesWaiting: replication.writes.count,
            repair: repair.statistics(receiver), relays: edge.relays.statistics, chain: chain.statistics(owner.users.listsSize),
            webhooks: webhooks.statistics(counters, owner.webhookBacklog), condition: condition,
            evictions: counters.evictions, tombstonesForgotten: counters.tombstonesForgotten, usersRemoved: counters.usersRemoved,
            clocksRefused: counters.clocksRefused, views: edge.fanOut.statistics, slotsOwned: cluster.placement.slotsOwned,
            slotsAcquiring: cluster.ownership.acquiringCount, handoffDuration: transfer.duration, handoffBytes: transfer.bytesReceived,
            replicaLag: replication.writes.replicaLag(timeout: cluster.settings.replicationTimeout), callsWaiting: calls.waiting.count,
            misrouted: cluster.misroutedCount, viewDigestsSent: edge.comparison.sentCount,
            viewDigestDifferences: edge.comparison.differences,
            messagesPostponed: reports.postponed.count, calls: calls.statistics,
            shared: NodeStatistics.Shared(kicks: facts.kicks.count, policies: owner.policies.apps.count),
            peers: cluster.peers.others.filter { !cluster.peers[$0].isVacant }.map { peer in
                let counters = cluster.links[peer].counters
                return NodeStatistics.PeerStatistics(
                    id: cluster.peers[peer].peer.id, state: cluster.peers[peer].memberState, deltasSent: counters.deltasSent,
                    deltasReceived: edge.relays.deltasReceived(from: peer), deltasCoalesced: counters.deltasCoalesced,
                    batchesSent: counters.batchesSent, bytesSent: counters.bytesSent, overflows: counters.overflows,
                    rulesSent: cluster.links[peer].rulesSent, queueDepth: cluster.links[peer].depth)
            })
    }
}
