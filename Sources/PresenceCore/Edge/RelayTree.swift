import PresenceWire

/// The records that many nodes watch. Their owner sends them to a few nodes, and each of these forwards them to its share.
struct RelayTree {
    /// The state of one peer.
    private struct PeerState {
        /// The time up to which all records of the peer have arrived.
        var knownUpTo: Milliseconds = 0
        var relays = Relays()
        /// The number of records that the peer has sent, accepted or not.
        var deltasReceived: UInt64 = 0
    }

    private var peers = [PeerState()]
    private(set) var counters = RelayCounters()

    /// The time up to which all records of a peer have arrived.
    func knownUpTo(_ peer: PeerIndex) -> Milliseconds { peers[peer].knownUpTo }

    /// The number of records that a peer has sent.
    func deltasReceived(from peer: PeerIndex) -> UInt64 { peers[peer].deltasReceived }

    /// See ``Relays/namedFrom``.
    func namedFrom(_ peer: PeerIndex) -> Version? { peers[peer].relays.namedFrom }

    /// Adds the state of a node with a new index.
    mutating func add(_ peer: PeerIndex) {
        if peer == peers.count { peers.append(PeerState()) } else { peers[peer] = PeerState() }
    }

    /// Drops the users to list to a peer, because the link is new or gone.
    mutating func dropNames(of peer: PeerIndex) { peers[peer].relays.dropNames() }

    /// Resets the position of a peer that has died or was restarted.
    mutating func lose(_ peer: PeerIndex) {
        peers[peer].knownUpTo = 0
        peers[peer].relays = Relays()
    }

    // MARK: Sending

    /// Sends a record of this node to its audience.
    mutating func publish(_ record: Record, to audience: Audience, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        if audience.isWatchedHere { cluster.send(.delta(record), to: 0) }
        guard case .watchers(_, let watchers) = audience else {
            return cluster.peers.others.forEach { cluster.send(.delta(record), to: $0) }
        }
        let others = watchers.filter { cluster.links.isUp($0) }
        let sentCount = spread(record, to: others, &cluster)
        guard sentCount < others.count, let user = owner.index(ofKnown: record.user) else { return }
        // The version counts, not the time of publishing: the call may have been answered, and clients hold the version, before this.
        for peer in others { peers[peer].relays.append(user, changedAt: record.version) }
    }

    /// Sends a record to `targets`. If there are many, it goes to some, each with a share of the others.
    ///
    /// The tree is drawn from the user and the version, so that the load spreads.
    ///
    /// - Returns: the number of nodes that it was sent to.
    @discardableResult
    private mutating func spread(_ record: Record, to targets: [PeerIndex], _ cluster: inout Cluster) -> Int {
        let count = cluster.settings.relayAbove
        guard targets.count > count else {
            for peer in targets { cluster.send(.delta(record), to: peer) }
            return targets.count
        }
        var random = SplitMix64(seed: ViewDigest.hash(of: record.user, record.version))
        var order = targets
        order.shuffle(using: &random)
        // A suspect node may be dead. It forwards nothing while there are others.
        order = order.filter { cluster.peers[$0].state == .alive } + order.filter { cluster.peers[$0].state != .alive }
        for first in 0..<count {
            let share = stride(from: first + count, to: order.count, by: count).map { cluster.peers[order[$0]].peer.versionNode }
            if !share.isEmpty { counters.sent += 1 }
            cluster.send(share.isEmpty ? .delta(record) : .relay(record, targets: share), to: order[first])
        }
        return count
    }

    // MARK: Receiving

    /// Counts a record that a peer has sent.
    fileprivate mutating func countDelta(from peer: PeerIndex) { peers[peer].deltasReceived += 1 }

    /// Sends a record to the nodes to which this node forwards it.
    fileprivate mutating func forward(_ record: Record, to numbers: [UInt32], _ cluster: inout Cluster) {
        let targets = numbers.compactMap { cluster.peers.index(ofNumber: $0) }.filter { $0 != 0 && cluster.links.isUp($0) }
        counters.forwarded += 1
        // The owner lists the record to the nodes that do not receive it, and they ask (``onRelayed(_:from:_:retryInterval:at:)``).
        counters.dropped += UInt64(numbers.count - targets.count)
        spread(record, to: targets, &cluster)
    }

    // MARK: Repair

    /// Lists to a peer the versions that relays should have forwarded to it.
    mutating func nameRelayed(to peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster) {
        let named = peers[peer].relays.takeUsers().compactMap { owner.users.version(of: $0) }
        for start in stride(from: 0, to: named.count, by: Message.offerSlotsMax) {
            cluster.send(.relayed(Array(named[start..<min(start + Message.offerSlotsMax, named.count)])), to: peer)
        }
    }

    /// Handles an owner's list of versions that relays should have forwarded. This node waits a little for missing ones, which may be on
    /// their way.
    mutating func onRelayed(_ slots: [SlotHash], from peer: PeerIndex, _ fanOut: FanOut, retryInterval: Duration, at now: Now) {
        let missing = slots.filter { !fanOut.holds($0) }
        if !missing.isEmpty { peers[peer].relays.miss(missing, until: now.instant + retryInterval) }
    }

    /// Handles an owner's claim that it has sent all its records up to a time: itself, or through relays whose records it has listed.
    mutating func onComplete(upTo milliseconds: Milliseconds, from peer: PeerIndex) {
        peers[peer].relays.claimedUpTo = max(peers[peer].relays.claimedUpTo, milliseconds)
        believe(peer)
    }

    /// Accepts the claim of a peer if no listed record is missing.
    mutating func believe(_ peer: PeerIndex) {
        guard peers[peer].relays.missing.isEmpty else { return }
        peers[peer].knownUpTo = max(peers[peer].knownUpTo, peers[peer].relays.claimedUpTo)
    }

    /// Whether forwarded records of a peer are missing.
    func isWaiting(for peer: PeerIndex) -> Bool { !peers[peer].relays.missing.isEmpty }

    /// Ends the wait for overdue records of a peer. Returns them, to request them from their owner; nil while there is time.
    mutating func takeOverdue(from peer: PeerIndex, _ fanOut: FanOut, at now: Now) -> [SlotHash]? {
        let isOverdue = peers[peer].relays.deadline <= now.instant
        let missing = peers[peer].relays.missing.filter { !fanOut.holds($0) }
        peers[peer].relays.missing = isOverdue ? [] : missing
        return isOverdue ? missing : nil
    }

    /// Counts a record that was requested from its owner because no relay had forwarded it.
    mutating func countMissed() { counters.fetched += 1 }
}

extension Edge {
    /// Handles a record. Returns whether it was accepted.
    mutating func onDelta(
        _ record: Record, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) -> Bool {
        relays.countDelta(from: peer)
        guard owner.accepts(record.version, at: now) else { return false }
        let pace = owner.policies.shared(of: record.user).policy.changesRate.map { PushPacing.Pace(rate: $0, now: now.instant) }
        if let delivery = fanOut.receive(record, at: owner.clock.milliseconds(at: now.wall), pace: pace) { cluster.deliver(delivery) }
        return true
    }

    /// Handles a record that this node forwards.
    mutating func onRelay(
        _ record: Record, toPassOnTo numbers: [UInt32], from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard onDelta(record, from: peer, &owner, &cluster, at: now) else { return }
        relays.forward(record, to: numbers, &cluster)
    }
}
