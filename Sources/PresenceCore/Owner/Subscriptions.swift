import PresenceWire

/// The durable subscription list of one user, which the user's owner keeps (T19–T27, Z9–Z12, Z19, Z20).
///
/// Sorted by target, so that pages are stable and a change is found by halving. Tombstones stay for ``CoreSettings/tombstoneHorizon``, and
/// at most ``tombstonesMax`` of them.
struct Subscriptions {
    /// Tombstones that are kept: beyond it the oldest expire before their time. More than a full list of any preset has entries.
    static let tombstonesMax = 4_096

    private(set) var entries: [Subscription] = []
    /// The version of the newest change.
    private(set) var version = Version.zero
    /// The number of entries that are not tombstones.
    private(set) var liveCount = 0

    /// A time, by the wall clock, before which ``expireTombstones(at:)`` has no work; `.max` for never.
    private(set) var expiresNext = Milliseconds.max

    /// A hash of all entries, in whatever order they arrived.
    private(set) var hash: UInt64 = 0

    /// The targets that began or ceased to be followed since the last ``takeChangedFollows()``.
    private var changedFollows: [(target: UserID, isFollowed: Bool)] = []

    var isEmpty: Bool { entries.isEmpty }

    /// Whether ``takeChangedFollows()`` has something to return.
    var hasChangedFollows: Bool { !changedFollows.isEmpty }

    mutating func takeChangedFollows() -> [(target: UserID, isFollowed: Bool)] { changedFollows.takeAll() }

    /// The live entries, by target.
    var live: [Subscription] { entries.filter { !$0.isRemoved } }

    /// The live entry for `target`.
    func entry(for target: UserID) -> Subscription? {
        let index = index(of: target)
        guard index < entries.count, entries[index].target == target, !entries[index].isRemoved else { return nil }
        return entries[index]
    }

    /// One page of the live entries of a type; with nil, of any.
    func page(of type: UInt8? = nil, offset: Int, limit: Int) -> [Subscription] {
        Array(entries.lazy.filter { !$0.isRemoved && $0.isOf(type) }.dropFirst(max(offset, 0)).prefix(max(limit, 0)))
    }

    /// Stores `entry` if it is newer than the one for its target. Returns whether it was.
    mutating func merge(_ entry: Subscription) -> Bool {
        let index = index(of: entry.target)
        if index < entries.count, entries[index].target == entry.target {
            guard entry.version > entries[index].version else { return false }
            if entry.isRemoved != entries[index].isRemoved { noteFollow(entry) }
            hash ^= Self.hash(entries[index])
            entries[index] = entry
        } else {
            entries.insert(entry, at: index)
            if !entry.isRemoved { noteFollow(entry) }
        }
        hash ^= Self.hash(entry)
        noteForgetting(with: entry)
        version = max(version, entry.version)
        return true
    }

    private mutating func noteForgetting(with entry: Subscription) {
        let tombstonesCount = entries.count - liveCount
        // A tombstone that stayed because it was the newest change may expire now.
        if entry.version > version, expiresNext == .max, tombstonesCount > (entry.isRemoved ? 1 : 0) {
            expiresNext = version.milliseconds + CoreSettings.tombstoneHorizon
        }
        if entry.isRemoved { expiresNext = min(expiresNext, Self.end(of: entry)) }
        if tombstonesCount > Self.tombstonesMax { expiresNext = .min }
    }

    private mutating func noteFollow(_ entry: Subscription) {
        liveCount += entry.isRemoved ? -1 : 1
        changedFollows.append((entry.target, !entry.isRemoved))
    }

    /// Records that a new entry was sent to the gateways when the version clock showed `time`.
    mutating func observe(_ target: UserID, at time: Milliseconds) {
        let index = index(of: target)
        guard index < entries.count, entries[index].target == target, entries[index].observedAt == .max else { return }
        entries[index].observedAt = time
    }

    /// Records that all entries became known when the version clock showed `time`, except those not sent yet.
    mutating func observeAll(at time: Milliseconds) {
        for index in entries.indices { entries[index].observedAt = max(entries[index].observedAt, time) }
    }

    /// Evicts the earliest subscriptions until `countMax` are left. Those just added count as the latest. Returns the new tombstones.
    ///
    /// - Parameter inactive: targets whose subscriptions stay. They do not count.
    mutating func evict(downTo countMax: Int, besides inactive: Set<UserID> = [], version: Version) -> [Subscription] {
        guard liveCount > countMax else { return [] }
        let order = inactive.isEmpty ? self.order : self.order.filter { !inactive.contains($0.target) }
        return order.prefix(max(order.count - countMax, 0)).map { remove($0, version: version) }
    }

    /// The live entries beyond `countMax`: the earliest ones, in their order.
    func inactive(beyond countMax: Int) -> [Subscription] {
        guard liveCount > countMax else { return [] }
        return Array(order.prefix(liveCount - countMax))
    }

    /// The list without the live entries beyond `countMax`.
    func active(within countMax: Int) -> Subscriptions {
        guard liveCount > countMax else { return self }
        let inactive = Set(inactive(beyond: countMax).map(\.target))
        var active = self
        active.entries.removeAll { !$0.isRemoved && inactive.contains($0.target) }
        active.liveCount = countMax
        return active
    }

    /// The live entries, the earliest first. Not by the time of a wall clock, which may jump.
    private var order: [Subscription] { live.sorted { ($0.version, $0.target) < ($1.version, $1.target) } }

    /// The outcome of an earlier attempt of a call that started at `start`: the targets that it added, and those that it evicted for them.
    ///
    /// Both have consecutive versions of the same node. The clock of the called node may be behind, so that an older call has later
    /// versions too. But such a call does not have the same targets.
    func done(_ targets: [UserID], since start: Version?) -> (added: [Subscription], evicted: [Subscription]) {
        guard let start else { return ([], []) }
        let added = targets.compactMap { entry(for: $0) }.filter { $0.version > start }
        guard let version = added.map(\.version).sorted().first(where: { wroteJust(targets, $0) }) else { return ([], []) }
        let eviction = Version(stamp: version.stamp + 1, node: version.node)
        return (added.filter { $0.version >= version }, entries.filter { $0.isRemoved && $0.version == eviction })
    }

    /// Whether a call whose entries have this version can have had exactly `targets`. They may have changed since.
    private func wroteJust(_ targets: [UserID], _ version: Version) -> Bool {
        let written = targets.allSatisfy { target in
            let index = index(of: target)
            return index < entries.count && entries[index].target == target && entries[index].version >= version
        }
        return written && entries.allSatisfy { $0.version != version || targets.contains($0.target) }
    }

    /// Removes the expired entries. Returns the new tombstones.
    mutating func expire(at wall: Milliseconds, version: @autoclosure () -> Version) -> [Subscription] {
        let ended = entries.filter { !$0.isRemoved && ($0.expiresAt ?? .max) <= wall }
        guard !ended.isEmpty else { return [] }
        let version = version()
        return ended.map { remove($0, version: version) }
    }

    /// Removes `targets`, or all with nil; of one type, or with nil of any. Returns the new tombstones.
    mutating func remove(_ targets: [UserID]?, of type: UInt8? = nil, version: Version) -> [Subscription] {
        let found = targets.map { $0.compactMap { entry(for: $0) } } ?? live
        return found.filter { $0.isOf(type) }.map { remove($0, version: version) }
    }

    /// Ends the subscriptions to `targets`, or to all with nil, and renews earlier tombstones; of one type, or with nil of any.
    ///
    /// Dead nodes may hold a newer subscription.
    ///
    /// - Parameter unknownAt: the wall clock if other nodes may hold subscriptions that are unknown here, otherwise nil. Unknown targets
    /// then get tombstones, too.
    ///
    /// - Returns: the new tombstones: `ended` of the subscriptions known here, `others` of the rest.
    mutating func unsubscribe(
        _ targets: [UserID]?, of type: UInt8?, version: Version, unknownAt: Milliseconds?
    ) -> (ended: [Subscription], others: [Subscription]) {
        let ended = remove(targets, of: type, version: version)
        var others: [Subscription] = []
        for target in targets ?? entries.map(\.target) {
            let index = index(of: target)
            let known = index < entries.count && entries[index].target == target ? entries[index] : nil
            let unknown = unknownAt.map { Subscription(of: target, type, removedAt: $0, version: version) }
            guard var tombstone = known ?? unknown, tombstone.isRemoved, tombstone.isOf(type) else { continue }
            tombstone.version = version
            if merge(tombstone) { others.append(tombstone) }
        }
        return (ended, others)
    }

    /// The tombstones of `targets`, or all with nil.
    func tombstones(of targets: [UserID]?) -> [Subscription] {
        guard let targets else { return entries.filter(\.isRemoved) }
        return targets.compactMap { target in
            let index = index(of: target)
            return index < entries.count && entries[index].target == target && entries[index].isRemoved ? entries[index] : nil
        }
    }

    /// The time at which the next live entry ends.
    var nextExpiry: Milliseconds? {
        entries.lazy.filter { !$0.isRemoved }.compactMap(\.expiresAt).min()
    }

    /// Removes expired tombstones, and the oldest beyond the limit. Nodes with equal lists remove the same. Returns them.
    ///
    /// A tombstone that is the newest change of the list stays. By it the gateways recognize a list that is older than theirs.
    mutating func expireTombstones(at wall: Milliseconds) -> [Subscription] {
        let tombstones = entries.filter(\.isRemoved).sorted { ($0.version, $0.target) < ($1.version, $1.target) }
        let dueCount = tombstones.prefix { Self.end(of: $0) <= wall }.count
        let staysCount = tombstones.last?.version == version ? 1 : 0
        let count = min(max(dueCount, tombstones.count - Self.tombstonesMax), tombstones.count - staysCount)
        let rest = tombstones.dropFirst(count).dropLast(staysCount)
        expiresNext = rest.first.map(Self.end) ?? .max
        let forgotten = Array(tombstones.prefix(count))
        guard !forgotten.isEmpty else { return [] }
        let targets = Set(forgotten.map(\.target))
        entries.removeAll { $0.isRemoved && targets.contains($0.target) }
        for entry in forgotten { hash ^= Self.hash(entry) }
        return forgotten
    }

    /// The first derived value that does not match the entries, in words; nil for none. For simulations and tests.
    func brokenInvariant() -> String? {
        guard zip(entries, entries.dropFirst()).allSatisfy({ $0.target < $1.target }) else { return "an unsorted list: \(entries)" }
        let live = entries.count { !$0.isRemoved }
        guard liveCount == live else { return "\(live) subscriptions, \(liveCount) are counted: \(entries)" }
        let hash = entries.reduce(UInt64(0)) { $0 ^ Self.hash($1) }
        guard self.hash == hash else { return "the hash of the list is \(self.hash), not \(hash): \(entries)" }
        guard entries.allSatisfy({ $0.version <= version }) else { return "the list is older than an entry: \(version), \(entries)" }
        // The newest change of the list stays, even if it is a tombstone.
        let ends = entries.lazy.filter { $0.isRemoved && $0.version < version }.map(Self.end).min() ?? .max
        guard expiresNext <= ends else { return "the list expires at \(expiresNext), after \(ends): \(entries)" }
        return hasChangedFollows ? "changed follows are not counted: \(changedFollows)" : nil
    }

    /// Until when a tombstone is kept.
    private static func end(of entry: Subscription) -> Milliseconds { entry.version.milliseconds + CoreSettings.tombstoneHorizon }

    private static func hash(_ entry: Subscription) -> UInt64 {
        let target = entry.target.withBytes { StableHash.hash64($0) }
        return StableHash.mix(StableHash.mix(target, entry.version.stamp), UInt64(entry.version.node))
    }

    private mutating func remove(_ entry: Subscription, version: Version) -> Subscription {
        var tombstone = entry
        tombstone.isRemoved = true
        tombstone.version = version
        _ = merge(tombstone)
        return tombstone
    }

    private func index(of target: UserID) -> Int { entries.insertionIndex { $0.target < target } }
}

extension Subscription {
    /// A tombstone of an unknown target.
    fileprivate init(of target: UserID, _ type: UInt8?, removedAt wall: Milliseconds, version: Version) {
        self.init(
            target: target, subscribeType: type ?? Self.onlineStatus, subscribedAt: wall, expiresAt: nil, version: version, isRemoved: true)
    }

    /// Whether the entry is of a type; with nil, of any.
    func isOf(_ type: UInt8?) -> Bool { type == nil || type == subscribeType }
}
