import PresenceWire

/// The users that this node owns or keeps for another owner, and everything that is derived from them.
///
/// Only ``modify(_:_:)`` changes a user. It then brings the derived values in line:
/// - the hash of the user's slot, by which nodes compare what they keep;
/// - how many users are ONLINE, are replicas, and follow each target;
/// - when the user is reviewed and when a part of it expires.
///
/// The store does no I/O and reads no clock.
struct UserStore {
    typealias Index = UserTable<OwnedUser>.Index

    private var table = UserTable<OwnedUser>()
    /// By slot: the users, and a hash of what is kept of them.
    private var slots = SlotHashes()
    /// When each user is reviewed next, because something ends by itself. Only users that this node owns have one.
    private var reviews = Deadlines<Instant>()
    /// When a tombstone of each user expires next, by the wall clock, whoever owns the user.
    private var expiries = Deadlines<Milliseconds>()
    /// How many of the users that this node owns follow each user.
    private var followers = FollowerCounts()
    /// Users that this node owns and that are ONLINE.
    private(set) var onlineCount = 0
    /// Users that this node keeps for another owner.
    private(set) var replicaCount = 0
    /// How long a blank record is kept: ``CoreSettings/blankHorizon``.
    private let blankHorizon: Milliseconds

    init(blankHorizon: Duration) { self.blankHorizon = blankHorizon.wholeMilliseconds }

    // MARK: Reading

    /// Users in the store.
    var count: Int { table.count }

    /// Every place, live or free, in order; to be walked with ``isLive(_:)``, so that users may change on the way.
    var places: Range<Index> { table.places }

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

    // MARK: Changing

    /// Changes the user at a live index, and brings everything that is derived from it in line.
    @inline(__always) @discardableResult
    mutating func modify<Result>(_ index: Index, _ body: (inout OwnedUser) -> Result) -> Result {
        let (result, before, after) = Self.change(&table[index], blankHorizon, body)
        if after != before || after.isDue { derive(index, from: before, to: after) }
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

    /// Removes a user, with all that is derived from it.
    mutating func remove(_ index: Index) {
        let user = table[index]
        if user.isReplica { replicaCount -= 1 } else { count(user, -1) }
        slots.remove(index, slot: user.slot)
        slots.replace(user.factsHash, by: 0, slot: user.slot)
        reviews.remove(index)
        expiries.remove(index)
        table.remove(index)
    }

    // MARK: Slots

    /// The hash of what is kept of the users of a slot; 0 for nothing.
    func hash(of slot: Slot) -> UInt64 { slots.hash(of: slot) }

    /// The users of a slot, in no particular but a reproducible order.
    func users(of slot: Slot) -> [Index] { slots.users(of: slot) }

    /// The users of ranges of slots, in a reproducible order.
    func users(of ranges: SlotRanges) -> [Index] {
        if ranges == .all { return places.filter(isLive) }
        var found: [Index] = []
        for range in 0..<Message.digestRangesCount where ranges.contains(range: range) {
            for slot in SlotRanges.slots(of: range) { found += users(of: slot) }
        }
        return found
    }

    /// Calls `body` with each slot of which something is known, in order, and its hash.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) { slots.forEachSlot(body) }

    /// Calls `body` with each user of these slots, in their order; empty slots cost nothing.
    func forEachUser(in slots: ClosedRange<Slot>, _ body: (Index) -> Void) { self.slots.forEachUser(in: slots, body) }

    // MARK: Followers

    /// How many of the users that this node owns follow `target`.
    func followersCount(of target: UserID) -> Int { followers.count(of: target) }

    /// Whether one more of the users of this node may follow `target` before another node is asked.
    func hasRoom(for target: UserID, share: Int) -> Bool { followers.hasRoom(for: target, share: share) }

    /// The count of a target's followers for another node. From then on this node must ask before it accepts a follower of `target`.
    mutating func shareFollowersCount(of target: UserID) -> Int { followers.share(target) }

    // MARK: Deadlines

    /// When the next user is to be reviewed.
    var nextReview: Instant { reviews.first?.at ?? .farFuture }

    /// Users that are to be reviewed some time.
    var reviewsCount: Int { reviews.count }

    /// Takes the next user whose review is due.
    mutating func takeReview(at now: Instant) -> Index? {
        guard let next = reviews.first, next.at <= now else { return nil }
        reviews.remove(next.index)
        return next.index
    }

    /// Makes sure that the user is reviewed when something of it ends, and not after `latest`.
    ///
    /// ``modify(_:_:)`` does so for what ends at an instant. What ends at a time of the wall clock needs `now`.
    mutating func scheduleReview(of index: Index, notAfter latest: Instant, at now: Now) {
        review(index, notAfter: min(table[index].nextDeadline(at: now), latest))
    }

    /// Takes the next user of which something expires.
    mutating func takeExpiry(at wall: Milliseconds) -> Index? {
        guard let next = expiries.first, next.at <= wall else { return nil }
        expiries.remove(next.index)
        return next.index
    }

    // MARK: Derived values

    /// The values that the derived values follow from.
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
            expiry = user.nextExpiry(blankHorizon: blankHorizon)
        }

        /// Something ends by itself: a deadline that was taken has to be set again, also when nothing has changed.
        @inline(__always) var isDue: Bool { review < .farFuture || expiry < .max }

        func hasOtherFacts(than other: Inputs) -> Bool {
            version != other.version || customStatusVersion != other.customStatusVersion || privacyVersion != other.privacyVersion
                || subscriptionsHash != other.subscriptionsHash
        }
    }

    @inline(never)
    private mutating func derive(_ index: Index, from before: Inputs, to after: Inputs) {
        if after.hasOtherFacts(than: before) {
            let hash = table[index].currentFactsHash()
            slots.replace(table[index].factsHash, by: hash, slot: table[index].slot)
            table[index].factsHash = hash
        }
        deriveCounts(index, from: before, to: after)
        if !after.isReplica { review(index, notAfter: after.review) }
        if after.expiry < expiries.deadline(of: index) ?? .max { expiries.set(index, at: after.expiry) }
    }

    private mutating func deriveCounts(_ index: Index, from before: Inputs, to after: Inputs) {
        if after.hasChangedFollows {
            let changed = table[index].subscriptions.takeChangedFollows()
            if !before.isReplica { for (target, isFollowed) in changed { followers.change(target, by: isFollowed ? 1 : -1) } }
        }
        if !before.isReplica { onlineCount += (after.isOnline ? 1 : 0) - (before.isOnline ? 1 : 0) }
        guard after.isReplica != before.isReplica else { return }
        count(table[index], after.isReplica ? -1 : 1)
        replicaCount += after.isReplica ? 1 : -1
        if after.isReplica { reviews.remove(index) }
    }

    /// Counts a user whom this node begins (1) or ends (-1) to own.
    private mutating func count(_ user: OwnedUser, _ step: Int) {
        for entry in user.subscriptions.entries where !entry.isRemoved { followers.change(entry.target, by: step) }
        if user.record.statusType == .online { onlineCount += step }
    }

    private mutating func review(_ index: Index, notAfter time: Instant) {
        if time < reviews.deadline(of: index) ?? .farFuture { reviews.set(index, at: time) }
    }
}

// MARK: Invariants

extension UserStore {
    /// Recomputes every derived value, and stops the process at the first that differs. For simulations and tests.
    func checkInvariants() { if let broken = brokenInvariant() { preconditionFailure(broken) } }

    /// The first derived value that is not what it follows from, in words; nil for none.
    func brokenInvariant() -> String? {
        var hashes: [Slot: UInt64] = [:]
        var follows: [UserID: Int] = [:]
        var (onlines, replicas, reviewed) = (0, 0, 0)
        for index in places where isLive(index) {
            let user = table[index]
            if let broken = user.brokenInvariant() ?? brokenDerivation(of: user, at: index) { return broken }
            hashes[user.slot, default: 0] ^= user.factsHash
            if reviews.deadline(of: index) != nil { reviewed += 1 }
            if user.isReplica {
                replicas += 1
                continue
            }
            if user.record.statusType == .online { onlines += 1 }
            for entry in user.subscriptions.entries where !entry.isRemoved { follows[entry.target, default: 0] += 1 }
        }
        guard onlineCount == onlines else { return "\(onlines) users are ONLINE, \(onlineCount) are counted" }
        guard replicaCount == replicas else { return "\(replicas) users are replicas, \(replicaCount) are counted" }
        guard reviews.count == reviewed else { return "\(reviewed) users have a review, \(reviews.count) reviews are set" }
        return followers.brokenInvariant(follows) ?? brokenSlot(hashes)
    }

    private func brokenDerivation(of user: OwnedUser, at index: Index) -> String? {
        var user = user
        let (id, hash) = (user.record.user, user.currentFactsHash())
        guard table.user(at: index) == id else { return "\(id) is in the place of \(table.user(at: index))" }
        guard user.factsHash == hash else { return "\(id): the hash is \(user.factsHash), not \(hash): \(user)" }
        guard slots.users(of: user.slot).count(where: { $0 == index }) == 1 else { return "\(id) is not in its slot \(user.slot)" }
        let (expiry, expires) = (expiries.deadline(of: index) ?? .max, user.nextExpiry(blankHorizon: blankHorizon))
        guard expiry <= expires else { return "\(id): the expiry is set to \(expiry), after \(expires): \(user)" }
        let (review, ends) = (reviews.deadline(of: index), user.nextInstant())
        if user.isReplica { return review.map { "\(id) is a replica and has a review at \($0): \(user)" } }
        return review ?? .farFuture <= ends ? nil : "\(id): the review is set to \(review ?? .farFuture), after \(ends): \(user)"
    }

    private func brokenSlot(_ hashes: [Slot: UInt64]) -> String? {
        var (broken, seenCount, usersCount): (String?, Int, Int) = (nil, 0, 0)
        slots.forEachSlot { slot, hash in
            if hash != hashes[slot] { broken = broken ?? "slot \(slot): the hash is \(hash), not \(hashes[slot] ?? 0)" }
            seenCount += 1
        }
        let knownCount = hashes.count { $0.value != 0 }
        guard broken == nil, seenCount == knownCount else { return broken ?? "\(knownCount) slots have facts, \(seenCount) have a hash" }
        slots.forEachUser(in: 0...Slot(Ring.slotsCount - 1)) { _ in usersCount += 1 }
        return usersCount == count ? nil : "\(count) users are in the table, \(usersCount) in the slots"
    }

    #if DEBUG
        /// Changes a user and leaves every derived value as it was: what ``brokenInvariant()`` must find. For tests.
        mutating func changeWithoutDeriving(_ index: Index, _ body: (inout OwnedUser) -> Void) { body(&table[index]) }
    #endif
}
