import PresenceCore
import PresenceWire

/// The life of a process: it starts, ticks, stands still, drains, and ends.
enum ProcessLife {
    static func resume(_ node: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.nodes[node].isUp, cluster.time >= cluster.nodes[node].pausedUntil else { return }
        for what in MachineFaultChecks.takeDeferred(of: cluster.nodes[node], cluster.options) where cluster.violation == nil {
            cluster.handle(what)
        }
    }

    // MARK: Life

    static func start(_ node: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard !process.isUp else { return }
        // The contact points refuse a process whose clock is far off, and it ends.
        if abs(process.jump) > VersionClock.usualDriftMax.wholeMilliseconds {
            return cluster.stage.plan(.start(node: node), after: .milliseconds(200))
        }
        // A sole node with a full disk gets room before it starts. Otherwise it could not remember what it sends.
        if cluster.nodes.count == 1 { process.disk.isFull = false }
        do {
            try process.start(at: process.nowAtStart(cluster.time)) { row in
                cluster.journal.note(.firstRow, node, 0) { $0.row(row) }
            }
        } catch { return cluster.violate(.messagesAreReadable, "\(error)") }
        if cluster.nodes.count(where: \.isUp) < cluster.options.nodesCount { cripple(&cluster) }
        (cluster.disturbedAt, process.startedAt) = (cluster.time, cluster.time)
        cluster.journal.note(1, node, 0, "\(process.id) starts")
        for other in Twins.contacts(of: node, cluster) { cluster.network.attempt(cluster.network.link(node, other), &cluster.stage) }
        cluster.stage.plan(.tick(node: node, run: process.run), after: SimulatedCluster.tickInterval)
        recordFirstNode(of: node, &cluster)
        cluster.obey(node)
    }

    /// Records that a node has tried all its contact points in vain, and is the first node.
    static func recordFirstNode(of node: Int, _ cluster: inout SimulatedCluster) {
        guard Twins.contacts(of: node, cluster).allSatisfy({ cluster.network[cluster.network.link(node, $0)].failuresCount > 0 }) else {
            return
        }
        cluster.nodes[node].node.joinedNobody(at: cluster.nodes[node].now(cluster.time))
        cluster.obey(node)
    }

    static func tick(_ node: Int, _ run: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard cluster.isRunning(node, run) else { return }
        let systemAhead = process.followSystemClock()
        let now = process.now(cluster.time)
        process.ticksCount += 1
        let wasDraining = process.node.cluster.isDraining
        process.node.tick(at: now, systemAhead: systemAhead)
        // The slots move.
        if process.node.cluster.isDraining != wasDraining { cluster.disturbedAt = cluster.time }
        if process.ticksCount % 5 == 0 { process.node.beat(at: now) }
        for gateway in process.gateways.indices { process.gateways[gateway].value.tick(at: now) }
        if process.ring != process.node.cluster.ringID {
            process.ring = process.node.cluster.ringID
            let (before, owners) = (process.owners, process.look { $0.cluster.ownerIDs(of: cluster.userIDs) })
            process.owners = owners
            ownersChanged(of: owners.indices.filter { before.isEmpty || before[$0] != owners[$0] }, &cluster)
        }
        Twins.follow(node, &cluster)
        cluster.obey(node)
        cluster.stage.plan(.tick(node: node, run: run), after: SimulatedCluster.tickInterval)
    }

    /// Kills a node by SIGKILL: only the disk remains, and its host resets all connections.
    static func kill(_ node: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard process.isUp else { return }
        cluster.stage.counts[.kills] += 1
        cluster.disturbedAt = cluster.time
        cluster.truth.killsAt.append(cluster.time)
        if cluster.nodes.count(where: \.isUp) < cluster.options.nodesCount {
            cluster.manyKilledAt = cluster.time
            cripple(&cluster)
        }
        cluster.journal.note(2, node, 0, "\(process.id) is killed")
        // Work that was left when it resumes does not count if it dies then.
        let worked = process.worked(at: cluster.time)
        process.deaths[process.run] = process.disk.isFull ? min(worked, process.filledAt) : worked
        process.die(keepsGroup: cluster.stage.random.isOnce(in: 2))
        for call in cluster.calls.takeAll(of: node) { cluster.truth.unanswered(call) }
        cluster.truth.ledger.processEnded(node)
        for client in cluster.clients.indices where cluster.clients[client].stream?.node == node {
            guard let stream = cluster.clients[client].stream else { continue }
            // The node may not have reported a session whose client has not received everything. Such knowledge dies with the node. So do
            // rows that the only node has not written yet.
            let isKnown =
                cluster.clients[client].isSynced
                && (cluster.nodes.count > 1 || !isUnwritten(stream, of: cluster.clients[client].user, cluster))
            Clients.lostSession(of: client, stream, tolerance: isKnown ? cluster.graceAfterDeath : nil, &cluster)
            cluster.stage.plan(
                .streamEnded(client: client, attempt: cluster.clients[client].attempt),
                after: cluster.stage.random.microseconds(100...5_000))
        }
        let (owners, id) = (process.owners, process.id)
        ownersChanged(of: owners.indices.filter { owners[$0] == id }, &cluster)
        cluster.network.processEnded(node, &cluster.stage)
    }

    /// Records that a node uses another ring or is gone, so that these users have other owners now or soon.
    private static func ownersChanged(of users: [Int], _ cluster: inout SimulatedCluster) {
        let settings = cluster.options.settings
        cluster.truth.ownersChanged(
            of: users, grace: max(settings.policy.offlineGrace, settings.movingGrace).wholeNanoseconds,
            reconnectGrace: settings.reconnectGrace.wholeNanoseconds, at: cluster.time)
    }

    /// Records that several nodes are down at once.
    private static func cripple(_ cluster: inout SimulatedCluster) {
        cluster.crippledAt = cluster.time
        for user in cluster.truth.oracles.indices { cluster.truth.oracles[user].doubt() }
    }

    /// Records a write of OFFLINE, which ends the custom status (T11).
    ///
    /// A node that reaches none of the others does not count: on their side the user may have been online, and a change on one disk alone
    /// is not durable. A node that met another one and lost it in the same turn was not cut off when it decided.
    static func noteOffline(_ rows: [Row], by node: Int, in turn: [Node.Effect], _ cluster: inout SimulatedCluster) {
        lazy var hasMet = turn.contains { if case .membership(_, let isAlive) = $0 { isAlive } else { false } }
        for row in rows where row.kind == .status && row.endsCustomStatus(ifUnlogined: cluster.truth.policy.hasNeededSession) {
            if cluster.nodes.count > 1, !cluster.options.faults.contains(.drains), cluster.nodes[node].look({ $0.cluster.isAlone }), !hasMet
            {
                return
            }
            guard let user = cluster.userIndex(row.user.id) else { continue }
            cluster.truth.presences[user].offlineVersion = max(cluster.truth.presences[user].offlineVersion, row.version)
        }
    }

    /// Whether the only node has not written yet that a user is online whom its disk has as OFFLINE.
    private static func isUnwritten(_ stream: SimulatedClient.Stream, of user: Int, _ cluster: SimulatedCluster) -> Bool {
        let disk = cluster.nodes[stream.node].disk
        // The slowest disk takes less.
        guard disk.isFull || cluster.time - stream.openedAt < .milliseconds(5_000) else { return false }
        let row = disk.rows[SimulatedDisk.Key(cluster.userID(user))]
        return row?.endsCustomStatus(ifUnlogined: false) == true
    }

    /// Whether a node is the only one and its disk is full. An operator makes room before ending it.
    static func isFullAndAlone(_ node: Int, _ cluster: SimulatedCluster) -> Bool {
        cluster.nodes[node].disk.isFull && cluster.nodes.count(where: \.isUp) == 1
    }

    static func drain(_ node: Int, downMilliseconds: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard process.isUp, !process.isLeaving else { return }
        cluster.stage.counts[.drains] += 1
        let now = process.now(cluster.time)
        let hasOthers = process.node.drain(at: now)
        cluster.journal.note(3, node, 0, "\(process.id) drains")
        process.isLeaving = true
        if hasOthers {
            for gateway in process.gateways.indices {
                process.gateways[gateway].value.hintReconnect(reason: "draining", spread: .milliseconds(600))
            }
        }
        cluster.obey(node)
        process.leaving = (cluster.time + .milliseconds(6_000), downMilliseconds)
        cluster.stage.plan(.leave(node: node, run: process.run), after: .milliseconds(1_500))
    }

    static func leave(_ node: Int, _ run: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard cluster.isRunning(node, run) else { return }
        if isFullAndAlone(node, cluster) || (!process.look({ $0.cluster.isHandedOver }) && cluster.time < process.leaving.deadline) {
            return cluster.stage.plan(.leave(node: node, run: run), after: .milliseconds(50))
        }
        cluster.journal.note(4, node, 0, "\(process.id) leaves")
        process.node.leave(at: process.now(cluster.time))
        cluster.obey(node)
        // A process ends when its last messages were taken (`OutgoingLinks.whenSent`). Without network faults that is certain.
        guard cluster.options.kind == .nodesLeaveUntilOne else { return end(node, run, &cluster) }
        cluster.stage.plan(.end(node: node, run: run), after: .milliseconds(20))
    }

    static func end(_ node: Int, _ run: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.isRunning(node, run) else { return }
        kill(node, &cluster)
        cluster.nodes[node].hasLeft = cluster.options.kind == .nodesLeaveUntilOne
        // The first node to start may not know what the others have taken with them, and waits for nobody. Its "all" then covers less.
        if !cluster.nodes.contains(where: \.isUp) {
            for user in cluster.truth.subscriptions.indices { cluster.truth.subscriptions[user].doubt() }
        }
        cluster.stage.plan(.start(node: node), after: .milliseconds(cluster.isHealed ? 100 : cluster.nodes[node].leaving.downMilliseconds))
    }

    static func pause(_ node: Int, for milliseconds: Int, _ cluster: inout SimulatedCluster) {
        let process = cluster.nodes[node]
        guard process.isUp else { return }
        let until = max(process.pausedUntil, cluster.time + .milliseconds(milliseconds))
        process.stoodStill += until - max(process.pausedUntil, cluster.time)
        process.pausedUntil = until
        cluster.stage.plan(.resume(node: node), at: process.pausedUntil)
    }
}

extension Row {
    /// The start of the row of an OFFLINE user. Parsing each row would take as long as the rest of the work with it.
    private static let offlineBegin = Array("{\"statusType\":\"\(StatusType.offline.name)\"".utf8)
    private static let unloginedBegin = Array("{\"statusType\":\"\(StatusType.unlogined.name)\"".utf8)

    /// Whether the row keeps a record without a custom status, because its user is OFFLINE or, if that counts, UNLOGINED.
    fileprivate func endsCustomStatus(ifUnlogined: Bool) -> Bool {
        guard let value else { return false }
        return value.starts(with: Self.offlineBegin) || (ifUnlogined && value.starts(with: Self.unloginedBegin))
    }
}
