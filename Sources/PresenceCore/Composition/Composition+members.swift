import PresenceWire

/// Changes of links and of members.
///
/// A step that returns a boolean returns whether it has changed anything, so that outputs may wait.
extension Composition {
    // MARK: Links

    /// Handles a node's hello on its link to this node: see ``Node/greeted(by:at:)``.
    mutating func greeted(by hello: Hello, at now: Now) -> Bool {
        guard hello.sender.id != cluster.own.id else { return false }
        let peer = index(of: hello.sender, at: now)
        guard cluster.links.accept(hello.connection, from: peer) else { return false }
        meet(hello, at: now)
        return true
    }

    /// Opens the link to a node: see ``Node/linked(to:at:)``.
    mutating func linked(to hello: Hello, at now: Now) -> Bool {
        guard hello.sender.id != cluster.own.id else { return false }
        let peer = index(of: hello.sender, at: now)
        cluster.membership.reached(hello.sender.id)
        edge.reset(peer)
        cluster.links.open(to: peer)
        meet(hello, at: now)
        cluster.send(.requestSync, to: peer)
        resync(peer, at: now)
        SlotTransfer.renewOffers(to: peer, owner, &cluster)
        // Requests that were made without a link are lost.
        if !cluster.ownership.transfer.isReceived(from: peer) { cluster.send(.requestOffer, to: peer) }
        return true
    }

    /// Closes the link to a node: see ``Node/unlinked(from:evidence:at:)``.
    mutating func unlinked(from id: NodeID, evidence: Membership.LinkLoss, at now: Now) -> Bool {
        guard let peer = cluster.peers.index(of: id) else { return false }
        cluster.links.close(to: peer)
        edge.reset(peer)
        cluster.membership.unlinked(id, evidence: evidence, at: now)
        followMembership(at: now)
        return true
    }

    /// Counts the evidence against an unlinked node: see ``Node/refused(by:at:)``.
    mutating func refused(by card: Peer, at now: Now) -> Bool {
        // A live link to another address of the node proves that it lives. Then the refusal is no evidence.
        guard let peer = cluster.peers.index(of: card.id), !cluster.links.isUp(peer) else { return false }
        cluster.membership.unlinked(card.id, evidence: .refused(generation: card.generation), at: now)
        followMembership(at: now)
        return true
    }

    private mutating func meet(_ hello: Hello, at now: Now) {
        if cluster.givesWay(to: hello) { cluster.ownership.demote(.smallerSide) }
        cluster.membership.learn(hello.sender, at: now)
        for member in hello.members { cluster.membership.learn(member, at: now) }
        cluster.membership.linked(hello.sender, at: now)
        followMembership(at: now)
    }

    /// Sends a peer the facts that all nodes keep, and asks for its hashes of this node's sessions and views.
    mutating func resync(_ peer: PeerIndex, at now: Now) {
        cluster.send(facts.rows(owner), to: peer)
        edge.resync(peer, &cluster)
        calls.retry(to: peer, at: now)
    }

    /// Repairs a link whose full queue was dropped. Both sides send everything again.
    mutating func resyncOverflown(at now: Now) {
        for peer in cluster.peers.others where cluster.links.isUp(peer) && cluster.links[peer].hasOverflowed {
            cluster.links[peer].clearOverflow()
            resyncBothWays(peer, at: now)
        }
    }

    /// Repairs what two nodes have missed of each other although their links have held. Both sides send everything again.
    private mutating func resyncBothWays(_ peer: PeerIndex, at now: Now) {
        cluster.membership.resync(with: cluster.peers[peer].peer.id)
        followMembership(at: now)
        cluster.send(.requestSync, to: peer)
        cluster.send(.requestOffer, to: peer)
        resync(peer, at: now)
        SlotTransfer.renewOffers(to: peer, owner, &cluster)
    }

    // MARK: Pauses

    /// Doubts all that this node knows. Others may have declared it dead while it stood still, and users may have hidden meanwhile.
    ///
    /// Its slots are acquired again. No view is shown before its owner has answered a question that this node asks now: what waits in its
    /// sockets may be as old as what it knows.
    mutating func wake(at now: Now) {
        cluster.membership.noticeSleep(at: now)
        guard cluster.peers.hasAlive else { return }
        cluster.ownership.demote(.declaredDead)
        edge.fanOut.doubt()
        cluster.sendToGateways(.doubt)
        for peer in cluster.peers.alive { edge.resync(peer, &cluster) }
        membersChanged(at: now)
        // Queries read all records again. Answers that waited match no request any more, and calls whose time is over end.
        for peer in cluster.peers.indices { calls.onBarrier(from: peer, cluster, at: now) }
        calls.retry(at: now) { if case .records = $0.request.operation { true } else { false } }
        calls.tick(edge, owner, &cluster, at: now)
    }

    // MARK: Operators

    /// Marks this node as about to end: see ``Node/drain(at:)``.
    mutating func drain(at now: Now) -> Bool {
        guard !cluster.isLeaving else { return false }
        cluster.membership.drain(at: now)
        followMembership(at: now)
        membersChanged(at: now)
        return true
    }

    /// Leaves the cluster: see ``Node/leave(at:)``.
    mutating func leave(at now: Now) {
        cluster.membership.leave(at: now)
        followMembership(at: now)
    }

    /// Removes a dead member that will not come back: see ``Node/removeMember(_:at:)``.
    mutating func removeMember(_ id: NodeID, at now: Now) -> Cluster.MemberRemoval {
        let removal = cluster.removeMember(id, at: now)
        if removal == .removed { followMembership(at: now) }
        return removal
    }

    // MARK: Faults of this machine

    /// Gives the slots away while the clock is wrong or the disk cannot write, and takes some back afterwards.
    ///
    /// - Parameter systemAhead: how far the system clock is ahead (``SteadyClock/follow(_:)``).
    mutating func followFaults(systemAhead: Milliseconds, at now: Now) {
        let step = cluster.clockCheck.tick(
            systemAhead: systemAhead, others: cluster.peers.alive, isOnly: !cluster.peers.isReplicated, driftMax: owner.clock.driftMax,
            at: now)
        switch step {
        case .ask: for peer in cluster.peers.alive { sendClocks(to: peer, wantsAnswer: true, at: now) }
        case .adopt:
            cluster.outbox.effects.append(.followSystemClock)
            // With the clock before, this node has refused versions of the others, or they have refused its own.
            for peer in cluster.peers.alive where cluster.links.isUp(peer) { resyncBothWays(peer, at: now) }
        case nil: break
        }
        cluster.membership.setImpaired(cluster.clockCheck.givesSlotsAway || replication.disk.givesSlotsAway, at: now)
    }

    /// Sends a peer this node's clocks.
    mutating func sendClocks(to peer: PeerIndex, wantsAnswer: Bool, at now: Now) {
        cluster.send(.clocks(now.wall, system: now.wall + cluster.clockCheck.systemAhead, wantsAnswer: wantsAnswer), to: peer)
    }

    /// Reports to a peer that this node has refused its versions, and asks for its clocks.
    mutating func reportRefusal(to peer: PeerIndex, at now: Now) {
        if cluster.clockCheck.reportsRefusal(to: peer, at: now) { sendClocks(to: peer, wantsAnswer: true, at: now) }
    }

    /// Handles the clocks of another node.
    mutating func onClocks(_ clock: Milliseconds, system: Milliseconds, wantsAnswer: Bool, from peer: PeerIndex, at now: Now) {
        cluster.clockCheck.onClock(clock, system: system, from: peer, at: now)
        if wantsAnswer { sendClocks(to: peer, wantsAnswer: false, at: now) }
    }

    // MARK: Members

    /// Handles a message about members.
    mutating func onMembership(_ message: MembershipMessage, from peer: PeerIndex, at now: Now) {
        cluster.membership.receive(message, from: cluster.peers[peer].peer.id, at: now)
        followMembership(at: now)
    }

    /// Carries out the effects of the membership.
    mutating func followMembership(at now: Now) {
        for effect in cluster.membership.takeEffects() {
            switch effect {
            case .send(let message, let id):
                if let peer = cluster.peers.index(of: id) { cluster.send(.membership(message), to: peer) }
            case .changed(let card, let state, let role): follow(card, state, role, at: now)
            case .connect(let card):
                _ = index(of: card, at: now)
                cluster.outbox.effects.append(.connect(card))
            case .wasDeclaredDead: cluster.ownership.demote(.declaredDead)
            case .superseded(let card): cluster.outbox.effects.append(.superseded(by: card))
            }
        }
        membersChanged(at: now)
    }

    private mutating func follow(_ card: Peer, _ state: MemberState, _ role: MemberRole, at now: Now) {
        let peer = index(of: card, at: now)
        for step in cluster.follow(card, state, role, at: peer) {
            switch step {
            case .observeAll: owner.observeAll(at: now)
            case .lose: lose(peer, at: now)
            case .greet(let isNew):
                cluster.greet(peer, isNew: isNew)
                if isNew, cluster.links.isUp(peer) { resync(peer, at: now) }
            case .offerAgain: if cluster.links.isUp(peer) { SlotTransfer.renewOffers(to: peer, owner, &cluster) }
            case .store: cluster.store(peer, version: owner.nextVersion(at: now))
            case .announce: cluster.outbox.effects.append(.membership(card.id, isAlive: state.isLive))
            }
        }
        cluster.followReach()
    }

    private mutating func lose(_ peer: PeerIndex, at now: Now) {
        owner.peersDied([peer], in: &cluster.outbox[at: now])
        reports.drop(from: peer)
        cluster.ownership.lose(peer)
        cluster.clockCheck.lose(peer)
        SlotTransfer.requestFromAll(owner, &cluster)
        edge.relays.lose(peer)
        calls.retry(to: peer, at: now)
    }

    private mutating func index(of card: Peer, at now: Now) -> PeerIndex {
        if let peer = cluster.peers.index(of: card.id) { return peer }
        if let peer = cluster.peerToReplace() { remove([peer], at: now) }
        let peer = cluster.insert(card, rowVersion: owner.clock.current(at: now.wall)).index
        edge.add(peer)
        return peer
    }

    mutating func remove(_ gone: [PeerIndex], at now: Now) {
        guard !gone.isEmpty else { return }
        for peer in gone {
            cluster.remove(peer)
            edge.add(peer)
            reports.drop(from: peer)
            owner.removeRegistration(of: peer)
        }
        owner.peersDied(Set(gone), in: &cluster.outbox[at: now])
    }

    mutating func loadMember(_ row: Row, at now: Now) throws(RowError) {
        let (card, hasLeft) = try row.member()
        guard card.id != cluster.own.id else { return }
        cluster.restore(index(of: card, at: now), hasLeft: hasLeft, version: row.version, at: now)
    }

    private mutating func membersChanged(at now: Now) {
        let (alive, staying) = cluster.peers.ringIDs(isDraining: cluster.isDraining)
        let members = staying.count == 0 ? alive : staying
        owner.contactChanged(isCutOff: cluster.peers.isReplicated && alive.count <= 1)
        let clock = owner.clock.current(at: now.wall)
        if let output = cluster.ownership.membersChanged(to: members.id, clock: clock) { perform([output], at: now) }
    }
}
