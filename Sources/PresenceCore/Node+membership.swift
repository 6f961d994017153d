import PresenceWire

/// Who is in the cluster: for now the nodes to which a link is up. Every change gives a new ring, and whatever has a new owner is
/// told to it (design §5).
extension Node {
    /// What this node says first on a link.
    public var hello: Hello {
        Hello(cluster: cluster, sender: selfPeer, members: peers.lazy.filter(\.isAlive).map(\.peer))
    }

    /// Why a node that says `hello` is refused; nil when it is welcome.
    public func refusal(of hello: Hello) -> String? {
        if hello.protocolVersion != Hello.protocolVersion {
            return "protocol version \(hello.protocolVersion) is not \(Hello.protocolVersion)"
        }
        if hello.cluster != cluster { return "cluster \"\(hello.cluster)\" is not \"\(cluster)\"" }
        if hello.sender.id == selfPeer.id, hello.sender.generation != selfPeer.generation {
            return "node ID \"\(selfPeer.id)\" is taken: another process uses it"
        }
        return nil
    }

    /// A node has introduced itself on its link to this one. What we told it before it was restarted is void; it asks for all that we
    /// know once it can answer (``PresenceWire/Message/requestSync``).
    public mutating func greeted(by hello: Hello, at now: Now) {
        guard hello.sender.id != selfPeer.id else { return }
        let wasRestarted = learn(hello.sender)
        for member in hello.members { learn(member) }
        guard let peer = peerIndices[hello.sender.id] else { return }
        if wasRestarted, peers[peer].isAlive {
            owners.peerLost(peer, at: now, into: &outbox)
            peers[peer].link.reset()
        }
        run(at: now)
    }

    /// The link to a node is up, and the node said `hello` on it: it is a member.
    public mutating func linked(to hello: Hello, at now: Now) {
        guard hello.sender.id != selfPeer.id else { return }
        learn(hello.sender)
        for member in hello.members { learn(member) }
        guard let peer = peerIndices[hello.sender.id] else { return }
        peers[peer].link.reset()
        peers[peer].isTransmitting = false
        if !peers[peer].isAlive {
            peers[peer].isAlive = true
            peers[peer].wasMember = true
            peers[peer].hasLeft = false
            peers[peer].knownUpTo = 0
            effects.append(.membership(hello.sender.id, isAlive: true))
            membersChanged(at: now)
            tellMembers()
        }
        if isDraining { send(.draining, to: peer) }
        send(.requestSync, to: peer)
        resync(peer, at: now)
        sendDigest(to: peer, wantsAnswer: true)
        run(at: now)
    }

    /// Gives this node's slots to the others; it stays a gateway. Without others there is nobody to give them to: returns false.
    public mutating func drain(at now: Now) -> Bool {
        if isDraining { return true }
        guard peers.dropFirst().contains(where: { $0.isAlive && !$0.isDraining }) else { return false }
        isDraining = true
        for peer in peers.indices.dropFirst() { send(.draining, to: peer) }
        membersChanged(at: now)
        run(at: now)
        return true
    }

    /// The last word: this node is not to be missed.
    public mutating func leave(at now: Now) {
        for peer in peers.indices.dropFirst() { send(.left, to: peer) }
        run(at: now)
    }

    mutating func drains(_ peer: PeerIndex, at now: Now) {
        guard !peers[peer].isDraining else { return }
        peers[peer].isDraining = true
        membersChanged(at: now)
    }

    mutating func leaves(_ peer: PeerIndex, at now: Now) {
        peers[peer].hasLeft = true
        end(peer, at: now)
    }

    /// The link to a node is down and does not come back: it is no member any more.
    public mutating func unlinked(from id: NodeID, at now: Now) {
        guard let peer = peerIndices[id] else { return }
        end(peer, at: now)
        run(at: now)
    }

    private mutating func end(_ peer: PeerIndex, at now: Now) {
        guard peers[peer].isAlive else { return }
        peers[peer].isAlive = false
        peers[peer].link.reset()
        if peers[peer].isDraining { peers[peer].hasLeft = true }
        peers[peer].isDraining = false
        effects.append(.membership(peers[peer].peer.id, isAlive: false))
        owners.peerLost(peer, at: now, into: &outbox)
        membersChanged(at: now)
        retryRequests(at: now) { $0.peer == peer }
    }

    /// Notes a node's card. Returns whether it is one that we knew before it was restarted.
    @discardableResult
    mutating func learn(_ card: Peer) -> Bool {
        guard card.id != selfPeer.id else { return false }
        guard let peer = peerIndices[card.id] else {
            peerIndices[card.id] = peers.count
            peers.append(PeerState(peer: card, link: Link(messagesMax: settings.linkMessagesMax)))
            effects.append(.connect(card))
            return false
        }
        guard card.generation > peers[peer].peer.generation else { return false }
        let wasKnown = peers[peer].peer.generation > 0
        peers[peer].peer = card
        effects.append(.connect(card))
        return wasKnown
    }

    private mutating func tellMembers() {
        let members = peers.lazy.filter(\.isAlive).map(\.peer)
        for peer in peers.indices.dropFirst() { send(.members(Array(members)), to: peer) }
    }

    /// A new ring: users that are no longer ours go to their new owner, and what we host is registered where it belongs now.
    private mutating func membersChanged(at now: Now) {
        takeoverEndsAt = now.instant + settings.takeoverGrace
        let old = placement
        let members = peers.indices.filter { $0 == 0 ? !isDraining : peers[$0].isAlive && !peers[$0].isDraining }
        placement = Placement(members.map { (Ring.Member(id: peers[$0].peer.id, weight: Int(peers[$0].peer.weight)), $0) })
        let new = placement
        owners.reassign(
            { user in OwnerShards.Role(owner: new.owner(of: user), isKept: new.keepers(of: user).contains(0)) }, at: now, into: &outbox)
        fillNewReplicas(before: old)
        let isMoved = { (user: UserID) in new.owner(of: user) != old.owner(of: user) }
        reregister(where: isMoved)
        retryRequests(at: now) { isMoved($0.request.user) }
    }

    /// Tells owners of the sessions and views whose users `isMoved` holds for.
    mutating func reregister(where isMoved: (UserID) -> Bool) {
        for var attach in sessions.sessions(where: isMoved) {
            attach.record = fanOut.recordHeld(of: attach.user)
            send(.attach(attach), toOwnerOf: attach.user)
        }
        register(fanOut.unconfirm(where: isMoved), withRecord: true)
    }

    /// Tells `peer` all that this node hosts of its users; what is not said is over.
    mutating func resync(_ peer: PeerIndex, at now: Now) {
        peers[peer].epoch += 1
        send(.beginSync(epoch: peers[peer].epoch), to: peer)
        reregister { [placement] user in placement.owner(of: user) == peer }
        send(.endSync(epoch: peers[peer].epoch), to: peer)
        retryRequests(at: now) { $0.peer == peer }
    }

    /// A link whose queue was dropped because it was full is made good by telling everything anew, once it can be sent.
    mutating func resyncOverflown(at now: Now) {
        for peer in peers.indices.dropFirst() where peers[peer].isAlive && peers[peer].link.hasOverflowed {
            peers[peer].link.clearOverflow()
            resync(peer, at: now)
        }
    }

    /// An owner says that it is not the owner: its ring or ours is about to change.
    mutating func receiveMisrouted(_ users: [UserID], at now: Now) {
        misrouted += users
        misroutedRetryAt = min(misroutedRetryAt, now.instant + settings.retryInterval)
        let named = Set(users)
        for sent in calls.requests(where: { named.contains($0.request.user) }) {
            calls.retry(sent.request.id, at: now.instant + settings.retryInterval)
        }
    }

    /// Passes on users that were given to this node by a ring which is not that of the other nodes any more.
    mutating func releaseStrays(at now: Now) {
        guard straysReleaseAt <= now.instant else { return }
        straysReleaseAt = .farFuture
        let released = strays
        strays = []
        for transfer in released { send(.transfer(transfer), toOwnerOf: transfer.record.user) }
    }

    mutating func retryMisrouted(at now: Now) {
        guard misroutedRetryAt <= now.instant else { return }
        let users = Set(misrouted)
        misrouted = []
        misroutedRetryAt = .farFuture
        reregister { users.contains($0) }
    }
}
