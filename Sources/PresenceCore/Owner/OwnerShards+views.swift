import PresenceWire

/// What a node watches and hosts of this node's users: told by it as a whole or for some ranges of slots, and compared all the time.
extension OwnerShards {
    /// A registration that a peer is in, or the last one.
    struct Round {
        let epoch: UInt64
        /// The ranges of slots that it is about.
        let ranges: SlotRanges
    }

    /// `peer` is about to say all that it knows of some ranges of slots.
    mutating func beginSync(from peer: PeerIndex, _ round: Round) {
        rounds[peer] = round
        forEachUser(in: round.ranges) { shards, user in shards.users.modify(user) { $0.setWatcher(peer, false) } }
    }

    /// `peer` has said all: a session that it did not speak of is lost.
    mutating func endSync(from peer: PeerIndex, epoch: UInt64, at now: Now, into outbox: inout Outbox) {
        guard let round = rounds[peer], round.epoch == epoch else { return }
        var unnamed: [Index] = []
        forEachUser(in: round.ranges) { shards, user in
            let sessions = shards.users[user].sessions
            let isLost = { (session: OwnedSession) in session.peer == peer && session.epoch != epoch && session.missedUntil == nil }
            guard sessions.contains(where: isLost) else { return }
            let deadline = now.instant + shards.policies.policy(of: shards.users.user(at: user)).offlineGrace
            shards.counters.sessionsLost += shards.users.modify(user) { user in
                UInt64(user.sessions.indices.count { isLost(user.sessions[$0]) && user.lose($0, until: deadline) })
            }
            unnamed.append(user)
        }
        for user in unnamed { refresh(user, at: now, into: &outbox) }
    }

    private mutating func forEachUser(in ranges: SlotRanges, _ body: (inout OwnerShards, Index) -> Void) {
        if ranges == .all {
            for user in users.places where users.isLive(user) { body(&self, user) }
            return
        }
        for range in 0..<Message.digestRangesCount where ranges.contains(range: range) {
            for slot in SlotRanges.slots(of: range) { for user in users.users(of: slot) { body(&self, user) } }
        }
    }

    /// For each peer in turn, one hash for each of `ranges`: what this node knows that it watches and hosts.
    func viewHashes(of ranges: Range<Int>, peersCount: Int) -> [UInt64] {
        var hashes = [UInt64](repeating: 0, count: peersCount * ranges.count)
        for range in ranges {
            let place = range - ranges.lowerBound
            users.forEachUser(in: ViewDigest.slots(of: range)) { user in
                guard !users[user].isReplica else { return }
                let hash = ViewDigest.hash(users[user].nameHash, users[user].record.version)
                for peer in users[user].watchers { hashes[peer * ranges.count + place] ^= hash }
                for session in users[user].sessions where session.missedUntil == nil {
                    hashes[session.peer * ranges.count + place] ^= ViewDigest.hash(of: session.id)
                }
            }
        }
        return hashes
    }

    /// One hash for each of the smaller ranges: what this node knows that a peer watches and hosts, and what it has told it of lists.
    func registeredHashes(of peer: PeerIndex) -> [UInt64] {
        var hashes = [UInt64](repeating: 0, count: Message.digestRangesCount)
        for range in hashes.indices {
            users.forEachUser(in: SlotRanges.slots(of: range)) { user in
                guard !users[user].isReplica else { return }
                if users[user].watchers.contains(peer) {
                    let version = ViewDigest.hash(users[user].nameHash, users[user].record.version)
                    hashes[range] ^= ViewDigest.hash(version, knownSince: users[user].record.knownSince)
                }
                for session in users[user].sessions where session.peer == peer && session.missedUntil == nil {
                    hashes[range] ^= ViewDigest.ownerHash(of: session.id, mark: users[user].toldListMark)
                }
            }
        }
        return hashes
    }

    /// The version held of a user, whoever owns it now; nil for nobody.
    func version(of user: Index) -> SlotHash? {
        guard users.isLive(user) else { return nil }
        return SlotHash(slot: users[user].slot, hash: ViewDigest.hash(users[user].nameHash, users[user].record.version))
    }
}
