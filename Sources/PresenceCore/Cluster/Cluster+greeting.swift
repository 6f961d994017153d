import PresenceWire

/// The hellos between nodes, and the members for operators.
extension Cluster {
    /// The hello of this node.
    public func hello(at now: Now) -> Hello {
        Hello(cluster: name, sender: own, members: peers.lazy.filter(\.isAlive).map(\.peer), wall: now.wall)
    }

    /// The first message of this node on a connection that it has opened.
    mutating func greeting(at now: Now) -> Hello {
        let number = links.openConnection()
        var hello = hello(at: now)
        hello.number = number
        return hello
    }

    /// The reason to refuse the node of a `hello`; nil if it is accepted.
    ///
    /// The other nodes refuse the records of a node whose clock is ahead by more than versions may be. A node whose clock is behind refuses
    /// the records of all others.
    ///
    /// - Parameter driftMax: how far ahead versions may be (``VersionClock/driftMax``).
    func refusal(of hello: Hello, driftMax: Duration, at now: Now) -> HelloRefusal? {
        if hello.protocolVersion != Hello.protocolVersion { return .protocolVersion(hello.protocolVersion) }
        if hello.cluster != name { return .clusterName(hello.cluster, own: name) }
        if let refusal = supersession(of: hello.sender) ?? priority(over: hello.sender) { return refusal }
        let (ahead, most) = (hello.wall / 1_000 - now.wall / 1_000, driftMax.wholeMilliseconds / 1_000)  // Seconds.
        if ahead.magnitude > most.magnitude {
            return .clockSkew(of: hello.sender.id, seconds: ahead, from: own.id, secondsMax: most)
        }
        // A clock that is far behind explains an early start, so it is named first.
        guard let twin = twin(of: hello.sender), twin.peer.generation > hello.sender.generation else { return nil }
        return .startedBefore(twin.peer, milliseconds: twin.peer.generation - hello.sender.generation)
    }

    /// The last other process with the node ID of `process` that this node has known as a member; nil if there is none.
    ///
    /// A process that is only a row on this node's disk has not been a member since this node started. It refuses nobody.
    private func twin(of process: Peer) -> (peer: Peer, state: MemberState)? {
        if process.id == own.id { return process.generation == own.generation ? nil : (own, .alive) }
        guard let known = membership.update(about: process.id), known.member.generation != process.generation else { return nil }
        return (known.member, known.state)
    }

    /// Why this node takes nothing from a process any more: a later one with its node ID is a member. Nil if there is none.
    public func supersession(of process: Peer) -> HelloRefusal? {
        guard let twin = twin(of: process), twin.state.isLive, twin.peer.generation > process.generation else { return nil }
        return .superseded(by: twin.peer)
    }

    /// Why an earlier process keeps its node ID although `process` wants it; nil if `process` is to replace it.
    ///
    /// A suspect member has not answered probes, direct or indirect, so a new process replaces it. The link of this node to the member does
    /// not count: a link breaks and reconnects while the member serves. A process at the member's address is the later one of the two,
    /// because one port has one listener.
    private func priority(over process: Peer) -> HelloRefusal? {
        guard let twin = twin(of: process), twin.state == .alive, twin.peer.generation < process.generation else { return nil }
        return twin.peer.id == own.id || twin.peer.address != process.address ? .inUse(by: twin.peer) : nil
    }

    /// Whether this side of a split gives way to the side that `hello` comes from, because that side is larger.
    ///
    /// Of two equal sides the one with the smallest node ID stays. A node that has just started is a side of its own.
    func givesWay(to hello: Hello) -> Bool {
        guard !isMember(hello.sender.id), !hello.members.contains(where: { $0.id == own.id }) else { return false }
        let side = peers.filter(\.isAlive).map(\.peer.id)
        guard side.count == hello.members.count else { return side.count < hello.members.count }
        return side.min() ?? own.id > hello.members.map(\.id).min() ?? hello.sender.id
    }

    // MARK: For the shell

    /// The ID of a peer.
    public func peerID(_ peer: PeerIndex) -> NodeID { peers[peer].peer.id }

    /// The index of a node, if this node knows it.
    public func peerIndex(_ id: NodeID) -> PeerIndex? { peers.index(of: id) }

    /// Whether a node is a member, as far as this node knows.
    public func isMember(_ id: NodeID) -> Bool { peers.index(of: id).map { peers[$0].isAlive } ?? false }

    /// Whether a node has announced its end, so that its absence is not a fault.
    public func hasLeft(_ id: NodeID) -> Bool { peers.index(of: id).map { peers[$0].hasLeft } ?? false }

    /// Whether a former member process has announced its end, and no later process of that ID has been a member since.
    public func hasEnded(_ process: Peer) -> Bool {
        guard let peer = peers.index(of: process.id) else { return false }
        return peers[peer].wasMember && peers[peer].hasLeft && process.generation <= peers[peer].peer.generation
    }

    /// Whether another node is alive and does not drain: it can take this node's slots and clients.
    public var othersStay: Bool { peers.othersStay }

    /// Whether this node decides about all the slots that it owns.
    public var isWarm: Bool { ownership.acquiringCount == 0 && ownership.isInForce }

    /// Whether all rows of this node are where they belong. Then a draining node may end.
    public var isHandedOver: Bool {
        ownership.isStable && isCompleteEverywhere && !ownership.transfer.hasMisplacedRows && peers.alive.allSatisfy { links[$0].isIdle }
    }

    /// Whether each member has all rows that it keeps, also those that this node has offered.
    var isCompleteEverywhere: Bool { peers.alive.allSatisfy { ownership.transfer.isComplete(at: $0) } }

    /// The members as this node sees them.
    public var status: ClusterStatus {
        let slots = placement.slotsCounts
        let members = peers.indices.filter { $0 == 0 || peers[$0].wasMember }.map { index in
            let state = index == 0 ? (isDraining ? .draining : .alive) : peers[index].memberState
            return ClusterStatus.Member(peer: peers[index].peer, state: state, slotsOwned: slots[index] ?? 0)
        }
        return ClusterStatus(node: own.id, members: members.sorted { $0.peer.id < $1.peer.id })
    }
}

extension Peers.Member {
    /// The state as operators read it.
    var memberState: ClusterStatus.MemberState {
        switch state {
        case .alive: isDraining ? .draining : .alive
        case .suspect: .suspect
        case .dead: .dead
        case .left: .left
        }
    }
}
