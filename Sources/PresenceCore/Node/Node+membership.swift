import PresenceWire

/// Who is in the cluster: what ``Membership`` says, obeyed. Every change gives a new ring, and whatever has a new owner is told to it
/// (design §5).
extension Node {
    /// The first message of this node on a connection that it has opened.
    public mutating func greeting(at now: Now) -> Hello {
        connectionsCount += 1
        var hello = hello(at: now)
        hello.number = connectionsCount
        return hello
    }

    /// The answer of this node to the hello of another one.
    public func hello(at now: Now) -> Hello {
        Hello(cluster: cluster, sender: selfPeer, members: peers.lazy.filter(\.isAlive).map(\.peer), wall: now.wall)
    }

    /// Why a node that says `hello` is refused; nil when it is welcome.
    ///
    /// One whose clock is further ahead than versions may be (design §4) would own users whose records nobody believes, and one whose
    /// clock is behind would believe nobody.
    public func refusal(of hello: Hello, at now: Now) -> String? {
        if hello.protocolVersion != Hello.protocolVersion {
            return
                "protocol version \(hello.protocolVersion) differs from \(Hello.protocolVersion); run one version of Rollcall on all nodes"
        }
        if hello.cluster != cluster {
            return "cluster name \"\(hello.cluster)\" differs from \"\(cluster)\"; configure one name on all nodes"
        }
        if hello.sender.id == selfPeer.id, hello.sender.generation != selfPeer.generation {
            return "node ID \"\(selfPeer.id)\" is in use by another process; configure a node ID of its own for each node"
        }
        let (ahead, most) = (hello.wall / 1_000 - now.wall / 1_000, owners.clock.driftMax.wholeMilliseconds / 1_000)  // Seconds.
        if ahead.magnitude > most.magnitude {
            return
                "clock skew is \(ahead.magnitude) s (\"\(hello.sender.id)\" is \(ahead < 0 ? "behind" : "ahead of") \"\(selfPeer.id)\"), "
                + "at most \(most) s is allowed; synchronize the clocks (NTP)"
        }
        return nil
    }

    /// A node has introduced itself on its link to this one, and its earlier links are void.
    ///
    /// A restarted node has lost all that it was told. It asks for it again once it can answer (``PresenceWire/Message/requestSync``).
    public mutating func greeted(by hello: Hello, at now: Now) {
        guard hello.sender.id != selfPeer.id else { return }
        let peer = index(of: hello.sender, at: now)
        guard hello.connection > peers[peer].connection else { return }
        peers[peer].connection = hello.connection
        meet(hello, at: now)
        run(at: now)
    }

    /// The link to a node is up, and the node said `hello` on it. Both sides tell one another everything anew.
    public mutating func linked(to hello: Hello, at now: Now) {
        guard hello.sender.id != selfPeer.id else { return }
        let peer = index(of: hello.sender, at: now)
        membership.reached(hello.sender.id)
        peers[peer].link.reset()
        peers[peer].registrations.reset()
        peers[peer].relays.forgetNames()
        peers[peer].isTransmitting = false
        peers[peer].isLinked = true
        meet(hello, at: now)
        send(.requestSync, to: peer)
        resync(peer, at: now)
        renewOffers(to: peer)
        // What was asked while there was no link is lost.
        if !ownership.transfer.isReceived(from: peer) { send(.requestOffer, to: peer) }
        run(at: now)
    }

    /// The link to a node is down; what waited for it is void.
    public mutating func unlinked(from id: NodeID, evidence: Membership.LinkLoss, at now: Now) {
        guard let peer = peerIndices[id] else { return }
        peers[peer].isLinked = false
        peers[peer].link.reset()
        peers[peer].registrations.reset()
        peers[peer].relays.forgetNames()
        membership.unlinked(id, evidence: evidence, at: now)
        followMembership(at: now)
        run(at: now)
    }

    /// Nothing listens at the address of a node to which there was no link; `card` is what was known of it when the attempt began.
    public mutating func refused(by card: Peer, at now: Now) {
        // A link that is up leads to another address: that one counts.
        guard let peer = peerIndices[card.id], !peers[peer].isLinked else { return }
        membership.unlinked(card.id, evidence: .refused(generation: card.generation), at: now)
        followMembership(at: now)
        run(at: now)
    }

    /// Whether a node is a member, as far as this one knows.
    public func isMember(_ id: NodeID) -> Bool { peerIndices[id].map { peers[$0].isAlive } ?? false }

    /// Whether a node has said that it ends, so that nobody misses it.
    public func hasLeft(_ id: NodeID) -> Bool { peerIndices[id].map { peers[$0].hasLeft } ?? false }

    /// Whether a process that was a member has said that it ends, and none that was started later has been one since.
    public func hasEnded(_ process: Peer) -> Bool {
        guard let peer = peerIndices[process.id] else { return false }
        return peers[peer].wasMember && peers[peer].hasLeft && process.generation <= peers[peer].peer.generation
    }

    private mutating func meet(_ hello: Hello, at now: Now) {
        if givesWay(to: hello) { ownership.demote(.smallerSide) }
        membership.learn(hello.sender, at: now)
        for member in hello.members { membership.learn(member, at: now) }
        membership.linked(hello.sender, at: now)
        followMembership(at: now)
    }

    /// Whether another node is alive and does not drain: it can take this node's slots and clients.
    public var othersStay: Bool { peers.dropFirst().contains { $0.isAlive && !$0.isDraining } }

    /// Marks this node as about to end: the nodes that stay take its slots; it stays a gateway.
    ///
    /// A node that is alone drains, too. Otherwise a node that joins and drains before this one ends gives its slots back to this one,
    /// and nobody has what this one takes with it.
    ///
    /// - Returns: ``othersStay``.
    public mutating func drain(at now: Now) -> Bool {
        if !isDraining {
            membership.drain(at: now)
            followMembership(at: now)
            membersChanged(at: now)
            run(at: now)
        }
        return othersStay
    }

    /// The last word: this node is not to be missed.
    public mutating func leave(at now: Now) {
        membership.leave(at: now)
        followMembership(at: now)
        run(at: now)
    }

    /// What a node knows of one that an operator wants forgotten.
    public enum Forgetting: Sendable {
        /// It is missed no longer; the others and the disks are told.
        case forgotten
        /// It is a member, or this node itself.
        case alive
        /// Nobody of that name was ever a member.
        case unknown
    }

    /// An operator says that a member that is dead will not come back. While it is missed, changes wait for a second disk even on the last
    /// node, and it counts when a majority is asked for.
    public mutating func forget(_ id: NodeID, at now: Now) -> Forgetting {
        guard let peer = peerIndices[id], peer == 0 || peers[peer].wasMember else { return .unknown }
        guard peer != 0, !peers[peer].isAlive else { return .alive }
        membership.forget(peers[peer].peer, at: now)
        followMembership(at: now)
        run(at: now)
        return .forgotten
    }

    // MARK: Obeying

    /// Carries out what the membership wants.
    mutating func followMembership(at now: Now) {
        for effect in membership.takeEffects() {
            switch effect {
            case .send(let message, let id): if let peer = peerIndices[id] { send(.membership(message), to: peer) }
            case .changed(let card, let state, let isDraining): follow(card, state, isDraining: isDraining, at: now)
            case .connect(let card):
                _ = index(of: card, at: now)
                effects.append(.connect(card))
            case .wasMissed: ownership.demote(.declaredDead)
            case .superseded(let card): effects.append(.superseded(by: card))
            }
        }
        membersChanged(at: now)
    }

    private mutating func follow(_ card: Peer, _ state: MemberState, isDraining: Bool, at now: Now) {
        let peer = index(of: card, at: now)
        let wasAlive = peers[peer].isAlive
        let wasRestarted = wasAlive && card.generation > peers[peer].peer.generation
        // It went on meanwhile, on another side.
        let comesBack = state.isLive && !wasAlive && peers[peer].wasMember && card.generation == peers[peer].peer.generation
        // Restarted or not, it may have decided on another side.
        let wasMissed = state.isLive && peers[peer].wasMember && peers[peer].state == .dead
        let isOvertaken = (comesBack || wasMissed) && peers.isMinority
        // It may have told clients up to when it knew of all, without what was asked of this side: also where it began anew on another one
        // before it was missed here, or after it had left (seed 3035605).
        if state.isLive, peers[peer].wasMember, !wasAlive || wasRestarted { owners.relearn(at: now) }
        // Where this node was alone, others that had left may have gone on together: nothing is complete before they are heard, also where the
        // ring stays the same, because they drain (seed 7014622).
        if state.isLive, !wasAlive, peers[peer].wasMember, !peers.hasAlive { ownership.metWhileAlone() }
        // Whatever way it heals: links may have held, and a node that refuted a suspicion never hears that it was taken for dead.
        if isOvertaken { ownership.demote(.smallerSide) }
        if comesBack || wasMissed || (wasAlive && (wasRestarted || !state.isLive) && ownership.isMember(peer)) {
            ownership.demote(.abruptChange)
        }
        peers[peer].peer = card
        peers[peer].state = state
        peers[peer].isDraining = isDraining
        if wasAlive, wasRestarted || !state.isLive {
            owners.peersLost([peer], at: now, into: &outbox)
            waiting.drop(from: peer)
            ownership.lose(peer)
            for other in peers.indices.dropFirst() { request(from: other) }
            peers[peer].knownUpTo = 0
            peers[peer].relays = Relays()
            retryRequests(at: now) { $0.peer == peer }
        }
        if state.isLive {
            peers[peer].wasMember = true
            if !peers[peer].isLinked { effects.append(.connect(card)) }
            // It may never have missed us: then it does not know that what it said here is void, and what was said to it before may be read
            // late, by links that hold: a session that ended meanwhile would begin there. Kicks and policies went on without it, too.
            if !wasAlive {
                send(.requestSync, to: peer)
                send(.requestOffer, to: peer)
                if peers[peer].isLinked { resync(peer, at: now) }
            }
        }
        // Suspicions come and go; who is missed, and who is not, must be known after a restart too.
        if state != .suspect, wasRestarted || wasAlive != state.isLive || state == .left { note(peer, at: now) }
        if wasAlive != state.isLive { effects.append(.membership(card.id, isAlive: state.isLive)) }
    }

    /// Has a member written down: after a restart this node knows whom it misses, and where it may be.
    private mutating func note(_ peer: PeerIndex, at now: Now) {
        peers[peer].noted = owners.clock.next(at: now.wall)
        outbox.rows.append(Row(member: peers[peer].peer, hasLeft: peers[peer].hasLeft, version: peers[peer].noted))
    }

    /// Takes a member back that this node wrote down before it was restarted.
    mutating func remember(_ row: Row, at now: Now) throws(RowError) {
        let (card, hasLeft) = try row.member()
        guard card.id != selfPeer.id else { return }
        let peer = index(of: card, at: now)
        peers[peer].noted = row.version
        peers[peer].wasMember = true
        peers[peer].state = hasLeft ? .left : .dead
        if !hasLeft { membership.learn(card, at: now) }
    }

    /// The place of a node, which may be new.
    private mutating func index(of card: Peer, at now: Now) -> PeerIndex {
        if let peer = peerIndices[card.id] { return peer }
        makeRoomForPeer(at: now)
        let state = PeerState(
            peer: card, link: Link(messagesMax: settings.linkMessagesMax), noted: owners.clock.current(at: now.wall))
        let peer = vacantPeers.popLast() ?? peers.count
        if peer == peers.count { peers.append(state) } else { peers[peer] = state }
        peerIndices[card.id] = peer
        peerNumbers[card.versionNode] = peer
        return peer
    }

    /// If the ring is another one: who is new to a slot asks the others what they hold, and what we host is registered where it belongs.
    private mutating func membersChanged(at now: Now) {
        let (alive, staying) = peers.ringIDs(isDraining: isDraining)
        let (isReplicated, members) = (peers.isReplicated, staying.count == 0 ? alive : staying)
        owners.isCutOff = isReplicated && alive.count <= 1
        let clock = owners.clock.current(at: now.wall)
        if let output = ownership.membersChanged(to: members.id, clock: clock) { perform(output, at: now) }
    }

    /// Those who are to hold slots. When all are about to end they go on together: each for itself would take the same users, and write to
    /// one disk.
    var ringMembers: [Ring.Member] {
        let alive = peers.indices.filter { $0 == 0 || peers[$0].isAlive }
        let staying = alive.filter { $0 == 0 ? !isDraining : !peers[$0].isDraining }
        return (staying.isEmpty ? alive : staying).map { Ring.Member(id: peers[$0].peer.id, weight: Int(peers[$0].peer.weight)) }
    }

    /// Whether `hello` comes from another side of a split, and a larger one: then what this side has decided about gives way. Of two equal
    /// ones that with the smallest node ID stays. A node that has just begun is a side of its own.
    private func givesWay(to hello: Hello) -> Bool {
        guard !isMember(hello.sender.id), !hello.members.contains(where: { $0.id == selfPeer.id }) else { return false }
        let own = peers.filter(\.isAlive).map(\.peer.id)
        guard own.count == hello.members.count else { return own.count < hello.members.count }
        return own.min() ?? selfPeer.id > hello.members.map(\.id).min() ?? hello.sender.id
    }

    /// An owner says that it does not decide: its ring or ours is about to change, or it has not heard yet what others hold. With nobody
    /// named, it decides now about all that it owns.
    mutating func onMisrouted(_ users: [UserID], from peer: PeerIndex, at now: Now) {
        if users.isEmpty { return retryMisrouted(by: peer, at: now) }
        // Of whom this node thinks that another one decides, that one was told when the ring changed here.
        let waiting = users.filter { owner(of: $0) == peer }
        if !waiting.isEmpty { misroutedRetryAt = min(misroutedRetryAt, now.instant + settings.retryInterval) }
        misrouted += waiting
        let named = Set(users)
        for sent in calls.requests(where: { $0.peer == peer && named.contains($0.request.user) }) {
            calls.retry(sent.request.id, at: now.instant + settings.retryInterval)
        }
    }

    /// What a peer sent back because it did not decide is sent again at once: somebody may be waiting for each of these users.
    private mutating func retryMisrouted(by peer: PeerIndex, at now: Now) {
        let (users, placement) = (misrouted.takeAll(), placement)
        misrouted = users.filter { placement.owner(of: $0) != peer }
        reregister(Self.distinct(users.filter { placement.owner(of: $0) == peer }))
        retryRequests(at: now) { $0.peer == peer && $0.retryAt != nil }
        tickCalls(at: now)
    }

    mutating func retryMisrouted(at now: Now) {
        guard misroutedRetryAt <= now.instant else { return }
        misroutedRetryAt = .farFuture
        reregister(Self.distinct(misrouted.takeAll()))
    }

    private static func distinct(_ users: [UserID]) -> [UserID] {
        var known: Set<UserID> = []
        return users.filter { known.insert($0).inserted }
    }
}
