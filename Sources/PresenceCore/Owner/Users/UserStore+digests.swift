import PresenceWire

/// Rows and hashes of slots and ranges of slots, which nodes compare.
extension UserStore {
    /// All rows of a slot's users, in a fixed order.
    func rows(of slot: Slot) -> [Row] {
        var rows: [Row] = []
        for user in users(of: slot) { rows += self.rows(of: user) }
        return rows
    }

    /// All rows of a user, in a fixed order. A deletion is the first: a node must not merge newer facts with those that it makes void.
    func rows(of index: Index) -> [Row] {
        let user = user(at: index)
        let listed = self[index].lists.rows(of: user)
        var rows = listed.filter { $0.kind == .deletion }
        if self[index].record.version > .zero { rows.append(Row(self[index].record)) }
        if let privacy = self[index].record.privacy { rows.append(Row(privacy, of: user)) }
        rows += self[index].subscriptions.entries.map { Row($0, of: user) }
        return rows + listed.filter { $0.kind != .deletion }
    }

    /// Whether this node keeps an offered slot by a ring, and has other facts of it.
    func wants(_ offered: SlotHash, by placement: Placement) -> Bool {
        placement.isKept(offered.slot, by: 0) && hash(of: offered.slot) != offered.hash
    }

    /// One hash for each range of slots, over the slots for which `isWanted` holds.
    func digest(where isWanted: (Slot) -> Bool) -> [UInt64] {
        var hashes = Array(repeating: UInt64(0), count: Message.digestRangesCount)
        let slotsInRange = Ring.slotsCount / Message.digestRangesCount
        forEachSlot { slot, hash in
            if isWanted(slot) { hashes[Int(slot) / slotsInRange] ^= StableHash.mix(hash, UInt64(slot)) }
        }
        return hashes
    }

    /// For each peer in turn, one hash for each of `ranges`: over the users that it watches and the sessions that it hosts, as known here.
    func viewHashes(of ranges: Range<Int>, peersCount: Int) -> [UInt64] {
        var hashes = [UInt64](repeating: 0, count: peersCount * ranges.count)
        for range in ranges {
            let position = range - ranges.lowerBound
            forEachUser(in: ViewDigest.slots(of: range)) { user in
                guard !self[user].isReplica else { return }
                let hash = ViewDigest.hash(self[user].nameHash, self[user].record.version)
                for peer in self[user].watchers { hashes[peer * ranges.count + position] ^= hash }
                for session in self[user].streams where session.graceDeadline == nil {
                    hashes[session.peer * ranges.count + position] ^= ViewDigest.hash(of: session.id)
                }
            }
        }
        return hashes
    }

    /// One hash for each of the smaller ranges: over the users that a peer watches, its sessions, and the lists that it received.
    func registeredHashes(of peer: PeerIndex) -> [UInt64] {
        var hashes = [UInt64](repeating: 0, count: Message.digestRangesCount)
        for range in hashes.indices {
            forEachUser(in: SlotRanges.slots(of: range)) { user in
                guard !self[user].isReplica else { return }
                if self[user].watchers.contains(peer) {
                    let version = ViewDigest.hash(self[user].nameHash, self[user].record.version)
                    hashes[range] ^= ViewDigest.hash(version, knownSince: self[user].record.knownSince)
                }
                for session in self[user].streams where session.peer == peer && session.graceDeadline == nil {
                    hashes[range] ^= ViewDigest.ownerHash(of: session.id, listHash: self[user].publishedListHash)
                }
            }
        }
        return hashes
    }

    /// The version held of a user, whichever node owns it; nil for no user.
    func version(of user: Index) -> SlotHash? {
        guard isLive(user) else { return nil }
        return SlotHash(slot: self[user].slot, hash: ViewDigest.hash(self[user].nameHash, self[user].record.version))
    }
}
