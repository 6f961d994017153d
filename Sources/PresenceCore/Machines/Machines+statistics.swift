import PresenceWire

extension Machines {
    /// Counts since the start.
    var statistics: NodeStatistics {
        let (counters, transfer, kept) = (owner.counters, cluster.ownership.transfer, owner.users.replicaCount)
        return NodeStatistics(
            logins: edge.loginsCount, logouts: counters.logouts, sessionsDisconnected: counters.sessionsDisconnected,
            sessionsKicked: counters.sessionsKicked, sessionsEvicted: counters.sessionsEvicted, usersOnline: owner.users.onlineCount,
            usersOwned: owner.users.count - kept, usersReplicated: kept, writesWaiting: replication.writes.count,
            digestDifferences: repair.differences, rowsRefused: repair.rowsRefusedCount, isDraining: cluster.isDraining,
            evictions: counters.evictions, tombstonesForgotten: counters.tombstonesForgotten, usersRemoved: counters.usersRemoved,
            clocksRefused: counters.clocksRefused, usersWatched: edge.fanOut.count, slotsOwned: cluster.placement.slotsOwned,
            slotsAcquiring: cluster.ownership.acquiringCount, handoffDuration: transfer.duration, handoffBytes: transfer.bytesReceived,
            replicaLag: replication.writes.replicaLag(timeout: cluster.settings.replicationTimeout), callsWaiting: calls.waiting.count,
            misrouted: cluster.misroutedCount, viewDigestsSent: edge.comparison.sentCount,
            viewDigestDifferences: edge.comparison.differences, relaysSent: edge.relays.counters.sent,
            relaysForwarded: edge.relays.counters.forwarded, relaysDropped: edge.relays.counters.dropped,
            messagesPostponed: reports.postponed.count, relaysFetched: edge.relays.counters.fetched,
            callsRateLimited: calls.rates.refusedCount,
            kicks: facts.kicks.count, policies: owner.policies.apps.count,
            peers: cluster.peers.others.filter { !cluster.peers[$0].isVacant }.map { peer in
                let counters = cluster.links[peer].counters
                return NodeStatistics.PeerStatistics(
                    id: cluster.peers[peer].peer.id, state: cluster.peers[peer].memberState, deltasSent: counters.deltasSent,
                    deltasReceived: edge.relays.deltasReceived(from: peer), deltasCoalesced: counters.deltasCoalesced,
                    batchesSent: counters.batchesSent, bytesSent: counters.bytesSent, overflows: counters.overflows,
                    queueDepth: cluster.links[peer].depth)
            })
    }

    /// Stops the process at a state of a machine that cannot occur. With `alsoUsers` it checks all users.
    func checkInvariants(alsoUsers: Bool) {
        cluster.checkInvariants()
        if alsoUsers { owner.checkInvariants() }
    }
}
