import PresenceCore
import PresenceWire

/// The simulated shell: it gives the cores their inputs and carries out their effects.
extension SimulatedCluster {
    mutating func handle(_ what: SimulationEvent.What) {
        if let node = node(of: what), isDeferred(what, by: node) { return }
        switch what {
        case .step(let index): perform(plan.steps[index].action)
        case .tick(let node, let run): tick(node, run)
        case .connect(let link, let attempt): connect(link, attempt)
        case .linked(let link, let attempt, let hello): linked(link, attempt, hello)
        case .retry(let link, let attempt):
            if links[link].attempt == attempt, nodes[links[link].from].isUp { self.attempt(link) }
        case .refused(let link, let attempt): failed(link, attempt, Twins.loss(links[link]))
        case .broken(let link, let attempt): failed(link, attempt, .reset)
        case .silent(let link, let attempt): silent(link, attempt)
        case .arrive(let link, let attempt, let run, let connection, let batch): arrive(link, attempt, run, connection, batch)
        case .acknowledge(let link, let attempt): acknowledge(link, attempt)
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
        case .start(let node): start(node)
        case .leave(let node, let run): leave(node, run)
        case .end(let node, let run): end(node, run)
        case .resume(let node): resume(node)
        case .emptyDisk(let node):
            nodes[node].disk.isFull = false
            nodes[node].disk.isSlow = false
            beginCommit(node)
        case .correctClock(let node): nodes[node].jump = 0
        case .checkFault(let node, let run, let phase):
            if let problem = MachineFaultChecks.problem(of: node, run, in: phase, self) { violate(.faultsStayLocal, problem) }
        case .twin(let event): Twins.handle(event, &self)
        case .connectClient(let client, let attempt): connectClient(client, attempt)
        case .read(let client, let attempt): read(client, attempt)
        case .streamEnded(let client, let attempt): streamEnded(client, attempt)
        case .missed(let client, let attempt): missed(client, attempt)
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
        case .arrive(let link, _, _, _, _): links[link].to
        case .linked(let link, _, _), .retry(let link, _), .refused(let link, _), .broken(let link, _), .silent(let link, _),
            .acknowledge(let link, _):
            links[link].from
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

    private mutating func resume(_ node: Int) {
        guard nodes[node].isUp, time >= nodes[node].pausedUntil else { return }
        for what in MachineFaultChecks.takeDeferred(of: nodes[node], options) where violation == nil { handle(what) }
    }

    // MARK: Life

    mutating func start(_ node: Int) {
        guard !nodes[node].isUp else { return }
        // The contact points refuse a process whose clock is far off, and it ends.
        if abs(nodes[node].jump) > VersionClock.usualDriftMax.wholeMilliseconds {
            return plan(.start(node: node), after: .milliseconds(200))
        }
        // A sole node with a full disk gets room before it starts. Otherwise it could not remember what it sends.
        if nodes.count == 1 { nodes[node].disk.isFull = false }
        do {
            try nodes[node].start(at: nodes[node].nowAtStart(time)) { row in note(.firstRow, node, 0) { $0.row(row) } }
        } catch { return violate(.messagesAreReadable, "\(error)") }
        if nodes.count(where: \.isUp) < options.nodesCount { cripple() }
        (disturbedAt, nodes[node].startedAt) = (time, time)
        note(1, node, 0, "\(nodes[node].id) starts")
        for other in Twins.contacts(of: node, self) { attempt(link(node, other)) }
        plan(.tick(node: node, run: nodes[node].run), after: Self.tickInterval)
        recordFirstNode(of: node)
        obey(node)
    }

    /// Records that a node has tried all its contact points in vain, and is the first node.
    private mutating func recordFirstNode(of node: Int) {
        guard Twins.contacts(of: node, self).allSatisfy({ links[link(node, $0)].failuresCount > 0 }) else { return }
        nodes[node].node.joinedNobody(at: nodes[node].now(time))
        obey(node)
    }

    private mutating func tick(_ node: Int, _ run: Int) {
        guard isRunning(node, run) else { return }
        let systemAhead = nodes[node].followSystemClock()
        let now = nodes[node].now(time)
        nodes[node].ticksCount += 1
        let wasDraining = nodes[node].node.cluster.isDraining
        nodes[node].node.tick(at: now, systemAhead: systemAhead)
        // The slots move.
        if nodes[node].node.cluster.isDraining != wasDraining { disturbedAt = time }
        if nodes[node].ticksCount % 5 == 0 { nodes[node].node.beat(at: now) }
        for gateway in nodes[node].gateways.indices { nodes[node].gateways[gateway].value.tick(at: now) }
        if nodes[node].ring != nodes[node].node.cluster.ringID {
            nodes[node].ring = nodes[node].node.cluster.ringID
            let (before, owners) = (nodes[node].owners, nodes[node].look { $0.cluster.ownerIDs(of: userIDs) })
            nodes[node].owners = owners
            ownersChanged(of: owners.indices.filter { before.isEmpty || before[$0] != owners[$0] })
        }
        Twins.follow(node, &self)
        obey(node)
        plan(.tick(node: node, run: run), after: Self.tickInterval)
    }

    /// Kills a node by SIGKILL: only the disk remains, and its host resets all connections.
    mutating func kill(_ node: Int) {
        guard nodes[node].isUp else { return }
        counts[.kills] += 1
        disturbedAt = time
        truth.killsAt.append(time)
        if nodes.count(where: \.isUp) < options.nodesCount {
            manyKilledAt = time
            cripple()
        }
        note(2, node, 0, "\(nodes[node].id) is killed")
        // Work that was left when it resumes does not count if it dies then.
        let worked = nodes[node].worked(at: time)
        nodes[node].deaths[nodes[node].run] = nodes[node].disk.isFull ? min(worked, nodes[node].filledAt) : worked
        for call in nodes[node].die(keepsGroup: random.isOnce(in: 2)) { truth.unanswered(call) }
        truth.ledger.processEnded(node)
        for client in clients.indices where clients[client].stream?.node == node {
            guard let stream = clients[client].stream else { continue }
            // The node may not have reported a session whose client has not received everything. Such knowledge dies with the node. So do
            // rows that the only node has not written yet.
            let isKnown = clients[client].isSynced && (nodes.count > 1 || !isUnwritten(stream, of: clients[client].user))
            lostSession(of: client, stream, tolerance: isKnown ? graceAfterDeath : nil)
            plan(.streamEnded(client: client, attempt: clients[client].attempt), after: random.microseconds(100...5_000))
        }
        let (owners, id) = (nodes[node].owners, nodes[node].id)
        ownersChanged(of: owners.indices.filter { owners[$0] == id })
        for other in nodes.indices where other != node {
            dropOwnLink(link(node, other))
            let incoming = link(other, node)
            if links[incoming].state != .idle { breakLink(incoming) }
        }
    }

    /// Records that a node uses another ring or is gone, so that these users have other owners now or soon.
    private mutating func ownersChanged(of users: [Int]) {
        let settings = options.settings
        truth.ownersChanged(
            of: users, grace: max(settings.offlineGrace, settings.movingGrace).wholeNanoseconds,
            reconnectGrace: settings.reconnectGrace.wholeNanoseconds, at: time)
    }

    /// Records that several nodes are down at once.
    private mutating func cripple() {
        crippledAt = time
        for user in truth.oracles.indices { truth.oracles[user].doubt() }
    }

    /// Records a write of OFFLINE, which ends the custom status (T11).
    ///
    /// A node that reaches none of the others does not count: on their side the user may have been online, and a change on one disk alone
    /// is not durable. A node that met another one and lost it in the same turn was not cut off when it decided.
    private mutating func noteOffline(_ rows: [Row], by node: Int, in turn: [Node.Effect]) {
        lazy var hasMet = turn.contains { if case .membership(_, let isAlive) = $0 { isAlive } else { false } }
        for row in rows where row.kind == .status && row.endsCustomStatus(ifUnlogined: truth.policy.hasNeededSession) {
            if nodes.count > 1, !options.faults.contains(.drains), nodes[node].look({ $0.cluster.isAlone }), !hasMet { return }
            guard let user = userIndex(row.user.id) else { continue }
            truth.presences[user].offlineVersion = max(truth.presences[user].offlineVersion, row.version)
        }
    }

    /// Whether the only node has not written yet that a user is online whom its disk has as OFFLINE.
    private func isUnwritten(_ stream: SimulatedClient.Stream, of user: Int) -> Bool {
        let disk = nodes[stream.node].disk
        // The slowest disk takes less.
        guard disk.isFull || time - stream.openedAt < .milliseconds(5_000) else { return false }
        let row = disk.rows[SimulatedDisk.Key(userID(user))]
        return row?.endsCustomStatus(ifUnlogined: false) == true
    }

    /// Drops a link whose own process is gone.
    mutating func dropOwnLink(_ index: Int) {
        links[index].attempt += 1
        links[index].state = .idle
        links[index].isPeer = false
        links[index].failuresCount = 0
    }

    /// Whether a node is the only one and its disk is full. An operator makes room before ending it.
    func isFullAndAlone(_ node: Int) -> Bool { nodes[node].disk.isFull && nodes.count(where: \.isUp) == 1 }

    mutating func drain(_ node: Int, downMilliseconds: Int) {
        guard nodes[node].isUp, !nodes[node].isLeaving else { return }
        counts[.drains] += 1
        let now = nodes[node].now(time)
        let hasOthers = nodes[node].node.drain(at: now)
        note(3, node, 0, "\(nodes[node].id) drains")
        nodes[node].isLeaving = true
        if hasOthers {
            for gateway in nodes[node].gateways.indices {
                nodes[node].gateways[gateway].value.hintReconnect(reason: "draining", spread: .milliseconds(600))
            }
        }
        obey(node)
        nodes[node].leaving = (time + .milliseconds(6_000), downMilliseconds)
        plan(.leave(node: node, run: nodes[node].run), after: .milliseconds(1_500))
    }

    private mutating func leave(_ node: Int, _ run: Int) {
        guard isRunning(node, run) else { return }
        if isFullAndAlone(node) || (!nodes[node].look({ $0.cluster.isHandedOver }) && time < nodes[node].leaving.deadline) {
            return plan(.leave(node: node, run: run), after: .milliseconds(50))
        }
        note(4, node, 0, "\(nodes[node].id) leaves")
        nodes[node].node.leave(at: nodes[node].now(time))
        obey(node)
        // A process ends when its last messages were taken (`Links.whenSent`). Without network faults that is certain.
        guard options.kind == .nodesLeaveUntilOne else { return end(node, run) }
        plan(.end(node: node, run: run), after: .milliseconds(20))
    }

    private mutating func end(_ node: Int, _ run: Int) {
        guard isRunning(node, run) else { return }
        kill(node)
        nodes[node].hasLeft = options.kind == .nodesLeaveUntilOne
        // The first node to start may not know what the others have taken with them, and waits for nobody. Its "all" then covers less.
        if !nodes.contains(where: \.isUp) { for user in truth.subscriptions.indices { truth.subscriptions[user].doubt() } }
        plan(.start(node: node), after: .milliseconds(isHealed ? 100 : nodes[node].leaving.downMilliseconds))
    }

    // MARK: Links

    /// Tries to connect, if the link is idle.
    mutating func attempt(_ index: Int) {
        guard links[index].state == .idle, links[index].from != links[index].to else { return }
        links[index].state = .connecting
        links[index].attempt += 1
        links[index].tried = links[index].expected
        links[index].lastSignOfLifeAt = time
        plan(.connect(link: index, attempt: links[index].attempt), after: 3 * links[index].latency(at: time))
        plan(.silent(link: index, attempt: links[index].attempt), after: SimulatedLink.connectTimeout)
    }

    private func isReachable(_ index: Int) -> Bool {
        let back = link(links[index].to, links[index].from)
        let isStill = nodes[links[index].to].isUp && time < nodes[links[index].to].pausedUntil
        return !isStill && !links[index].isBlocked(at: time) && !links[back].isBlocked(at: time)
    }

    private mutating func connect(_ index: Int, _ attempt: Int) {
        let (from, to) = (links[index].from, links[index].to)
        guard links[index].attempt == attempt, nodes[from].isUp, isReachable(index) else { return }  // Silence: it times out.
        links[index].refusal = nil
        guard nodes[to].isUp else { return plan(.refused(link: index, attempt: attempt), after: links[index].latency(at: time)) }
        let (here, there) = (nodes[from].now(time), nodes[to].now(time))
        let hello = nodes[from].look { $0.greeting(at: here) }
        let answer = nodes[to].look { $0.cluster.hello(at: there) }
        note(.hello, from, to) { $0.hello(hello) }
        note(.hello, to, from) { $0.hello(answer) }
        links[index].refusal =
            nodes[to].look { $0.refusal(of: hello, at: there) } ?? nodes[from].look { $0.refusal(of: answer, at: here) }
        if links[index].refusal != nil {
            return plan(.refused(link: index, attempt: attempt), after: links[index].latency(at: time))
        }
        links[index].lastArrival = time
        links[index].lastAnswer = time
        links[index].connection = hello.connection
        nodes[to].node.greeted(by: hello, at: nodes[to].now(time))
        note(5, from, to, "\(nodes[from].id) greets \(nodes[to].id)")
        plan(.linked(link: index, attempt: attempt, hello: answer), after: links[index].latency(at: time))
        obey(to)
    }

    private mutating func linked(_ index: Int, _ attempt: Int, _ hello: Hello) {
        let from = links[index].from
        guard links[index].attempt == attempt, links[index].state == .connecting, nodes[from].isUp else { return }
        links[index].open(to: hello.sender)
        Twins.accepted(from, &self)
        note(6, from, links[index].to, "\(nodes[from].id) is linked to \(nodes[links[index].to].id)")
        nodes[from].node.linked(to: hello, at: nodes[from].now(time))
        obey(from)
    }

    /// Breaks the connection of a link at once. Its caller learns of it a moment later.
    mutating func breakLink(_ index: Int) {
        guard links[index].state != .idle else { return }
        counts[.resets] += 1
        plan(.broken(link: index, attempt: links[index].attempt), after: links[index].latency(at: time))
    }

    private mutating func silent(_ index: Int, _ attempt: Int) {
        guard links[index].attempt == attempt else { return }
        if links[index].state == .connecting { return failed(index, attempt, .silent) }
        guard links[index].state == .live, links[index].inFlightCount > 0 else { return links[index].watched = nil }
        let deadline = links[index].lastSignOfLifeAt + SimulatedLink.silenceMax
        if time < deadline { return plan(.silent(link: index, attempt: attempt), at: deadline) }
        failed(index, attempt, .silent)
    }

    private mutating func failed(_ index: Int, _ attempt: Int, _ why: Membership.LinkLoss) {
        let from = links[index].from
        guard links[index].attempt == attempt, links[index].state != .idle, nodes[from].isUp else { return }
        let wasLive = links[index].state == .live
        links[index].state = .idle
        links[index].attempt += 1
        note(7, from, links[index].to, "the link from \(nodes[from].id) to \(nodes[links[index].to].id) is \(why)")
        if links[index].isPeer {
            links[index].isPeer = wasLive
            nodes[from].node.unlinked(from: nodes[links[index].to].id, evidence: why, at: nodes[from].now(time))
            obey(from)
        } else if case .refused = why, let tried = links[index].tried {
            nodes[from].node.refused(by: tried, at: nodes[from].now(time))
            obey(from)
        }
        // A process that has started meanwhile was not asked.
        if wasLive || links[index].tried != links[index].expected { return self.attempt(index) }
        links[index].failuresCount += 1
        recordFirstNode(of: from)
        let ceiling = min(100 << min(links[index].failuresCount, 5), 1_000)
        plan(.retry(link: index, attempt: links[index].attempt), after: .milliseconds(random.number(in: 20...ceiling)))
    }

    private mutating func arrive(_ index: Int, _ attempt: Int, _ run: Int, _ connection: ConnectionID, _ batch: [UInt8]) {
        let (from, to) = (links[index].from, links[index].to)
        guard isRunning(to, run) else { return }
        let isCurrent = links[index].attempt == attempt
        // A message that was on its way when a connection broke is lost, or arrives after the next connection's hello.
        guard isCurrent || StableHash.mix(UInt64(attempt), options.seed) % 2 == 0 else { return }
        counts[.batches] += 1
        if let problem = MachineFaultChecks.problem(with: batch, on: index, &self) { violate(.boundsHold, problem) }
        var isTaken = true
        do {
            isTaken = try batch.withUnsafeBytes { bytes in
                try nodes[to].node.receive(batch: bytes, from: nodes[from].id, on: connection, at: nodes[to].now(time))
            }
        } catch { violate(.messagesAreReadable, "a batch from \(nodes[from].id) to \(nodes[to].id): \(error)") }
        note(
            8, index, batch.count,
            "\(nodes[to].id) takes \(batch.count) bytes from \(nodes[from].id)\(isCurrent ? "" : isTaken ? ", late" : ", void")\(Message.words(of: batch))"
        )
        if isCurrent, Twins.isTaken(isTaken, index, &self) {
            recordLogouts(in: batch, to: to)
            let answerAt = links[index].answer(at: time, blockedUntil: links[link(to, from)].blockedUntil)
            plan(.acknowledge(link: index, attempt: attempt), at: answerAt)
        }
        obey(to)
    }

    private mutating func acknowledge(_ index: Int, _ attempt: Int) {
        let (from, to) = (links[index].from, links[index].to)
        guard links[index].attempt == attempt, links[index].state == .live, nodes[from].isUp else { return }
        links[index].inFlightCount -= 1
        links[index].lastSignOfLifeAt = time
        let now = nodes[from].now(time)
        if let peer = nodes[from].peerIndex(nodes[to].id) { nodes[from].node.acknowledged(by: peer, at: now) }
        obey(from)
    }

    private mutating func transmit(from: Int, to peer: PeerIndex) {
        let id = nodes[from].peerID(peer)
        guard let target = Twins.host(of: id, linkedFrom: from, self) else { return }
        let index = link(from, target)
        guard links[index].state == .live else { return }
        let now = nodes[from].now(time)
        RestChecks.checkQueue(from: from, to: peer, self)
        while let batch = nodes[from].node.nextBatch(for: peer, at: now) {
            note(.batch, from, target, batch)
            if links[index].inFlightCount == 0 {
                links[index].lastSignOfLifeAt = time
                if links[index].watched != links[index].attempt {
                    links[index].watched = links[index].attempt
                    plan(.silent(link: index, attempt: links[index].attempt), after: SimulatedLink.silenceMax)
                }
            }
            links[index].inFlightCount += 1
            let arrival = links[index].arrival(at: time)
            let (attempt, run, connection) = (links[index].attempt, nodes[target].run, links[index].connection)
            plan(.arrive(link: index, attempt: attempt, run: run, connection: connection, batch: batch), at: arrival)
        }
    }

    // MARK: Disk

    mutating func beginCommit(_ node: Int) {
        guard nodes[node].isUp, nodes[node].disk.begin() else { return }
        let duration = nodes[node].disk.isSlow ? random.microseconds(50_000...900_000) : random.microseconds(300...4_500)
        plan(.commit(node: node, run: nodes[node].run), after: duration)
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
            plan(.fromGateway(node: node, run: nodes[node].run, gateway: gateway, messages), after: 50_000)
        case .toGateway(let gateway, let messages):
            plan(.toGateway(node: node, run: nodes[node].run, gateway: gateway, messages), after: 50_000)
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
            note(.event, node, client, output.payloads[Int(push.payload)])
            self.push(output.payloads[Int(push.payload)], to: client)
        }
        for session in output.ended + output.cutOff {
            if SessionChecks.endHalfOpen(session, of: node, at: gateway, output, &self) { continue }
            guard let client = nodes[node].client(of: session, at: gateway) else { continue }
            let farewell = output.ended.contains(session) ? PolicyChecks.checkFarewell(of: session, by: client, in: output, self) : nil
            endStream(of: client, isKicked: farewell == "onKickedOffline")
        }
    }

    private mutating func carryOut(_ effect: Node.Effect, of node: Int, in turn: [Node.Effect]) {
        switch effect {
        case .send, .deliver: preconditionFailure("messages to gateways stay in the process, and no app has a webhook")
        case .answer(_, let token, let answer): answered(node, token, answer)
        case .persist(let rows, _, let isUrgent):
            for row in rows { note(.row, node, isUrgent ? 1 : 0) { $0.row(row) } }
            noteOffline(rows, by: node, in: turn)
            if truth.chain.isUsed { ChainChecks.check(rows, by: node, self) }
            if let problem = MachineFaultChecks.problem(of: rows, by: node, self) { violate(.versionsAreInTime, problem) }
            if options.kind == .awayUsersAreRemoved { RemovalChecks.checkRemoval(in: rows, by: node, self) }
        case .deleteSlots(let slots):
            note(9, node, slots.count, "\(nodes[node].id) discards what has moved away, \(slots.count) slots")
            note(.deletedSlots, node, slots.count) { writer in writer.list(slots) { $0.unsigned(UInt64($1)) } }
        case .deleteRows(let rows):
            for row in rows { note(.deletedRow, node, 0) { $0.row(row) } }
            RemovalChecks.countForgotten(rows, by: node, &self)
        case .connect(let peer):
            Twins.giveUpLinks(of: node, to: peer, &self)
            guard let target = nodeIndex(peer.address), target != node else { return }
            links[link(node, target)].expect(peer)
            attempt(link(node, target))
        case .transmit(let peer): transmit(from: node, to: peer)
        case .computeRing(let members):
            plan(.ringComputed(node: node, run: nodes[node].run, members), after: random.microseconds(500...40_000))
        case .followSystemClock: nodes[node].adoptSystemClock()
        case .superseded(let card): Twins.end(node, .superseded(by: card), &self)
        case .membership(let id, let isAlive):
            if isAlive { for member in nodes where member.id == id { (nodes[node].metAt, member.metAt) = (time, time) } }
            note(9, node, isAlive ? 1 : 0, "\(nodes[node].id): \(id) is \(isAlive ? "alive" : "gone")")
        }
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
