import PresenceWire

/// Records that many nodes watch (design §2, Links): their owner sends them to a few, each passes them on to its share.
extension Node {
    /// Sends a record of this node's to the nodes that watch it.
    mutating func tell(_ record: Record, to watchers: [PeerIndex], at now: Now) {
        if watchers.first == 0 { send(.delta(record), to: 0) }
        let others = watchers.filter { $0 != 0 && peers[$0].isLinked }
        // Nobody shows it any more who may not: not even a node that has not told this one yet that it watches. It is told directly,
        // because whoever waits for the answer waits for all.
        if record.changesPrivacy { return peers.indices.dropFirst().forEach { send(.delta(record), to: $0) } }
        let relays = spread(record, to: others)
        guard relays < others.count, let user = owners.index(ofKnown: record.user) else { return }
        // Who was told by a new owner later than the record was written must not believe before that it has everything.
        let knownSince = min(record.knownSince, owners.clock.milliseconds(at: now.wall))
        let changedAt = Version(milliseconds: max(record.version.milliseconds, knownSince), counter: 0, node: 0)
        for peer in others { peers[peer].relays.append(user, changedAt: changedAt) }
    }

    /// Sends a record to `targets`, or when these are many to some, with a share of the others each. The tree is drawn from the user and the
    /// version, so that the load spreads. Returns how many it was sent to.
    @discardableResult
    private mutating func spread(_ record: Record, to targets: [PeerIndex]) -> Int {
        guard targets.count > settings.relayAbove else {
            for peer in targets { send(.delta(record), to: peer) }
            return targets.count
        }
        var random = SplitMix64(seed: ViewDigest.hash(of: record.user, record.version))
        var order = targets
        order.shuffle(using: &random)
        // Who is suspected may be gone: it passes nothing on while there are others.
        order = order.filter { peers[$0].state == .alive } + order.filter { peers[$0].state != .alive }
        let count = settings.relayAbove
        for first in 0..<count {
            let share = stride(from: first + count, to: order.count, by: count).map { peers[order[$0]].peer.versionNode }
            if !share.isEmpty { relayCounters.sent += 1 }
            send(share.isEmpty ? .delta(record) : .relay(record, targets: share), to: order[first])
        }
        return count
    }

    /// A record has come. Returns whether it could be believed.
    mutating func onDelta(_ record: Record, from peer: PeerIndex, at now: Now) -> Bool {
        peers[peer].deltasReceived += 1
        guard owners.accepts(record.version, at: now) else { return false }
        if let delivery = fanOut.receive(record, at: owners.clock.milliseconds(at: now.wall)) { tell(delivery) }
        return true
    }

    /// A record has come that this node is to pass on.
    mutating func onRelay(_ record: Record, toPassOnTo numbers: [UInt32], from peer: PeerIndex, at now: Now) {
        guard onDelta(record, from: peer, at: now) else { return }
        let targets = numbers.compactMap { peerNumbers[$0] }.filter { $0 != 0 && peers[$0].isLinked }
        relayCounters.passedOn += 1
        // The owner names it to them, and they ask (``onRelayed(_:from:at:)``).
        relayCounters.dropped += UInt64(numbers.count - targets.count)
        spread(record, to: targets)
    }

    // MARK: Repair

    /// Names to a peer the versions that others were to pass on to it.
    mutating func nameRelayed(to peer: PeerIndex) {
        let named = peers[peer].relays.takeUsers().compactMap { owners.users.version(of: $0) }
        for start in stride(from: 0, to: named.count, by: Message.offerSlotsMax) {
            send(.relayed(Array(named[start..<min(start + Message.offerSlotsMax, named.count)])), to: peer)
        }
    }

    /// An owner names what others were to pass on; what has not come is waited for a little, because it may be on its way.
    mutating func onRelayed(_ slots: [SlotHash], from peer: PeerIndex, at now: Now) {
        let missing = slots.filter { !fanOut.holds($0) }
        if !missing.isEmpty { peers[peer].relays.miss(missing, until: now.instant + settings.retryInterval) }
    }

    /// All that an owner has written up to here has been sent: by itself, or by those whose records it has named.
    mutating func onComplete(upTo milliseconds: Milliseconds, from peer: PeerIndex) {
        peers[peer].relays.claimedUpTo = max(peers[peer].relays.claimedUpTo, milliseconds)
        believe(peer)
    }

    private mutating func believe(_ peer: PeerIndex) {
        guard peers[peer].relays.missing.isEmpty else { return }
        peers[peer].knownUpTo = max(peers[peer].knownUpTo, peers[peer].relays.claimedUpTo)
    }

    /// What has not come in time is asked of its owner; until the answer it counts as unknown.
    mutating func verifyRelayed(at now: Now) {
        for peer in peers.indices where !peers[peer].relays.missing.isEmpty {
            let isOverdue = peers[peer].relays.deadline <= now.instant
            let missing = peers[peer].relays.missing.filter { !fanOut.holds($0) }
            peers[peer].relays.missing = isOverdue ? [] : missing
            if isOverdue { ask(peer, for: missing) }
            believe(peer)
        }
    }

    private mutating func ask(_ peer: PeerIndex, for missing: [SlotHash]) {
        for slot in missing.map(\.slot) where placement.owner(of: slot) == peer {
            relayCounters.missed += 1
            for user in fanOut.unconfirm(slot) { peers[peer].registrations.append(viewOf: user) }
        }
        fill(peer)
    }
}
