import PresenceWire

/// Salted hashes of users, which replicas compare to find a difference.
///
/// A hash of 32 bits may be equal by chance. Each repair has another salt, so that no difference stays hidden.
extension UserStore {
    /// One hash for each part of a place, over the rows of its users; 0 for none.
    func partHashes(of place: HashBucket.Place, salt: UInt64, where isShared: (Slot) -> Bool) -> [UInt32] {
        var hashes = [UInt32](repeating: 0, count: HashBucket.partsCount)
        for slot in place.slots where hash(of: slot) != 0 && isShared(slot) {
            guard place.bits >= Slot.bitWidth else {
                hashes[place.partIndex(of: UInt64(slot) << 48)] ^= Self.salted(StableHash.mix(hash(of: slot), UInt64(slot)), salt)
                continue
            }
            forEachUser(in: slot...slot) { user in
                guard place.contains(self[user].nameHash), self[user].factsHash != 0 else { return }
                hashes[place.partIndex(of: self[user].nameHash)] ^= Self.salted(self[user].factsHash, salt)
            }
        }
        return hashes
    }

    /// The users with rows in a place; nil for more than `countMax`.
    func usersWithRows(in place: HashBucket.Place, countMax: Int, where isShared: (Slot) -> Bool) -> [Index]? {
        var found: [Index] = []
        for slot in place.slots where hash(of: slot) != 0 && isShared(slot) {
            forEachUser(in: slot...slot) { user in
                if place.contains(self[user].nameHash), self[user].factsHash != 0 { found.append(user) }
            }
            guard found.count <= countMax else { return nil }
        }
        return found
    }

    /// The description of a user in a bucket.
    func entry(of user: Index, salt: UInt64) -> HashBucket.Entry {
        HashBucket.Entry(
            key: Self.salted(self[user].nameHash, salt), hash: Self.salted(self[user].factsHash, salt), newest: newestStamp(of: user))
    }

    /// The stamp of the newest version in a user's rows. It tells which of two nodes has missed a change.
    ///
    /// Only rows that are there count: a node with a larger stamp has a row that the other one lacks, and the other has it afterwards.
    private func newestStamp(of user: Index) -> UInt64 {
        var newest = max(self[user].record.version, self[user].record.customStatusVersion, self[user].lists.newestHeld)
        for subscription in self[user].subscriptions.entries { newest = max(newest, subscription.version) }
        if let privacy = self[user].record.privacy { newest = max(newest, privacy.version) }
        return newest.stamp
    }

    private static func salted(_ hash: UInt64, _ salt: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: StableHash.mix(hash, salt)) }
}
