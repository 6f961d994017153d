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
    func refusal(of hello: Hello, driftMax: Duration, at now: Now) -> String? {
        if hello.protocolVersion != Hello.protocolVersion {
            return
                "protocol version \(hello.protocolVersion) differs from \(Hello.protocolVersion); run one version of Rollcall on all nodes"
        }
        if hello.cluster != name {
            return "cluster name \"\(hello.cluster)\" differs from \"\(name)\"; configure one name on all nodes"
        }
        if hello.sender.id == own.id, hello.sender.generation != own.generation {
            return "node ID \"\(own.id)\" is in use by another process; configure a node ID of its own for each node"
        }
        if let twin = liveTwin(of: hello.sender) {
            return
                "node ID \"\(twin.id)\" is in use by a live process at \(twin.address); stop it, or configure a node ID of its own for each node"
        }
        if let successor = successor(of: hello.sender) {
            return "a later process at \(successor.address) uses the node ID \"\(successor.id)\" and has replaced this one"
        }
        let (ahead, most) = (hello.wall / 1_000 - now.wall / 1_000, driftMax.wholeMilliseconds / 1_000)  // Seconds.
        if ahead.magnitude > most.magnitude {
            return
                "clock skew is \(ahead.magnitude) s (\"\(hello.sender.id)\" is \(ahead < 0 ? "behind" : "ahead of") \"\(own.id)\"), "
                + "at most \(most) s is allowed; synchronize the clocks (NTP)"
        }
        return nil
    }

    /// The live member that another process would replace, because it has the same node ID; nil if there is none.
    ///
    /// A member that does not answer probes is not live, so a new process replaces one that is cut off. A process at the same address is
    /// the later one of the two, because one port has one listener.
    public func liveTwin(of process: Peer) -> Peer? {
        guard let peer = peers.index(of: process.id), peer != 0, links.isUp(peer), peers[peer].state == .alive else { return nil }
        let known = peers[peer].peer
        return known.generation < process.generation && known.address != process.address ? known : nil
    }

    /// The later process that has replaced a process in this cluster, because it has the same node ID; nil if there is none.
    ///
    /// Nobody sends the replaced process anything: its links and its part of the ring belong to the later one.
    public func successor(of process: Peer) -> Peer? {
        guard let peer = peers.index(of: process.id), peer != 0, peers[peer].peer.generation > process.generation else { return nil }
        return peers[peer].peer
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
