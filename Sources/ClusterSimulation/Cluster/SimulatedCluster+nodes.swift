import PresenceCore
import PresenceWire

/// The simulated shell: it gives the cores their inputs and carries out their effects.
extension SimulatedCluster {
    mutating func handle(_ what: SimulationEvent.What) {
        if let node = node(of: what), isDeferred(what, by: node) { return }
        switch what {
        case .step(let index): perform(plan.steps[index].action)
        case .tick(let node, let run): ProcessLife.tick(node, run, &self)
        case .connect(let link, let attempt): if let node = network.connect(link, attempt, nodes, &stage) { obey(node) }
        case .linked(let link, let attempt, let hello): if let node = network.linked(link, attempt, hello, nodes, &stage) { obey(node) }
        case .retry(let link, let attempt):
            if network[link].attempt == attempt, nodes[network[link].from].isUp { network.attempt(link, &stage) }
        case .refused(let link, let attempt): failed(link, attempt, Twins.loss(network[link]))
        case .broken(let link, let attempt): failed(link, attempt, .reset)
        case .silent(let link, let attempt): if network.isDead(link, attempt, &stage) { failed(link, attempt, .silent) }
        case .arrive(let link, let attempt, let run, let connection, let batch): arrive(link, attempt, run, connection, batch)
        case .acknowledge(let link, let attempt): if let node = network.acknowledge(link, attempt, nodes, at: time) { obey(node) }
        case .commit(let node, let run): commit(node, run)
        case .fromGateway(let node, let run, let gateway, let messages):
            guard isRunning(node, run) else { return }
            for message in messages { nodes[node].node.receive(message, from: gateway, at: nodes[node].now(time)) }
            obey(node)
        case .toGateway(let node, let run, let gateway, let messages):
            guard isRunning(node, run) else { return }
            for message in messages { nodes[node].gateways[gateway].value.receive(message) }
            obey(node)
        case .ringComputed(let node, let run, let members):
            guard isRunning(node, run) else { return }
            nodes[node].node.ringComputed(rings.ring(of: members), at: nodes[node].now(time))
            obey(node)
        case .start(let node): ProcessLife.start(node, &self)
        case .leave(let node, let run): ProcessLife.leave(node, run, &self)
        case .end(let node, let run): ProcessLife.end(node, run, &self)
        case .resume(let node): ProcessLife.resume(node, &self)
        case .emptyDisk(let node):
            nodes[node].disk.isFull = false
            nodes[node].disk.isSlow = false
            beginCommit(node)
        case .correctClock(let node): nodes[node].jump = 0
        case .checkFault(let node, let run, let phase):
            if let problem = MachineFaultChecks.problem(of: node, run, in: phase, self) { violate(.faultsStayLocal, problem) }
        case .twin(let event): Twins.handle(event, &self)
        case .connectClient(let client, let attempt): Clients.connectClient(client, attempt, &self)
        case .read(let client, let attempt): Clients.read(client, attempt, &self)
        case .streamEnded(let client, let attempt): Clients.streamEnded(client, attempt, &self)
        case .missed(let client, let attempt): Clients.missed(client, attempt, &self)
        case .expectEvent(let index): EventChecks.checkExpectation(index, &self)
        case .expectKick(let index): PolicyChecks.checkKick(truth.kicks[index], self)
        case .expectEnd(let session): SessionChecks.checkEnd(of: session, &self)
        }
    }

    func isRunning(_ node: Int, _ run: Int) -> Bool { nodes[node].isUp && nodes[node].run == run }

    /// The node of an event, if the event waits while the node is paused.
    private mutating func node(of what: SimulationEvent.What) -> Int? {
        switch what {
        case .tick(let node, _), .commit(let node, _), .fromGateway(let node, _, _, _), .toGateway(let node, _, _, _), .leave(let node, _),
            .end(let node, _), .ringComputed(let node, _, _):
            node
        case .arrive(let link, _, _, _, _): network[link].to
        case .linked(let link, _, _), .retry(let link, _), .refused(let link, _), .broken(let link, _), .silent(let link, _),
            .acknowledge(let link, _):
            network[link].from
        case .missed(let client, _): clients[client].stream?.node
        case .step(let index): plan.steps[index].action.requestedNode
        default: nil
        }
    }

    /// Whether an event waits. A paused node receives all waiting events when it resumes.
    private mutating func isDeferred(_ what: SimulationEvent.What, by node: Int) -> Bool {
        guard nodes[node].isUp, time < nodes[node].pausedUntil else { return false }
        nodes[node].deferred.append(what)
        return true
    }

    // MARK: Links

    private mutating func failed(_ index: Int, _ attempt: Int, _ why: Membership.LinkLoss) {
        guard let loss = network.fail(index, attempt, why, nodes, &stage) else { return }
        let from = network[index].from
        if loss.isTold { obey(from) }
        // A process that has started meanwhile was not asked.
        if loss.wasLive || network[index].tried != network[index].expected { return network.attempt(index, &stage) }
        network[index].failuresCount += 1
        ProcessLife.recordFirstNode(of: from, &self)
        network.retryLater(index, &stage)
    }

    private mutating func arrive(_ index: Int, _ attempt: Int, _ run: Int, _ connection: ConnectionID, _ batch: [UInt8]) {
        let (from, to) = (network[index].from, network[index].to)
        guard isRunning(to, run) else { return }
        let isCurrent = network[index].attempt == attempt
        // A message that was on its way when a connection broke is lost, or arrives after the next connection's hello.
        guard isCurrent || StableHash.mix(UInt64(attempt), options.seed) % 2 == 0 else { return }
        stage.counts[.batches] += 1
        if let problem = MachineFaultChecks.problem(with: batch, on: index, &self) { violate(.boundsHold, problem) }
        var isTaken = true
        do {
            isTaken = try batch.withUnsafeBytes { bytes in
                try nodes[to].node.receive(batch: bytes, from: nodes[from].id, on: connection, at: nodes[to].now(time))
            }
        } catch { violate(.messagesAreReadable, "a batch from \(nodes[from].id) to \(nodes[to].id): \(error)") }
        journal.note(
            8, index, batch.count,
            "\(nodes[to].id) takes \(batch.count) bytes from \(nodes[from].id)\(isCurrent ? "" : isTaken ? ", late" : ", void")\(Message.words(of: batch))"
        )
        if isCurrent, Twins.isTaken(isTaken, index, &self) {
            Clients.recordLogouts(in: batch, to: to, &self)
            network.answer(index, &stage)
        }
        obey(to)
    }

    private mutating func transmit(from: Int, to peer: PeerIndex) {
        let id = nodes[from].peerID(peer)
        guard let target = Twins.host(of: id, linkedFrom: from, self) else { return }
        let index = network.link(from, target)
        guard network[index].state == .live else { return }
        let now = nodes[from].now(time)
        RestChecks.checkQueue(from: from, to: peer, self)
        while let batch = nodes[from].node.nextBatch(for: peer, at: now) {
            network.send(batch, over: index, toRun: nodes[target].run, &stage)
        }
    }

    // MARK: Disk

    mutating func beginCommit(_ node: Int) {
        guard nodes[node].isUp, nodes[node].disk.begin() else { return }
        let duration = nodes[node].disk.isSlow ? stage.random.microseconds(50_000...900_000) : stage.random.microseconds(300...4_500)
        stage.plan(.commit(node: node, run: nodes[node].run), after: duration)
    }

    private mutating func commit(_ node: Int, _ run: Int) {
        guard isRunning(node, run) else { return }
        let discarded = nodes[node].disk.isDeletingSlots ? RestChecks.acknowledgedOnDisk(of: node, self) : []
        let (tickets, isDurable) = nodes[node].disk.commit()
        RestChecks.checkDisks(after: discarded, at: node, self)
        for ticket in tickets { nodes[node].node.stored(ticket, isDurable: isDurable, at: nodes[node].now(time)) }
        obey(node)
        beginCommit(node)
    }

    // MARK: Effects

    /// Carries out the effects of a node's core and gateways until there are none.
    mutating func obey(_ node: Int) {
        let process = nodes[node]
        if nodes.count > 1, process.node.cluster.isAlone { process.aloneAt = time }
        let now = process.now(time)
        var isBusy = true
        while isBusy, !isBroken, process.isUp { isBusy = process.turn(at: now) { carryOut($0, of: node) } }
    }

    /// Carries out what leaves a node: after the delays that are drawn, or at once.
    private mutating func carryOut(_ output: ClusterProcess.Output, of node: Int) {
        switch output {
        case .gateway(let gateway, let output): carryOut(output, of: node, gateway)
        case .toCore(let gateway, let messages):
            stage.plan(.fromGateway(node: node, run: nodes[node].run, gateway: gateway, messages), after: 50_000)
        case .toGateway(let gateway, let messages):
            stage.plan(.toGateway(node: node, run: nodes[node].run, gateway: gateway, messages), after: 50_000)
        case .effect(let effect, let turn): carryOut(effect, of: node, in: turn)
        case .turnEnded: beginCommit(node)
        }
    }

    private mutating func carryOut(_ output: Gateway.Output, of node: Int, _ gateway: Int) {
        for push in output.pushes {
            guard let client = nodes[node].client(of: push.session, at: gateway),
                !truth.ledger.isHalfOpen(push.session, at: gateway, of: node)
            else { continue }
            VisibilityChecks.checkVisibility(of: output.payloads[Int(push.payload)], for: client, &self)
            PolicyChecks.checkPolicy(of: output.payloads[Int(push.payload)], for: client, on: node, self)
            journal.note(.event, node, client, output.payloads[Int(push.payload)])
            Clients.push(output.payloads[Int(push.payload)], to: client, &self)
        }
        for session in output.ended + output.cutOff {
            if SessionChecks.endHalfOpen(session, of: node, at: gateway, output, &self) { continue }
            guard let client = nodes[node].client(of: session, at: gateway) else { continue }
            let farewell = output.ended.contains(session) ? PolicyChecks.checkFarewell(of: session, by: client, in: output, self) : nil
            Clients.endStream(of: client, isKicked: farewell == "onKickedOffline", &self)
        }
    }

    private mutating func carryOut(_ effect: Node.Effect, of node: Int, in turn: [Node.Effect]) {
        switch effect {
        case .send, .deliver: preconditionFailure("messages to gateways stay in the process, and no app has a webhook")
        case .answer(_, let token, let answer): OpenCalls.answered(node, token, answer, &self)
        case .persist(let rows, _, let isUrgent):
            for row in rows { journal.note(.row, node, isUrgent ? 1 : 0) { $0.row(row) } }
            ProcessLife.noteOffline(rows, by: node, in: turn, &self)
            if truth.chain.isUsed { ChainChecks.check(rows, by: node, self) }
            if truth.profiles.isUsed { truth.profiles.keep(rows, at: time) }
            if let problem = MachineFaultChecks.problem(of: rows, by: node, self) { violate(.versionsAreInTime, problem) }
            if options.kind == .awayUsersAreRemoved { RemovalChecks.checkRemoval(in: rows, by: node, self) }
        case .deleteSlots(let slots):
            journal.note(9, node, slots.count, "\(nodes[node].id) discards what has moved away, \(slots.count) slots")
            journal.note(.deletedSlots, node, slots.count) { writer in writer.list(slots) { $0.unsigned(UInt64($1)) } }
        case .deleteRows(let rows):
            for row in rows { journal.note(.deletedRow, node, 0) { $0.row(row) } }
            RemovalChecks.countForgotten(rows, by: node, &self)
        case .connect(let peer):
            Twins.giveUpLinks(of: node, to: peer, &self)
            guard let target = nodeIndex(peer.address), target != node else { return }
            let link = network.link(node, target)
            network[link].expect(peer)
            network.attempt(link, &stage)
        case .transmit(let peer): transmit(from: node, to: peer)
        case .computeRing(let members):
            stage.plan(.ringComputed(node: node, run: nodes[node].run, members), after: stage.random.microseconds(500...40_000))
        case .followSystemClock: nodes[node].adoptSystemClock()
        case .traced, .truncateLog, .resumeDeletion: break  // No simulated client traces its calls, and no user is deleted.
        case .superseded(let card): Twins.end(node, .superseded(by: card), &self)
        case .membership(let id, let isAlive):
            if isAlive { for member in nodes where member.id == id { (nodes[node].metAt, member.metAt) = (time, time) } }
            journal.note(9, node, isAlive ? 1 : 0, "\(nodes[node].id): \(id) is \(isAlive ? "alive" : "gone")")
        }
    }
}
