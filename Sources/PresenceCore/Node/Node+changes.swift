import PresenceWire

/// Changes of links, of members and of the ring: each machine takes its part, in order.
extension Node {
    // MARK: Links

    /// The first message of this node on a connection that it has opened.
    public mutating func greeting(at now: Now) -> Hello { cluster.greeting(at: now) }

    /// The reason to refuse the node of a `hello`; nil if it is accepted.
    public func refusal(of hello: Hello, at now: Now) -> String? { cluster.refusal(of: hello, driftMax: owner.clock.driftMax, at: now) }

    /// Handles a node's hello on its link to this node. Its earlier links are void.
    ///
    /// A restarted node has lost all that it had received. It asks for it again once it can answer (``PresenceWire/Message/requestSync``).
    public mutating func greeted(by hello: Hello, at now: Now) {
        guard hello.sender.id != cluster.own.id else { return }
        let peer = index(of: hello.sender, at: now)
        guard cluster.links.accept(hello.connection, from: peer) else { return }
        meet(hello, at: now)
        run(at: now)
    }

    /// Records that the link to a node is up, after its `hello`. Both sides send one another everything again.
    public mutating func linked(to hello: Hello, at now: Now) {
        guard hello.sender.id != cluster.own.id else { return }
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
        run(at: now)
    }

    /// Records that the link to a node is down. Its queue is void.
    public mutating func unlinked(from id: NodeID, evidence: Membership.LinkLoss, at now: Now) {
        guard let peer = cluster.peers.index(of: id) else { return }
        cluster.links.close(to: peer)
        edge.reset(peer)
        cluster.membership.unlinked(id, evidence: evidence, at: now)
        followMembership(at: now)
        run(at: now)
    }

    /// Records that the address of an unlinked node refuses connections. `card` is the process known when the attempt started.
    public mutating func refused(by card: Peer, at now: Now) {
        // A link that is up leads to another address, which counts.
        guard let peer = cluster.peers.index(of: card.id), !cluster.links.isUp(peer) else { return }
        cluster.membership.unlinked(card.id, evidence: .refused(generation: card.generation), at: now)
        followMembership(at: now)
        run(at: now)
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

    /// Repairs a link whose full queue was dropped. Both sides send everything again, once there is room.
    mutating func resyncOverflown(at now: Now) {
        for peer in cluster.peers.others
        where cluster.links.isUp(peer) && cluster.links[peer].hasOverflowed && cluster.links[peer].hasRoom {
            cluster.links[peer].clearOverflow()
            cluster.send(.requestSync, to: peer)
            cluster.send(.requestOffer, to: peer)
            resync(peer, at: now)
            SlotTransfer.renewOffers(to: peer, owner, &cluster)
        }
    }

    // MARK: Operators

    /// Marks this node as about to end. The nodes that stay take its slots; it stays a gateway.
    ///
    /// A single node drains, too. Otherwise a node that joins and drains before this node ends would give its slots back to this node, and
    /// the slots would end with it.
    ///
    /// - Returns: ``Cluster/othersStay``.
    public mutating func drain(at now: Now) -> Bool {
        if !cluster.isDraining {
            cluster.membership.drain(at: now)
            followMembership(at: now)
            membersChanged(at: now)
            run(at: now)
        }
        return cluster.othersStay
    }

    /// Leaves the cluster: this node ends on purpose, and does not count towards a majority any more.
    public mutating func leave(at now: Now) {
        cluster.membership.leave(at: now)
        followMembership(at: now)
        run(at: now)
    }

    /// The outcome of an operator's request to remove a member.
    public enum MemberRemoval: Sendable {
        /// The member is removed. The other nodes and the disks learn of it.
        case removed
        /// The node is a live member, or this node itself.
        case alive
        /// No node of that name was ever a member.
        case unknown
    }

    /// Removes a dead member that will not come back.
    ///
    /// Until then it counts towards a majority, and changes wait for a second disk even on the last node.
    public mutating func removeMember(_ id: NodeID, at now: Now) -> MemberRemoval {
        guard let peer = cluster.peers.index(of: id), peer == 0 || cluster.peers[peer].wasMember else { return .unknown }
        guard peer != 0, !cluster.peers[peer].isAlive else { return .alive }
        cluster.membership.removeMember(cluster.peers[peer].peer, at: now)
        followMembership(at: now)
        run(at: now)
        return .removed
    }

    // MARK: Members

    /// Carries out the effects of the membership.
    mutating func followMembership(at now: Now) {
        for effect in cluster.membership.takeEffects() {
            switch effect {
            case .send(let message, let id):
                if let peer = cluster.peers.index(of: id) { cluster.send(.membership(message), to: peer) }
            case .changed(let card, let state, let isDraining): follow(card, state, isDraining: isDraining, at: now)
            case .connect(let card):
                _ = index(of: card, at: now)
                effects.append(.connect(card))
            case .wasDeclaredDead: cluster.ownership.demote(.declaredDead)
            case .superseded(let card): effects.append(.superseded(by: card))
            }
        }
        membersChanged(at: now)
    }

    private mutating func follow(_ card: Peer, _ state: MemberState, isDraining: Bool, at now: Now) {
        let peer = index(of: card, at: now)
        for step in cluster.follow(card, state, isDraining: isDraining, at: peer) {
            switch step {
            case .observeAll: owner.observeAll(at: now)
            case .lose: lose(peer, at: now)
            case .greet(let isNew):
                cluster.greet(peer, isNew: isNew)
                if isNew, cluster.links.isUp(peer) { resync(peer, at: now) }
            case .store: cluster.store(peer, version: owner.clock.next(at: now.wall))
            case .announce: effects.append(.membership(card.id, isAlive: state.isLive))
            }
        }
    }

    private mutating func lose(_ peer: PeerIndex, at now: Now) {
        owner.peersDied([peer], at: now, into: &cluster.outbox)
        reports.drop(from: peer)
        cluster.ownership.lose(peer)
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
            owner.registrations[peer] = nil
        }
        owner.peersDied(Set(gone), at: now, into: &cluster.outbox)
    }

    mutating func loadMember(_ row: Row, at now: Now) throws(RowError) {
        let (card, hasLeft) = try row.member()
        guard card.id != cluster.own.id else { return }
        cluster.restore(index(of: card, at: now), hasLeft: hasLeft, version: row.version, at: now)
    }

    private mutating func membersChanged(at now: Now) {
        let (alive, staying) = cluster.peers.ringIDs(isDraining: cluster.isDraining)
        let members = staying.count == 0 ? alive : staying
        owner.isCutOff = cluster.peers.isReplicated && alive.count <= 1
        let clock = owner.clock.current(at: now.wall)
        if let output = cluster.ownership.membersChanged(to: members.id, clock: clock) { perform([output], at: now) }
    }

    // MARK: The ring

    /// Records that no contact point leads to another node, so this node is the first.
    ///
    /// If former members are missing it waits for them for a while, because they may have acknowledged changes.
    public mutating func joinedNobody(at now: Now) {
        guard cluster.ownership.acquiringCount > 0, !cluster.peers.hasAlive else { return }
        if let output = cluster.ownership.foundNobody(missingCount: cluster.peers.missedCount, at: now) { perform([output], at: now) }
        perform(SlotTransfer.advance(&cluster, at: now), at: now)
        run(at: now)
    }

    /// Receives the ring of the effect ``Effect/computeRing(_:)``. Nothing happens if the members have changed
    /// meanwhile, because another ring is on its way.
    public mutating func ringComputed(_ ring: Ring, at now: Now) {
        guard cluster.ownership.awaits(Placement.id(of: ring.members)) else { return }
        let output = SlotTransfer.ringComputed(ring, &cluster, at: now)
        perform([output], at: now)
        if case .change = output {
            perform(SlotTransfer.joinPreparation(&cluster, at: now), at: now)
        } else {
            perform(SlotTransfer.advancePreparation(&cluster, at: now), at: now)
        }
        run(at: now)
    }

    /// Changes the ring if all are prepared.
    ///
    /// It is called only between two inputs: the rows of an input go to the replicas of the ring by which it was decided.
    mutating func changePrepared(at now: Now) {
        guard cluster.ownership.ring.preparation != nil else { return }
        perform(SlotTransfer.advancePreparation(&cluster, at: now), at: now)
        run(at: now)
    }

    /// Carries out outputs of ``Ownership`` in order, each with those that follow from it.
    mutating func perform(_ outputs: [Ownership.Output], at now: Now) {
        for output in outputs {
            switch output {
            case .changed(let old, let new): placementChanged(from: old, to: new, at: now)
            case .activated(let isFirst): activated(isFirst: isFirst, at: now)
            default: perform(SlotTransfer.perform(output, &owner, &cluster, at: now), at: now)
            }
        }
    }

    /// Moves pending writes to the replicas of the new ring, and registers users whose owner has changed.
    private mutating func placementChanged(from old: Placement, to new: Placement, at now: Now) {
        for outcome in replication.replan(&cluster) { owner.carryOut(outcome, &cluster) }
        resumePostponed(at: now)
        let isMoved = { (user: UserID) in new.owner(of: user) != old.owner(of: user) }
        edge.dropMisrouted(where: isMoved)
        edge.reregister(where: isMoved, &owner, &cluster)
        calls.retry(at: now) { isMoved($0.request.user) }
    }

    private mutating func activated(isFirst: Bool, at now: Now) {
        // A dead member may have gone on after all others had left.
        if isFirst, cluster.peers.missedCount > 0 { owner.distrustPositions(at: now) }
        owner.reassign(SlotTransfer.roles(cluster), at: now, into: &cluster.outbox)
        if isFirst { owner.renewAlone(in: cluster, at: now) }
        resumePostponed(at: now)
        // Peers whose users were rejected need not wait for their next attempt.
        //
        // This message follows the rejections, which may be as recent: the last offer of this ring may have arrived before the ring.
        for peer in cluster.peers.indices { cluster.outbox.send(.misrouted([]), to: peer) }
    }

    /// Handles the waiting reports, keeps them waiting, or rejects them.
    private mutating func resumePostponed(at now: Now) {
        for (peer, message) in reports.takePostponed() { handle(message, from: peer, at: now) }
    }
}
