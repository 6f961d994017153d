import PresenceWire

/// The durable subscription list of one user, which the user's owner keeps (T19–T27, Z9–Z12, Z19, Z20), by target.
typealias Subscriptions = TypedList<SubscriptionRows>

extension Subscription: ListEntry {
    var key: UserID { target }
    var isUnseen: Bool { false }
}

/// The subscriptions of one user in memory, and the news about them for the counts of followers.
struct SubscriptionRows: ListStorage {
    fileprivate(set) var entries: [Subscription] = []

    /// The targets that began or ceased to be followed since the last ``TypedList/takeChangedFollows()``.
    fileprivate var changedFollows: [(target: UserID, isFollowed: Bool)] = []

    var count: Int { entries.count }

    func find(_ target: UserID) -> (index: Int, isFound: Bool) {
        let index = entries.insertionIndex { $0.target < target }
        return (index, index < entries.count && entries[index].target == target)
    }

    func entry(at index: Int) -> Subscription { entries[index] }

    func version(at index: Int) -> Version { entries[index].version }

    func isRemoved(at index: Int) -> Bool { entries[index].isRemoved }

    func isUnseen(at index: Int) -> Bool { false }

    func keyHash(at index: Int) -> UInt64 { entries[index].target.withBytes { StableHash.hash64($0) } }

    mutating func write(_ entry: Subscription, at index: Int, replaces: Bool) {
        let wasFollowed = replaces && !entries[index].isRemoved
        if entry.isRemoved == wasFollowed { changedFollows.append((entry.target, !entry.isRemoved)) }
        if replaces { entries[index] = entry } else { entries.insert(entry, at: index) }
    }

    mutating func remove(_ indices: [Int]) { entries.removeAll(at: indices) }

    func brokenInvariant() -> String? {
        guard zip(entries, entries.dropFirst()).allSatisfy({ $0.target < $1.target }) else { return "an unsorted list: \(entries)" }
        return changedFollows.isEmpty ? nil : "changed follows are not counted: \(changedFollows)"
    }
}

extension Subscriptions {
    /// The subscriptions by target, tombstones included.
    var entries: [Subscription] { rows.entries }

    /// Whether ``takeChangedFollows()`` has something to return.
    var hasChangedFollows: Bool { !rows.changedFollows.isEmpty }

    mutating func takeChangedFollows() -> [(target: UserID, isFollowed: Bool)] { rows.changedFollows.takeAll() }

    /// The live entries, by target.
    var live: [Subscription] { entries.filter { !$0.isRemoved } }

    /// The live entry for `target`.
    func subscription(to target: UserID) -> Subscription? {
        let (index, isFound) = rows.find(target)
        return isFound && !entries[index].isRemoved ? entries[index] : nil
    }

    /// One page of the live entries of a type; with nil, of any.
    func page(of type: UInt8? = nil, offset: Int, limit: Int) -> [Subscription] {
        Array(entries.lazy.filter { !$0.isRemoved && $0.isOf(type) }.dropFirst(max(offset, 0)).prefix(max(limit, 0)))
    }

    /// Records that a new entry was sent to the gateways when the version clock showed `time`.
    mutating func observe(_ target: UserID, at time: Milliseconds) {
        let (index, isFound) = rows.find(target)
        if isFound, entries[index].observedAt == .max { rows.entries[index].observedAt = time }
    }

    /// Records that all entries became known when the version clock showed `time`, except those not sent yet.
    mutating func observeAll(at time: Milliseconds) {
        for index in entries.indices { rows.entries[index].observedAt = max(entries[index].observedAt, time) }
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
        var active = self
        active.removeRows(at: byVersion { !$1 }.prefix(liveCount - countMax).map(\.index))
        return active
    }

    /// The live entries, the earliest first. Not by the time of a wall clock, which may jump.
    var order: [Subscription] { byVersion { !$1 }.map { entries[$0.index] } }

    /// The outcome of an earlier attempt of a call that started at `start`: the targets that it added, and those that it evicted for them.
    ///
    /// Both have consecutive versions of the same node. The clock of the called node may be behind, so that an older call has later
    /// versions too. But such a call does not have the same targets.
    func done(_ targets: [UserID], since start: Version?) -> (added: [Subscription], evicted: [Subscription]) {
        guard let start else { return ([], []) }
        let added = targets.compactMap { subscription(to: $0) }.filter { $0.version > start }
        guard let version = added.map(\.version).sorted().first(where: { wroteJust(targets, $0) }) else { return ([], []) }
        let eviction = Version(stamp: version.stamp + 1, node: version.node)
        return (added.filter { $0.version >= version }, entries.filter { $0.isRemoved && $0.version == eviction })
    }

    /// Whether a call whose entries have this version can have had exactly `targets`. They may have changed since.
    private func wroteJust(_ targets: [UserID], _ version: Version) -> Bool {
        let written = targets.allSatisfy { target in entry(for: target).map { $0.version >= version } ?? false }
        return written && entries.allSatisfy { $0.version != version || targets.contains($0.target) }
    }

    /// The live entries that have expired.
    func expired(at wall: Milliseconds) -> [Subscription] { live.filter { ($0.expiresAt ?? .max) <= wall } }

    /// Removes `targets`, or all with nil; of one type, or with nil of any. Returns the new tombstones.
    mutating func remove(_ targets: [UserID]?, of type: UInt8? = nil, version: Version) -> [Subscription] {
        let found = targets.map { $0.compactMap { subscription(to: $0) } } ?? live
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
            let unknown = unknownAt.map { Subscription(of: target, type, removedAt: $0, version: version) }
            guard var tombstone = entry(for: target) ?? unknown, tombstone.isRemoved, tombstone.isOf(type) else { continue }
            tombstone.version = version
            if merge(tombstone) { others.append(tombstone) }
        }
        return (ended, others)
    }

    /// The tombstones of `targets`, or all with nil.
    func tombstones(of targets: [UserID]?) -> [Subscription] {
        (targets.map { $0.compactMap { entry(for: $0) } } ?? entries).filter(\.isRemoved)
    }

    /// The time at which the next live entry ends.
    var nextExpiry: Milliseconds? {
        entries.lazy.filter { !$0.isRemoved }.compactMap(\.expiresAt).min()
    }

    private mutating func remove(_ entry: Subscription, version: Version) -> Subscription {
        var tombstone = entry
        tombstone.isRemoved = true
        tombstone.version = version
        _ = merge(tombstone)
        return tombstone
    }
}

extension Subscriptions {
    /// The subscriptions to profiles (R3, types 2 and 4), from the rows of the user's list, without tombstones.
    init(profiles list: RowList, of user: UserID) {
        self.init()
        for entry in list.entries {
            guard let fact: ProfileSubscription = entry.fact(of: user) else { continue }
            let subscription = Subscription(
                target: UserID(entry.key, besides: user), subscribeType: fact.subscribeType, subscribedAt: fact.subscribedAt,
                expiresAt: entry.expiresAt, version: entry.version)
            _ = merge(subscription)
        }
    }
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

extension [Subscription] {
    /// The subscriptions, the earliest change first.
    var earliestFirst: [Subscription] { sorted { ($0.version, $0.target) < ($1.version, $1.target) } }
}
