import PresenceWire

/// The number of followers of each user among the users that this node owns: this node's part of the limit `subscription.maxPerTarget`
/// (R6).
///
/// While every node has at most its share of a user's allowed followers, a node accepts one more without asking. A node with more than its
/// share asks all others first. From then on those nodes ask too, and the sum stays right. The Architecture page says when the limit may be
/// exceeded.
struct FollowerCounts {
    /// Most targets without a follower here whose count another node has read. Beyond it they are dropped. 16,384.
    static let sharedMax = 1 << 14

    private struct Entry {
        var count = 0
        var isShared = false
    }

    private var entries = UserTable<Entry>()
    /// The number of entries that exist only because another node has read the count.
    private var emptyCount = 0

    func count(of target: UserID) -> Int { entries.index(of: target).map { entries[$0].count } ?? 0 }

    /// Whether this node may accept one more follower without asking.
    func hasRoom(for target: UserID, share: Int) -> Bool {
        guard let index = entries.index(of: target) else { return share > 0 }
        return !entries[index].isShared && entries[index].count < share
    }

    mutating func change(_ target: UserID, by step: Int) {
        let index = entries.index(of: target, orInsert: Entry()).index
        let wasEmpty = entries[index].count == 0
        entries[index].count += step
        guard entries[index].isShared else {
            if entries[index].count == 0 { entries.remove(index) }
            return
        }
        emptyCount += (entries[index].count == 0 ? 1 : 0) - (wasEmpty ? 1 : 0)
    }

    /// The count for another node, which may accept one more. From then on this node must ask before it accepts a follower of `target`.
    mutating func share(_ target: UserID) -> Int {
        let index = entries.index(of: target, orInsert: Entry()).index
        guard !entries[index].isShared else { return entries[index].count }
        entries[index].isShared = true
        if entries[index].count == 0 { emptyCount += 1 }
        defer { if emptyCount > Self.sharedMax { dropShared() } }
        return entries[index].count
    }

    /// The first count that differs from `follows`, in words; nil for none. For simulations and tests.
    func brokenInvariant(_ follows: [UserID: Int]) -> String? {
        var (countedCount, emptyCount) = (0, 0)
        for index in entries.allIndices where entries.isLive(index) {
            let (target, entry) = (entries.user(at: index), entries[index])
            guard entry.count == follows[target] ?? 0 else {
                return "\(target) has \(follows[target] ?? 0) followers, \(entry.count) are counted"
            }
            guard entry.count > 0 || entry.isShared else { return "\(target) has no followers, and no node has read its count" }
            if entry.count == 0 { emptyCount += 1 } else { countedCount += 1 }
        }
        guard countedCount == follows.count else { return "\(follows.count) users are followed, \(countedCount) are counted" }
        return emptyCount == self.emptyCount ? nil : "\(emptyCount) entries are empty, \(self.emptyCount) are counted"
    }

    private mutating func dropShared() {
        for index in entries.allIndices where entries.isLive(index) && entries[index].count == 0 { entries.remove(index) }
        emptyCount = 0
    }
}
