import PresenceWire

/// The digests by which replicas find and repair differences.
struct ReplicaRepair {
    private var nextDigestAt = Instant(nanoseconds: 0)
    private var nextPeer = 0
    /// The node that received the last digest, and when.
    private var compared = (peer: PeerIndex(0), at: Instant(nanoseconds: 0))
    /// The node of the present repair, and the time until which its next message is awaited.
    private var partner = (peer: PeerIndex(0), until: Instant(nanoseconds: 0))
    /// Digests of another node that differed from this node's. Each starts a repair, whose salt is this number.
    private(set) var differences: UInt64 = 0
    /// Rows sent to repair differences.
    private(set) var rowsSent: UInt64 = 0

    /// Sends a digest to one of the other nodes, in turn, once in ``CoreSettings/digestInterval`` or a little earlier.
    ///
    /// The time is spread, because nodes that compare at the same time would send the same rows.
    mutating func compare(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        // During a repair this node would not read the answer of another peer.
        guard now.instant >= max(nextDigestAt, partner.until) else { return }
        let spread = StableHash.mix(UInt64(cluster.own.versionNode), UInt64(bitPattern: now.instant.nanoseconds)) % 256
        let interval: Duration = cluster.settings.digestInterval / 1_024 * (1_024 - Int(spread))
        nextDigestAt = now.instant + interval
        let peers = Self.peers(cluster)
        guard !peers.isEmpty else { return }
        nextPeer = (nextPeer + 1) % peers.count
        let peer = peers[nextPeer]
        compared = (peer, now.instant)
        cluster.send(.digest(digest(with: peer, owner, cluster)), to: peer)
    }

    /// The nodes that receive digests in turn.
    private static func peers(_ cluster: borrowing Cluster) -> [PeerIndex] { cluster.peers.alive.filter { cluster.links.isUp($0) } }

    /// Sends the next digest to a peer whose own digest has come during a repair with another one, right after that repair.
    private mutating func postpone(_ peer: PeerIndex, _ cluster: borrowing Cluster) {
        let peers = Self.peers(cluster)
        guard let index = peers.firstIndex(of: peer) else { return }
        (nextPeer, nextDigestAt) = (index - 1, min(nextDigestAt, partner.until))
    }

    /// The hashes of the slots that this node and `peer` both keep.
    private func digest(with peer: PeerIndex, _ owner: borrowing Owner, _ cluster: Cluster) -> [UInt64] {
        let placement = cluster.placement
        return owner.users.digest { placement.isShared($0, with: peer) }
    }

    /// The time in which a peer answers. A repair that has lost a message does not hinder others for longer.
    private static let answerTimeout: Duration = .seconds(1)

    /// Whether this node repairs nothing with another peer. Two replicas would send the same rows.
    private func isFree(for peer: PeerIndex, at now: Now) -> Bool { partner.peer == peer || partner.until <= now.instant }

    /// Whether this node has just sent the peer a digest, which alone counts: that of the smaller node ID.
    private func isCrossed(from peer: PeerIndex, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        compared.peer == peer && now.instant < compared.at + Self.answerTimeout && cluster.own.id < cluster.peers[peer].peer.id
    }

    /// Describes the ranges that differ.
    mutating func onDigest(
        _ digest: [UInt64], from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard isFree(for: peer, at: now) else { return postpone(peer, cluster) }
        guard !isCrossed(from: peer, cluster, at: now) else { return }
        let own = self.digest(with: peer, owner, cluster)
        // During a handoff many ranges differ, and their rows are on their way.
        guard digest.count == own.count, digest != own, cluster.ownership.transfer.isComplete else { return }
        differences += 1
        var answer = RepairAnswer(to: peer, salt: differences, placement: cluster.placement)
        for range in digest.indices where digest[range] != own[range] { answer.describe(HashBucket.place(ofRange: range), owner) }
        send(answer, to: peer, &cluster, at: now)
    }

    /// Narrows the differences in a peer's buckets down, or sends the rows that differ: at most a page.
    mutating func onBuckets(
        _ buckets: [HashBucket], salt: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard cluster.ownership.transfer.isComplete, !buckets.isEmpty, isFree(for: peer, at: now) else { return }
        var answer = RepairAnswer(to: peer, salt: salt, placement: cluster.placement)
        // One answer may have room for a part only. Each repair starts with another bucket.
        let start = Int(StableHash.mix(salt, 0) % UInt64(buckets.count))
        for bucket in buckets[start...] + buckets[..<start] { answer.add(bucket, owner) }
        send(answer, to: peer, &cluster, at: now)
    }

    private mutating func send(_ answer: RepairAnswer, to peer: PeerIndex, _ cluster: inout Cluster, at now: Now) {
        partner = (peer, now.instant + Self.answerTimeout)
        rowsSent += UInt64(answer.rows.count)
        cluster.send(answer.rows, to: peer)
        if !answer.buckets.isEmpty { cluster.send(.bucketDigest(salt: answer.salt, answer.buckets), to: peer) }
    }
}
