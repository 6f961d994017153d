import PresenceWire

/// The users that this node owns or keeps for another owner, and all values derived from them.
///
/// Only ``modify(_:_:)`` and, for durable lists, ``modifyLists(_:_:)`` change a user. They then update the derived values:
/// - the hash of the user's slot, by which nodes compare their facts;
/// - the number of users who are ONLINE, who are replicas, and who follow each target;
/// - the deadlines of the user's review and of the expiry of a part of it.
///
/// The store does no I/O and reads no clock.
struct UserStore {
    typealias Index = UserTable<OwnedUser>.Index

    private var table = UserTable<OwnedUser>()
    /// The users of each slot.
    private var slots = SlotIndex()
    /// A hash of the facts of each slot's users.
    private var slotHashes = SlotHashes()
    /// The next review of each user, because a part of it ends by itself. Only users that this node owns have one.
    private var reviews = Deadlines<Instant>()
    /// The next expiry of a tombstone of each user, by the wall clock, whichever node owns the user.
    private var expiries = Deadlines<Milliseconds>()
    /// The followers of each user among the users that this node owns.
    private var followers = FollowerCounts()
    /// The number of ONLINE users that this node owns.
    private(set) var onlineCount = 0
    /// ``onlineCount`` by app. There are as many apps as the configuration has keys for.
    private var onlineByApp: [Substring: Int] = [:]
    /// The number of users that this node keeps for another owner.
    private(set) var replicaCount = 0
    /// The allocated bytes and the rows of all durable lists, of users owned here or kept for others.
    private(set) var listsSize = UserLists.Size()
    /// The time that a blank record is kept: ``CoreSettings/blankHorizon``.
    private let blankHorizon: Milliseconds

    init(blankHorizon: Duration) { self.blankHorizon = blankHorizon.wholeMilliseconds }

    // MARK: Reading

    /// The number of users in the store.
    var count: Int { table.count }

    /// All indices, live or free, in order. Check each with ``isLive(_:)``, so that users may change during the walk.
    var allIndices: Range<Index> { table.allIndices }

    /// Whether a user lives at `index`.
    func isLive(_ index: Index) -> Bool { table.isLive(index) }

    /// The index of `user`, if it is here.
    func index(of user: UserID) -> Index? { table.index(of: user) }

    /// The ID of the user at a live index.
    func user(at index: Index) -> UserID { table.user(at: index) }

    /// The user at a live index.
    subscript(index: Index) -> OwnedUser {
        _read { yield table[index] }
    }

    /// The number of ONLINE users of an app that this node owns.
    func onlineCount(of app: String) -> Int { onlineByApp[app[...]] ?? 0 }

    // MARK: Changing

    /// Changes the user at a live index, and updates all derived values.
    @inline(__always) @discardableResult
    mutating func modify<Result>(_ index: Index, _ body: (inout OwnedUser) -> Result) -> Result {
        let (result, before, after) = Self.change(&table[index], blankHorizon, body)
        if after != before || after.isDue { derive(index, from: before, to: after) }
        return result
    }

    /// Changes the durable lists of the user at a live index, and updates the values that derive from them.
    ///
    /// It is a function of its own because few changes of a user concern them, and ``modify(_:_:)`` would compare them at every change.
    @discardableResult
    mutating func modifyLists<Result>(_ index: Index, _ body: (inout UserLists) -> Result) -> Result {
        listsSize -= table[index].lists.size
        let result = body(&table[index].lists)
        listsSize += table[index].lists.size
        deriveHash(index)
        let expiry = table[index].nextExpiry(blankHorizon: blankHorizon)
        if expiry < expiries.deadline(of: index) ?? .max { expiries.set(index, at: expiry) }
        return result
    }

    @inline(__always)
    private static func change<Result>(
        _ user: inout OwnedUser, _ blankHorizon: Milliseconds, _ body: (inout OwnedUser) -> Result
    ) -> (Result, before: Inputs, after: Inputs) {
        let before = Inputs(&user, blankHorizon)
        let result = body(&user)
        return (result, before, Inputs(&user, blankHorizon))
    }

    /// The index of `user`; a blank one is inserted if it is not here.
    mutating func insert(_ user: UserID) -> (index: Index, isNew: Bool) {
        let found = table.index(of: user, orInsert: OwnedUser(record: Record(blank: user)))
        if found.isNew { slots.insert(found.index, slot: table[found.index].slot) }
        return found
    }

    /// Removes a user and its derived values.
    mutating func remove(_ index: Index) {
        let user = table[index]
        if user.isReplica { replicaCount -= 1 } else { count(user, -1) }
        listsSize -= user.lists.size
        slots.remove(index, slot: user.slot)
        slotHashes.replace(user.factsHash, by: 0, slot: user.slot)
        reviews.remove(index)
        expiries.remove(index)
        table.remove(index)
    }

    // MARK: Slots

    /// The hash of the facts of a slot's users; 0 for none.
    func hash(of slot: Slot) -> UInt64 { slotHashes.hash(of: slot) }

    /// The users of a slot, in a reproducible order.
    func users(of slot: Slot) -> [Index] { slots[slot] }

    /// The users of ranges of slots, in a reproducible order.
    func users(of ranges: SlotRanges) -> [Index] {
        if ranges == .all { return allIndices.filter(isLive) }
        var found: [Index] = []
        for range in 0..<Message.digestRangesCount where ranges.contains(range: range) {
            for slot in SlotRanges.slots(of: range) { found += users(of: slot) }
        }
        return found
    }

    /// Calls `body` with each slot that has facts, in order, and its hash.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) { slotHashes.forEachSlot(body) }

    /// Calls `body` with each user of these slots, in the order of the slots. Empty slots cost nothing.
    func forEachUser(in slots: ClosedRange<Slot>, _ body: (Index) -> Void) { self.slots.forEach(in: slots) { body($1) } }

    // MARK: Followers

    /// The number of users that this node owns who follow `target`.
    func followersCount(of target: UserID) -> Int { followers.count(of: target) }

    /// Whether this node may accept one more follower of `target` without asking another node.
    func hasRoom(for target: UserID, share: Int) -> Bool { followers.hasRoom(for: target, share: share) }

    /// The count of a target's followers for another node. From then on this node must ask before it accepts a follower of `target`.
    mutating func shareFollowersCount(of target: UserID) -> Int { followers.share(target) }

    // MARK: Deadlines

    /// The time of the next review.
    var nextReview: Instant { reviews.first?.at ?? .farFuture }

    /// The number of users with a scheduled review.
    var reviewsCount: Int { reviews.count }

    /// Takes the next user whose review is due.
    mutating func takeReview(at now: Instant) -> Index? {
        guard let next = reviews.first, next.at <= now else { return nil }
        reviews.remove(next.index)
        return next.index
    }

    /// Schedules the user's review for when a part of it ends, and not after `latest`.
    ///
    /// ``modify(_:_:)`` does so for parts that end at an instant. Parts that end at a time of the wall clock need `now`.
    mutating func scheduleReview(of index: Index, notAfter latest: Instant, at now: Now) {
        review(index, notAfter: min(table[index].nextDeadline(at: now), latest))
    }

    /// Takes the next user with a due expiry.
    mutating func takeExpiry(at wall: Milliseconds) -> Index? {
        guard let next = expiries.first, next.at <= wall else { return nil }
        expiries.remove(next.index)
        return next.index
    }

    // MARK: Derived values

    /// The values from which the derived values follow.
    private struct Inputs: Equatable {
        let version: Version
        let customStatusVersion: Version
        let privacyVersion: Version
        let subscriptionsHash: UInt64
        let isOnline: Bool
        let isReplica: Bool
        let hasChangedFollows: Bool
        let review: Instant
        let expiry: Milliseconds

        @inline(__always)
        init(_ user: inout OwnedUser, _ blankHorizon: Milliseconds) {
            version = user.record.version
            customStatusVersion = user.record.customStatusVersion
            privacyVersion = user.record.hasPrivacy ? user.record.privacy?.version ?? .zero : .zero
            subscriptionsHash = user.subscriptions.hash
            isOnline = user.record.statusType == .online
            isReplica = user.isReplica
            hasChangedFollows = user.subscriptions.hasChangedFollows
            review = user.nextInstant()
            expiry = user.nextExpiryWithoutLists(blankHorizon: blankHorizon)
        }

        /// Whether a part ends by itself. A deadline that was taken must be set again, even if nothing has changed.
        @inline(__always) var isDue: Bool { review < .farFuture || expiry < .max }

        func hasOtherFacts(than other: Inputs) -> Bool {
            version != other.version || customStatusVersion != other.customStatusVersion || privacyVersion != other.privacyVersion
                || subscriptionsHash != other.subscriptionsHash
        }
    }

    @inline(never)
    private mutating func derive(_ index: Index, from before: Inputs, to after: Inputs) {
        if after.hasOtherFacts(than: before) { deriveHash(index) }
        deriveCounts(index, from: before, to: after)
        if !after.isReplica { review(index, notAfter: after.review) }
        if after.expiry < expiries.deadline(of: index) ?? .max { expiries.set(index, at: after.expiry) }
    }

    private mutating func deriveHash(_ index: Index) {
        let hash = table[index].currentFactsHash()
        slotHashes.replace(table[index].factsHash, by: hash, slot: table[index].slot)
        table[index].factsHash = hash
    }

    private mutating func deriveCounts(_ index: Index, from before: Inputs, to after: Inputs) {
        if after.hasChangedFollows {
            let changed = table[index].subscriptions.takeChangedFollows()
            if !before.isReplica { for (target, isFollowed) in changed { followers.change(target, by: isFollowed ? 1 : -1) } }
        }
        if !before.isReplica, after.isOnline != before.isOnline { countOnline(table[index].record.user, after.isOnline ? 1 : -1) }
        guard after.isReplica != before.isReplica else { return }
        count(table[index], after.isReplica ? -1 : 1)
        replicaCount += after.isReplica ? 1 : -1
        if after.isReplica { reviews.remove(index) }
    }

    /// Counts a user whom this node starts (1) or ceases (-1) to own.
    private mutating func count(_ user: OwnedUser, _ step: Int) {
        for entry in user.subscriptions.entries where !entry.isRemoved { followers.change(entry.target, by: step) }
        if user.record.statusType == .online { countOnline(user.record.user, step) }
    }

    private mutating func countOnline(_ user: UserID, _ step: Int) {
        onlineCount += step
        onlineByApp[user.app, default: 0] += step
    }

    private mutating func review(_ index: Index, notAfter time: Instant) {
        if time < reviews.deadline(of: index) ?? .farFuture { reviews.set(index, at: time) }
    }
}

// MARK: Invariants

extension UserStore {
    /// Recomputes every derived value, and stops the process at the first difference. For simulations and tests.
    func checkInvariants() { if let broken = brokenInvariant() { preconditionFailure(broken) } }

    /// The first derived value that does not match its inputs, in words; nil for none.
    func brokenInvariant() -> String? {
        var hashes: [Slot: UInt64] = [:]
        var follows: [UserID: Int] = [:]
        var (onlines, replicas, reviewed) = (0, 0, 0)
        var onlinesByApp: [Substring: Int] = [:]
        var size = UserLists.Size()
        for index in allIndices where isLive(index) {
            let user = table[index]
            if let broken = user.brokenInvariant() ?? brokenDerivation(of: user, at: index) { return broken }
            hashes[user.slot, default: 0] ^= user.factsHash
            size += user.lists.size
            if reviews.deadline(of: index) != nil { reviewed += 1 }
            if user.isReplica {
                replicas += 1
                continue
            }
            if user.record.statusType == .online {
                onlines += 1
                onlinesByApp[user.record.user.app, default: 0] += 1
            }
            for entry in user.subscriptions.entries where !entry.isRemoved { follows[entry.target, default: 0] += 1 }
        }
        guard onlineCount == onlines else { return "\(onlines) users are ONLINE, \(onlineCount) are counted" }
        guard onlineByApp.filter({ $0.value != 0 }) == onlinesByApp else { return "\(onlinesByApp) are ONLINE, \(onlineByApp) are counted" }
        guard replicaCount == replicas else { return "\(replicas) users are replicas, \(replicaCount) are counted" }
        guard listsSize == size else { return "the lists take \(size), \(listsSize) is counted" }
        guard reviews.count == reviewed else { return "\(reviewed) users have a review, \(reviews.count) reviews are set" }
        return followers.brokenInvariant(follows) ?? brokenSlot(hashes)
    }

    private func brokenDerivation(of user: OwnedUser, at index: Index) -> String? {
        var user = user
        let (id, hash) = (user.record.user, user.currentFactsHash())
        guard table.user(at: index) == id else { return "\(id) is in the place of \(table.user(at: index))" }
        guard user.factsHash == hash else { return "\(id): the hash is \(user.factsHash), not \(hash): \(user)" }
        guard slots[user.slot].count(where: { $0 == index }) == 1 else { return "\(id) is not in its slot \(user.slot)" }
        let (expiry, expires) = (expiries.deadline(of: index) ?? .max, user.nextExpiry(blankHorizon: blankHorizon))
        guard expiry <= expires else { return "\(id): the expiry is set to \(expiry), after \(expires): \(user)" }
        let (review, ends) = (reviews.deadline(of: index), user.nextInstant())
        if user.isReplica { return review.map { "\(id) is a replica and has a review at \($0): \(user)" } }
        return review ?? .farFuture <= ends ? nil : "\(id): the review is set to \(review ?? .farFuture), after \(ends): \(user)"
    }

    private func brokenSlot(_ hashes: [Slot: UInt64]) -> String? {
        var (broken, seenCount, usersCount): (String?, Int, Int) = (nil, 0, 0)
        slotHashes.forEachSlot { slot, hash in
            if hash != hashes[slot] { broken = broken ?? "slot \(slot): the hash is \(hash), not \(hashes[slot] ?? 0)" }
            seenCount += 1
        }
        let knownCount = hashes.count { $0.value != 0 }
        guard broken == nil, seenCount == knownCount else { return broken ?? "\(knownCount) slots have facts, \(seenCount) have a hash" }
        slots.forEach(in: 0...Slot(Ring.slotsCount - 1)) { _, _ in usersCount += 1 }
        return usersCount == count ? nil : "\(count) users are in the table, \(usersCount) in the slots"
    }

    #if DEBUG
        /// Changes a user without updating the derived values, which ``brokenInvariant()`` must find. For tests.
        mutating func changeWithoutDeriving(_ index: Index, _ body: (inout OwnedUser) -> Void) { body(&table[index]) }
    #endif
}
