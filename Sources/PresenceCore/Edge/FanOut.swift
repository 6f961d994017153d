import PresenceWire

/// For each user that somebody on this node watches: the newest record held (the *view*), and which of the node's gateways want it.
/// A query for a watched user is answered from here, without a hop.
struct FanOut {
    /// A record for the gateways in `mask`.
    struct Delivery {
        let record: Record
        let mask: UInt64
    }

    /// Gateways that one node can have: a mask of one bit each.
    static let gatewaysMax = 64

    private struct View {
        var record: Record
        /// An owner has said once what it knows.
        var isKnown = false
        /// The owner that the ring names now has answered the registration.
        var isConfirmed = false
        /// What is shown was confirmed once, and something newer may have been lost since.
        var isStale = false
        /// One bit for each gateway that wants the user.
        var gateways: UInt64 = 0
        /// When the node stops watching; set while nobody wants the user.
        var lingerDeadline: Instant?
    }

    typealias Index = UserTable<Int>.Index

    private let settings: CoreSettings
    private var views = UserTable<View>()
    /// Of users whose faces were given newer versions here (``PresenceWire/Record/replacing(_:)``): who may see them, as their owners told
    /// it. Another owner is to take over that, for two nodes may keep only one thing under one version.
    private var rulesTold: [UserID: Privacy] = [:]
    private var slots = SlotIndex()
    /// Views whose owner has not answered: while there are any, the node cannot say up to when its views are complete.
    private(set) var unconfirmedCount = 0
    /// Views that go on to show what may have been replaced.
    private(set) var staleCount = 0
    /// Up to then all that is shown here was said to be complete.
    var completeUpTo: Milliseconds = 0
    private var nextSweep = Instant(nanoseconds: 0)

    init(settings: CoreSettings) { self.settings = settings }

    /// Users watched.
    var count: Int { views.count }

    /// A gateway wants `users`: returns those to register with their owners, and what is known already.
    mutating func want(_ users: [UserID], gateway: Int) -> (register: [UserID], deliveries: [Delivery]) {
        var register: [UserID] = []
        var deliveries: [Delivery] = []
        for user in users {
            let (index, isNew) = views.index(of: user, orInsert: View(record: Record(blank: user)))
            views[index].gateways |= 1 << UInt64(gateway)
            views[index].lingerDeadline = nil
            if isNew {
                slots.insert(index, slot: user.slot)
                unconfirmedCount += 1
                register.append(user)
            } else if views[index].isKnown {
                deliveries.append(Delivery(record: views[index].record, mask: 1 << UInt64(gateway)))
            }
        }
        return (register, deliveries)
    }

    /// A gateway wants `users` no longer; the node goes on watching for a while.
    mutating func unwant(_ users: [UserID], gateway: Int, at now: Now) {
        for user in users {
            guard let index = views.index(of: user) else { continue }
            views[index].gateways &= ~(1 << UInt64(gateway))
            if views[index].gateways == 0 { views[index].lingerDeadline = now.instant + settings.watchLinger }
        }
    }

    /// A record has come at `time`, by the node's clock of versions: kept and delivered if it is newer.
    mutating func receive(_ record: Record, at time: Milliseconds) -> Delivery? {
        guard let index = views.index(of: record.user), record.version > views[index].record.version else {
            guard let index = views.index(of: record.user), record.version == views[index].record.version else { return nil }
            return learn(record.knownSince, of: index)
        }
        replace(index, by: record, at: time)
        guard views[index].isKnown else { return nil }
        return delivery(of: index)
    }

    /// An owner has answered a registration.
    mutating func receive(_ watched: Watched, at time: Milliseconds) -> Delivery? {
        guard let index = views.index(of: watched.user) else { return nil }
        if !views[index].isConfirmed {
            views[index].isConfirmed = true
            unconfirmedCount -= 1
            refresh(index)
        }
        let isNewer = (watched.record?.version ?? .zero) > views[index].record.version
        if isNewer, let record = watched.record { replace(index, by: record, at: time) }
        let wasKnown = views[index].isKnown
        views[index].isKnown = true
        return isNewer || !wasKnown ? delivery(of: index) : learn(watched.knownSince, of: index)
    }

    /// What is older than what was said to be complete comes from another side of a split, late: who has come to this node since, or comes
    /// from one that had it as late, was told so before anybody knew it.
    private mutating func replace(_ index: UserTable<View>.Index, by record: Record, at time: Milliseconds) {
        let isLate = views[index].isKnown && record.version.milliseconds < completeUpTo
        let knownSince = views[index].record.knownSince
        views[index].record = record.replacing(views[index].record)
        if record.hasPrivacy || !rulesTold.isEmpty {
            rulesTold[record.user] = views[index].record.privacy == record.privacy ? nil : record.privacy
        }
        if isLate { views[index].record.knownSince = max(record.knownSince, time) }
        // What those are shown who may not see the user may be what it was before, and as late.
        if record.hasPrivacy { views[index].record.knownSince = max(views[index].record.knownSince, knownSince) }
    }

    /// What is held is the newest, but another owner has begun to answer for it: the gateways must know, because who comes to them may have
    /// been told by a node which did not hold it that all up to a later time is complete.
    private mutating func learn(_ knownSince: Milliseconds, of index: UserTable<View>.Index) -> Delivery? {
        guard views[index].isKnown, knownSince > views[index].record.knownSince else { return nil }
        views[index].record.knownSince = knownSince
        return delivery(of: index)
    }

    private func delivery(of index: UserTable<View>.Index) -> Delivery? {
        let mask = views[index].gateways
        return mask == 0 ? nil : Delivery(record: views[index].record, mask: mask)
    }

    /// The users for whom `isMoved` says that they must be registered anew, in a fixed order.
    mutating func unconfirm(where isMoved: (UserID) -> Bool) -> [UserID] {
        var moved: [UserID] = []
        for index in views.places where views.isLive(index) && isMoved(views.user(at: index)) {
            unconfirm(index)
            moved.append(views.user(at: index))
        }
        return moved
    }

    /// The same for one user. Returns whether the user is watched.
    mutating func unconfirm(_ user: UserID) -> Bool {
        guard let index = views.index(of: user) else { return false }
        unconfirm(index)
        return true
    }

    /// What to say to the owner of `user`; with the record itself when the owner may know less.
    func watch(for user: UserID, withRecord: Bool) -> Watch? {
        guard let index = views.index(of: user) else { return nil }
        let record = told(index)
        return Watch(user: user, held: record.version, record: withRecord && record.version > .zero ? record : nil)
    }

    /// The newest record held of a user that is watched, and whose owner has answered.
    func record(of user: UserID) -> Record? {
        guard let index = views.index(of: user), views[index].isConfirmed else { return nil }
        return views[index].record
    }

    /// The newest record held, as its owner told it; whether the owner of now has answered or not.
    func recordHeld(of user: UserID) -> Record? {
        guard let index = views.index(of: user), views[index].record.version > .zero else { return nil }
        return told(index)
    }

    private func told(_ index: UserTable<View>.Index) -> Record {
        var record = views[index].record
        if !rulesTold.isEmpty, let privacy = rulesTold[record.user] { record.privacy = privacy }
        return record
    }

    /// Stops watching those nobody has wanted for long; returns them. Walks all views, at most once in ten seconds.
    mutating func sweep(at now: Now) -> [UserID] {
        guard nextSweep <= now.instant else { return [] }
        nextSweep = now.instant + .seconds(10)
        var dropped: [UserID] = []
        for index in views.places where views.isLive(index) {
            guard let deadline = views[index].lingerDeadline, deadline <= now.instant else { continue }
            if !views[index].isConfirmed { unconfirmedCount -= 1 }
            refresh(index)
            dropped.append(views.user(at: index))
            slots.remove(index, slot: views.user(at: index).slot)
            if !rulesTold.isEmpty { rulesTold[views.user(at: index)] = nil }
            views.remove(index)
        }
        return dropped
    }

    // MARK: Comparing

    /// Whether a user of the slot is held in the version that `hash` names.
    func holds(_ named: SlotHash) -> Bool {
        slots[named.slot].contains { ViewDigest.hash(of: views.user(at: $0), views[$0].record.version) == named.hash }
    }

    /// What is watched of those of these slots for which `isWanted` holds, as a hash.
    func hash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        var hash: UInt64 = 0
        slots.forEach(in: range) { slot, index in
            if isWanted(slot) { hash ^= ViewDigest.hash(of: views.user(at: index), views[index].record.version) }
        }
        return hash
    }

    /// The same with what else an owner says of them, as it is compared after a reset.
    func fullHash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        var hash: UInt64 = 0
        slots.forEach(in: range) { slot, index in
            guard isWanted(slot) else { return }
            let record = views[index].record
            hash ^= ViewDigest.hash(ViewDigest.hash(of: views.user(at: index), record.version), knownSince: record.knownSince)
        }
        return hash
    }

    /// The owner of the slots for which `isEqual` holds knows who is watched here, and nothing newer than what is held: as if it had answered
    /// their registrations.
    mutating func confirm(slots isEqual: (Slot) -> Bool) -> [Delivery] {
        guard unconfirmedCount > 0 else { return [] }
        return slots.users(where: isEqual).compactMap { index in
            views[index].isConfirmed ? nil : receive(Watched(user: views.user(at: index), record: nil), at: 0)
        }
    }

    /// See ``unconfirm(where:)``, for the users of one slot.
    mutating func unconfirm(_ slot: Slot) -> [UserID] {
        slots[slot].map { index in
            unconfirm(index)
            return views.user(at: index)
        }
    }

    /// The same for all slots for which `isWanted` holds.
    @discardableResult mutating func unconfirm(slots isWanted: (Slot) -> Bool) -> [UserID] {
        slots.users(where: isWanted).map { index in
            unconfirm(index)
            return views.user(at: index)
        }
    }

    private mutating func unconfirm(_ index: UserTable<View>.Index) {
        guard views[index].isConfirmed else { return }
        (views[index].isConfirmed, views[index].isStale) = (false, true)
        unconfirmedCount += 1
        staleCount += 1
    }

    private mutating func refresh(_ index: UserTable<View>.Index) {
        if views[index].isStale { staleCount -= 1 }
        views[index].isStale = false
    }
}
