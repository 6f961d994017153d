import PresenceWire

/// The machines of a node, and the steps that concern several of them.
///
/// A step gives each machine its part, in order. The machines receive one another in place. The messages and rows of a step wait in the
/// cluster's links and outbox, until ``Node`` carries them out.
struct Composition: ~Copyable {
    /// The members, the links and the ring.
    var cluster: Cluster
    /// The users that this node owns or keeps as a replica.
    var owner: Owner
    /// The sessions and views of this node's clients.
    var edge: Edge
    var calls: Calls
    var replication = Replication()
    var receiver = RowReceiver()
    var repair = ReplicaRepair()
    var reports = Reports()
    var facts = SharedFacts()
    var removal = FollowedQuestions()
    var chain = Chain()
    var unresolvedDecisions = UnresolvedDecisions()
    var webhooks = Webhooks()
    private var nextBeatPeer = 1
    private var nextExpiryAt = Instant(nanoseconds: 0)
    private var nextResumptionAt = Instant(nanoseconds: 0)

    init(own: Peer, cluster name: String, gatewaysCount: Int, joins: Bool, settings: CoreSettings) {
        cluster = Cluster(own: own, name: name, gatewaysCount: gatewaysCount, joins: joins, settings: settings)
        owner = Owner(clock: VersionClock(node: own.versionNode), settings: settings)
        edge = Edge(settings: settings)
        calls = Calls(after: cluster.lastTicket)
    }

    // MARK: Start

    /// Loads a durable row: see ``Node/load(_:at:)``.
    mutating func load(_ row: Row, at now: Now) throws(RowError) {
        guard !cluster.joins || owner.clock.accepts(row.version, at: now.wall) else { throw RowError(aheadOfTime: row, at: now.wall) }
        switch row.kind {
        case .member: try loadMember(row, at: now)
        case .policy: try facts.load(policy: row, &owner)
        case .kick: try facts.load(kick: row, in: &cluster.outbox[at: now])
        case .clock:
            owner.observe(row.version)
            replication.load(clock: row)
        default:
            replication.noteWritten(row.user.slot)
            try owner.load(row, in: &cluster.outbox[at: now])
        }
    }

    /// Begins to work with the loaded rows: see ``Node/loaded(at:isKept:)``.
    mutating func loaded(at now: Now, isKept: (Row) -> Bool) {
        if !cluster.joins { owner.renewAlone(in: cluster, at: now) }
        for message in facts.messagesAtStart(owner) { cluster.sendToGateways(message) }
        owner.restartConfirmations(at: now)
        unresolvedDecisions.add(UnresolvedDecisions.lastDecisions(of: owner), countMax: cluster.settings.callsMax, at: now)
        replication.beginLease(clock: owner.clock.milliseconds(at: 0), cluster, at: now, isKept: isKept)
    }

    // MARK: Rows

    /// Stores rows of another node, and ends the sessions of users whom they kick. Without rows the message is a barrier.
    ///
    /// Rows that this node cannot read or accept are not acknowledged.
    mutating func onReplicate(_ rows: [Row], ticket: UInt64?, from peer: PeerIndex, at now: Now) {
        do throws(RowError) {
            try facts.receive(rows.filter(\.kind.isForAll), &owner, &cluster, at: now)
            let rowsOfUsers = rows.filter { $0.kind.isOfUser }
            if let ticket {
                if try receiver.receive(rowsOfUsers, isAwaited: true, from: peer, &owner, &cluster, at: now) {
                    replication.acknowledge(
                        ticket, to: peer, isBarrier: rows.isEmpty, staleCount: edge.fanOut.staleCount, &cluster.outbox)
                }
            } else {
                receiver.countLost(rowsOfUsers, from: peer, replication.completeness, owner, cluster)
                _ = try receiver.receive(rowsOfUsers, isAwaited: false, from: peer, &owner, &cluster, at: now)
            }
        } catch {
            receiver.countRefused()
        }
        edge.endSessions(of: cluster.outbox.kicked.takeAll())
        if rows.isEmpty { calls.onBarrier(from: peer, cluster, at: now) }
    }

    /// Performs a request that belongs to a client's trace. The log has the requests of other nodes.
    mutating func onTraced(_ trace: TraceContext, _ request: Request, from peer: PeerIndex, at now: Now) {
        if peer != 0 { cluster.outbox.effects.append(.traced(trace, request.operation, from: cluster.peerID(peer))) }
        onRequest(request, from: peer, at: now)
    }

    /// Performs a request to the owner of a user, and ends the sessions of a user whom it kicks.
    mutating func onRequest(_ request: Request, from peer: PeerIndex, hasWaited: Bool = false, at now: Now) {
        switch calls.onRequest(request, from: peer, hasWaited: hasWaited, edge, &owner, replication, &cluster, at: now) {
        case .done: break
        case .setPolicy(let change, let request): facts.setPolicy(change, request, from: peer, &owner, &cluster, at: now)
        case .kick(let reason, let request): facts.kick(reason: reason, request, from: peer, &owner, &cluster, at: now)
        case .chain(let call, let request): chain.perform(call, request, from: peer, &owner, &cluster, at: now)
        case .replayWebhooks(let app, let since):
            webhooks.perform(replayOf: app, since: since, request, from: peer, &owner, &cluster, at: now)
        case .load(let request): cluster.send(.answer(id: request.id, .explained(.load, loadText(for: String(request.user.app)))), to: peer)
        }
        edge.endSessions(of: cluster.outbox.kicked.takeAll())
    }

    /// Completes what has waited for another node's disk.
    mutating func onReplicated(_ ticket: UInt64, from peer: PeerIndex, at now: Now) {
        if let outcome = replication.onReplicated(ticket, from: peer) { carryOut(outcome, at: now) }
    }

    /// Completes what has waited for the disk.
    mutating func stored(_ ticket: UInt64, isDurable: Bool, at now: Now) {
        replication.stored(ticket, isDurable: isDurable, cluster.settings, at: now)
        perform(SlotTransfer.written(ticket, isDurable: isDurable, &cluster), at: now)
        if isDurable { replication.acknowledge(ticket, &cluster.outbox) }
        if let outcome = replication.complete(ticket, isDurable: isDurable) { carryOut(outcome, at: now) }
    }

    /// Applies another user's decision to a user whom this node owns.
    mutating func onChainApply(_ apply: ChainApply, at now: Now) {
        chain.onApply(apply, &owner, replication, &cluster, at: now)
    }

    /// Ends what ends by itself about users, and hides those whose calls have waited until viewers may be shown an OFFLINE.
    mutating func reviewUsers(at now: Now) {
        // Before the graces end: viewers from whom a lost user hides are shown one OFFLINE.
        for (request, peer) in calls.hides.takeDue(owner, at: now) {
            onRequest(request, from: peer, hasWaited: true, at: now)
        }
        owner.tick(in: &cluster.outbox[at: now])
        chain.goOnAfterHiding(&owner, in: &cluster.outbox[at: now])
    }

    /// Sends the answers of a write, and goes on with what waited for it.
    mutating func carryOut(_ outcome: PendingWrites.Outcome, at now: Now) {
        owner.carryOut(outcome, &cluster, at: now)
        let (steps, areDurable) = outcome.chainSteps
        if !steps.isEmpty { chain.carryOut(steps, isDurable: areDurable, &owner, &cluster, at: now) }
    }

    // MARK: Outputs

    /// Sends the changed records, messages and lists of the outbox. Messages to this node then wait in the links.
    mutating func sendOutputs(at now: Now) {
        if !cluster.outbox.deferred.isEmpty { sendDeferred(at: now) }
        if !cluster.outbox.changes.isEmpty {
            for (record, watchers) in cluster.outbox.changes.takeAll() {
                edge.relays.publish(record, to: Audience(of: record, watchers: watchers), owner, &cluster)
            }
        }
        if !cluster.outbox.messages.isEmpty {
            for (peer, message) in cluster.outbox.messages.takeAll() { cluster.send(message, to: peer) }
        }
        for (session, user) in cluster.outbox.unknownEnds.takeAll() {
            guard let peer = cluster.peers.index(ofNumber: session.node), peer == 0 || cluster.peers[peer].isAlive else { continue }
            cluster.send(.end(session, user: user, reason: SessionEnd.logout), to: peer)
        }
        if !cluster.outbox.lists.isEmpty {
            for (peer, user) in cluster.outbox.lists.takeAll() { edge.owe(listOf: user, to: peer, owner, &cluster) }
        }
    }

    private mutating func sendDeferred(at now: Now) {
        for action in replication.takeDeferred(&cluster.outbox) {
            switch action {
            case .answer(let id, _, let answer, let peer): cluster.send(.answer(id: id, answer), to: peer)
            case .step(let step): chain.carryOut([step], isDurable: true, &owner, &cluster, at: now)
            }
        }
    }

    /// Sends the rows of the outbox to the disk, and to the other nodes that keep them.
    mutating func writeOutputs(at now: Now) {
        for row in cluster.outbox.rowsForOwners.takeAll() { cluster.send(.replicate(ticket: nil, [row]), to: cluster.owner(of: row.user)) }
        replication.releaseBarriers(staleCount: edge.fanOut.staleCount, &cluster.outbox)
        if cluster.outbox.hasWrites || cluster.ownership.transfer.progress == .received { replication.persist(&cluster, at: now) }
        if !cluster.outbox.deletedSlots.isEmpty {
            cluster.outbox.effects.append(.deleteSlots(cluster.outbox.deletedSlots.takeAll()))
        }
        if !cluster.outbox.deletedRows.isEmpty { cluster.outbox.effects.append(.deleteRows(cluster.outbox.deletedRows.takeAll())) }
    }

    /// The next batch for a peer: see ``Node/nextBatch(for:at:)``.
    mutating func nextBatch(for peer: PeerIndex, at now: Now) -> [UInt8]? {
        cluster.links.endTransmission(to: peer)
        edge.fill(peer, owner, &cluster)
        cluster.links.endTransmission(to: peer)
        var claim = cluster.ownership.incompleteSince
        if let named = edge.relays.namedFrom(peer) { claim = min(claim ?? named, named) }
        return cluster.links[peer].nextBatch(clock: claim ?? owner.clock.current(at: now.wall))
    }

    /// Handles an owner's rejection of `users`. An empty list says that it now decides about all its users.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, at now: Now) {
        if users.isEmpty {
            edge.retryMisrouted(by: peer, owner, &cluster)
            calls.retryMisrouted(by: peer, edge, owner, &cluster, at: now)
        } else {
            edge.onMisrouted(users, from: peer, cluster, at: now)
            calls.onMisrouted(users, from: peer, retryInterval: cluster.settings.retryInterval, at: now)
        }
    }

    // MARK: Time

    /// Gives each machine its part of a tick, in order: see ``Node/tick(at:systemAhead:)``.
    mutating func tick(at now: Now, systemAhead: Milliseconds) {
        let wasDraining = cluster.isDraining
        followFaults(systemAhead: systemAhead, at: now)
        cluster.membership.tick(at: now)
        followMembership(at: now)
        // If all nodes had a fault, the ring stays the same.
        if wasDraining, !cluster.isDraining { deleteMoved() }
        reviewUsers(at: now)
        owner.expireTombstones(in: &cluster.outbox[at: now])
        removal.ask(&owner, &cluster, at: now)
        cluster.outbox.writeInBulk { owner.writeRenewed(into: &$0) }
        edge.pushDue(owner.policies, &cluster, at: now)
        edge.sweep(&cluster, at: now)
        expire(at: now)
        OpenDeletions.resume(&owner, &cluster, at: now, next: &nextResumptionAt)
        edge.retryMisrouted(owner, &cluster, at: now)
        perform(SlotTransfer.advance(&cluster, at: now), at: now)
        SlotTransfer.fetchPrepared(owner, &cluster)
        SlotTransfer.offerMisplacedRows(owner, &cluster)
        calls.tick(edge, owner, &cluster, at: now)
        for pair in cluster.outbox.chains.toReopen.takeAll() { chain.reopen(pair, owner, &cluster, at: now) }
        chain.block(cluster.outbox.chains.toBlock.takeAll())
        chain.tick(&owner, &cluster, at: now)
        unresolvedDecisions.add(cluster.outbox.chains.toVerify.takeAll(), countMax: cluster.settings.callsMax, at: now)
        unresolvedDecisions.tick(owner, &cluster, at: now)
        webhooks.tick(&owner, &cluster, at: now)
        resyncOverflown(at: now)
        for outcome in replication.overdue(at: now) { carryOut(outcome, at: now) }
        replication.retryDisk(&cluster, at: now)
        repair.compare(owner, &cluster, at: now)
        replication.followCompleteness(cluster, at: now)
        if edge.sessions.count > 0 { replication.renewLease(clock: owner.clock.milliseconds(at: 0), &cluster, at: now) }
        edge.verifyRelayed(owner, &cluster, at: now)
        edge.updatePosition(durable: replication.lease.durable, &owner, &cluster, at: now)
    }

    /// Removes expired facts. Called once an hour.
    private mutating func expire(at now: Now) {
        guard now.instant >= nextExpiryAt else { return }
        nextExpiryAt = now.instant + .seconds(3_600)
        facts.expireKicks(&cluster, at: now)
        remove(cluster.expiredPeers(at: now), at: now)
    }

    /// Sends signs of life and due digests: see ``Node/beat(at:)``.
    mutating func beat(at now: Now) {
        cluster.countBeat()
        edge.comparison.sendDigests(owner, &cluster, at: now)
        for _ in 0..<min(cluster.peers.count - 1, cluster.settings.beatPeersMax) {
            let peer = nextBeatPeer
            nextBeatPeer = nextBeatPeer % (cluster.peers.count - 1) + 1
            guard cluster.links.isUp(peer) else { continue }
            edge.relays.nameRelayed(to: peer, owner, &cluster)
            cluster.links[peer].beat()
            cluster.transmit(to: peer)
        }
    }

    /// Stops the process at a state of a machine that cannot occur. With `alsoUsers` it checks all users.
    func checkInvariants(alsoUsers: Bool) {
        cluster.checkInvariants()
        if alsoUsers { owner.checkInvariants() }
    }
}
