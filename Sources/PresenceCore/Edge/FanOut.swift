import PresenceWire

/// The views of this node: for each watched user the newest record, and the node's gateways that subscribe to the user.
///
/// The node answers a query for a watched user from its view, without a hop.
struct FanOut {
    /// A record for the gateways in `mask`.
    struct Delivery {
        let record: Record
        let mask: UInt64
    }

    /// Most gateways of one node: a mask has one bit for each.
    static let gatewaysMax = 64

    private struct View {
        var record: Record
        /// Whether an owner has ever answered the registration, and this node has not stood still since. Nobody is shown another view.
        var isKnown = false
        /// Whether the current owner has answered the registration.
        var isConfirmed = false
        /// Whether the view was confirmed once, and a newer record may have been lost since.
        var isStale = false
        /// One bit for each gateway that subscribes to the user.
        var gateways: UInt64 = 0
        /// The time at which the node stops watching; set while no gateway subscribes to the user.
        var lingerDeadline: Instant?
        /// The pushes of the user that still count (`rate.changes`).
        var allowance = PushPacing.Allowance()
    }

    private let settings: CoreSettings
    private var views = UserTable<View>()
    /// The visibilities as their owners have sent them, of users whose hidden views this node has raised
    /// (``PresenceWire/Record/replacing(_:)``).
    ///
    /// Another owner must receive the original, because a version stands for the same content on all nodes.
    private var originalRules: [UserID: Privacy] = [:]
    private var slots = SlotIndex()
    /// The users whose newest records wait, because they change often.
    private(set) var pacing = PushPacing()
    /// The number of views whose owner has not answered. While there are any, the node cannot claim a complete position.
    private(set) var unconfirmedCount = 0
    /// The number of views that still show what may have been replaced.
    private(set) var staleCount = 0
    /// The complete position: up to then all views of this node were claimed to be complete.
    var completeUpTo: Milliseconds = 0
    private var nextSweep = Instant(nanoseconds: 0)

    init(settings: CoreSettings) { self.settings = settings }

    /// The number of watched users.
    var count: Int { views.count }

    /// Subscribes a gateway to `users`. Returns the users to register with their owners, and the records that are here already.
    mutating func subscribe(_ users: [UserID], gateway: Int) -> (register: [UserID], deliveries: [Delivery]) {
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

    /// Ends a gateway's subscription to `users`. The node watches for a while longer.
    mutating func release(_ users: [UserID], gateway: Int, at now: Now) {
        for user in users {
            guard let index = views.index(of: user) else { continue }
            views[index].gateways &= ~(1 << UInt64(gateway))
            if views[index].gateways == 0 { views[index].lingerDeadline = now.instant + settings.watchLinger }
        }
    }

    /// Receives a record at `time`, by the node's version clock. Stores and delivers it if it is newer.
    ///
    /// - Parameter pace: how often the user is pushed; nil for no limit.
    mutating func receive(_ record: Record, at time: Milliseconds, pace: PushPacing.Pace? = nil) -> Delivery? {
        guard let index = views.index(of: record.user), record.version >= views[index].record.version else { return nil }
        guard record.version > views[index].record.version else { return learn(record.knownSince, of: index) }
        let isUrgent = pace != nil && record.takesAway(from: views[index].record)
        replace(index, by: record, at: time)
        guard views[index].isKnown, views[index].gateways != 0 else { return nil }
        if let pace, pacing.changed(index, &views[index].allowance, isUrgent: isUrgent, pace, position: completeUpTo) == .wait {
            return nil
        }
        return delivery(of: index)
    }

    /// Ends the waits that are over. Returns the newest records of their users, for the gateways.
    mutating func takeDue(_ policies: Policies, at now: Instant) -> [Delivery] {
        var deliveries: [Delivery] = []
        while let index = pacing.firstDue(at: now) {
            if let rate = policies.shared(of: views.user(at: index)).policy.changesRate {
                views[index].allowance.use(PushPacing.Pace(rate: rate, now: now))
            }
            if let delivery = delivery(of: index) { deliveries.append(delivery) }
        }
        return deliveries
    }

    /// Receives an owner's answer to a registration.
    mutating func receive(_ watched: Watched, at time: Milliseconds) -> Delivery? {
        guard let index = views.index(of: watched.user) else { return nil }
        let isNewer = (watched.record?.version ?? .zero) > views[index].record.version
        if isNewer, let record = watched.record { replace(index, by: record, at: time) }
        let (wasKnown, wasDoubted) = (views[index].isKnown, !views[index].isKnown && views[index].isStale)
        views[index].isKnown = true
        if !views[index].isConfirmed {
            views[index].isConfirmed = true
            unconfirmedCount -= 1
            refresh(index)
        }
        if isNewer { return delivery(of: index) }
        let learned = wasKnown || wasDoubted ? learn(watched.knownSince, of: index) : nil
        return wasKnown ? learned : delivery(of: index)
    }

    /// Stores a record with the time from which this node knows it.
    ///
    /// A record older than the complete position comes late, from another side of a split. Clients of this node, or of another that was as
    /// late, may hold a later position without it.
    private mutating func replace(_ index: UserTable<View>.Index, by record: Record, at time: Milliseconds) {
        // A change of the visibility is newer than the content that viewers hold with it.
        let isNews = record.hasPrivacy && record.versionHeld > views[index].record.versionHeld
        let newest = isNews ? record.versionHeld : record.version
        let isLate = (views[index].isKnown || views[index].isStale) && newest.milliseconds < completeUpTo
        let knownSince = views[index].record.knownSince
        views[index].record = record.replacing(views[index].record)
        if record.hasPrivacy || !originalRules.isEmpty {
            originalRules[record.user] = views[index].record.privacy == record.privacy ? nil : record.privacy
        }
        if isLate { views[index].record.knownSince = max(record.knownSince, time) }
        // The hidden views may have the same versions as before, and may be as late.
        if record.hasPrivacy { views[index].record.knownSince = max(views[index].record.knownSince, knownSince) }
    }

    /// Records that another owner took over the same record, and returns it for the gateways.
    ///
    /// The gateways need the time: a client may come from a node without the record that has claimed a later complete position.
    private mutating func learn(_ knownSince: Milliseconds, of index: UserTable<View>.Index) -> Delivery? {
        guard views[index].isKnown, knownSince > views[index].record.knownSince else { return nil }
        views[index].record.knownSince = knownSince
        return delivery(of: index)
    }

    /// The newest record for the gateways. None waits any more.
    private mutating func delivery(of index: UserTable<View>.Index) -> Delivery? {
        pacing.endWait(of: index)
        let mask = views[index].gateways
        return mask == 0 ? nil : Delivery(record: views[index].record, mask: mask)
    }

    /// Marks all users as not registered. Nobody is shown a view before its owner has answered again, and the gateways then get it again.
    mutating func doubt() {
        for index in views.allIndices where views.isLive(index) {
            unconfirm(index)
            views[index].isKnown = false
            pacing.endWait(of: index)
        }
    }

    /// Marks the users for which `isMoved` holds as not registered. Returns them in a fixed order.
    mutating func unconfirm(where isMoved: (UserID) -> Bool) -> [UserID] {
        views.allIndices.filter { views.isLive($0) && isMoved(views.user(at: $0)) }.map { unconfirm($0) }
    }

    /// Marks one user as not registered. Returns whether the user is watched.
    mutating func unconfirm(_ user: UserID) -> Bool {
        guard let index = views.index(of: user) else { return false }
        unconfirm(index)
        return true
    }

    /// The registration to send to the owner of `user`, with the record if the owner may hold an older one.
    func watch(for user: UserID, withRecord: Bool) -> Watch? {
        guard let index = views.index(of: user) else { return nil }
        let record = told(index)
        return Watch(user: user, held: record.version, record: withRecord && record.version > .zero ? record : nil)
    }

    /// The newest record of a watched user whose owner has answered.
    func record(of user: UserID) -> Record? {
        guard let index = views.index(of: user), views[index].isConfirmed else { return nil }
        return views[index].record
    }

    /// The newest record as its owner sent it, whether or not the current owner has answered.
    func recordHeld(of user: UserID) -> Record? {
        guard let index = views.index(of: user), views[index].record.version > .zero else { return nil }
        return told(index)
    }

    private func told(_ index: UserTable<View>.Index) -> Record {
        var record = views[index].record
        if !originalRules.isEmpty, let privacy = originalRules[record.user] { record.privacy = privacy }
        return record
    }

    /// Stops watching users without a subscription for long; returns them. Walks all views, at most once in ten seconds.
    mutating func sweep(at now: Now) -> [UserID] {
        guard nextSweep <= now.instant else { return [] }
        nextSweep = now.instant + .seconds(10)
        var dropped: [UserID] = []
        for index in views.allIndices where views.isLive(index) {
            guard let deadline = views[index].lingerDeadline, deadline <= now.instant else { continue }
            if !views[index].isConfirmed { unconfirmedCount -= 1 }
            refresh(index)
            dropped.append(views.user(at: index))
            slots.remove(index, slot: views.user(at: index).slot)
            if !originalRules.isEmpty { originalRules[views.user(at: index)] = nil }
            pacing.endWait(of: index)
            views.remove(index)
        }
        return dropped
    }

    // MARK: Comparing

    /// Whether a user of the slot is held in the version that `hash` stands for.
    func holds(_ named: SlotHash) -> Bool {
        slots[named.slot].contains { ViewDigest.hash(of: views.user(at: $0), views[$0].record.version) == named.hash }
    }

    /// A hash of the watched users of these slots for which `isWanted` holds.
    func hash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        slots.hash(of: range, where: isWanted) { ViewDigest.hash(of: views.user(at: $0), views[$0].record.version) }
    }

    /// The hash with the times from which the records are known, as nodes compare it after a new link.
    func fullHash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        slots.hash(of: range, where: isWanted) { index in
            let record = views[index].record
            return ViewDigest.hash(ViewDigest.hash(of: views.user(at: index), record.version), knownSince: record.knownSince)
        }
    }

    /// Marks the users of the slots for which `isEqual` holds as registered.
    ///
    /// The owner knows the watches, and no newer record. That equals an answer to their registrations.
    mutating func confirm(slots isEqual: (Slot) -> Bool) -> [Delivery] {
        guard unconfirmedCount > 0 else { return [] }
        return slots.users(where: isEqual).compactMap { index in
            views[index].isConfirmed ? nil : receive(Watched(user: views.user(at: index), record: nil), at: 0)
        }
    }

    /// Marks the users of one slot as not registered; see ``unconfirm(where:)``.
    mutating func unconfirm(_ slot: Slot) -> [UserID] {
        slots[slot].map { unconfirm($0) }
    }

    /// Marks the users of all slots for which `isWanted` holds as not registered.
    @discardableResult mutating func unconfirm(slots isWanted: (Slot) -> Bool) -> [UserID] {
        slots.users(where: isWanted).map { unconfirm($0) }
    }

    @discardableResult private mutating func unconfirm(_ index: UserTable<View>.Index) -> UserID {
        guard views[index].isConfirmed else { return views.user(at: index) }
        (views[index].isConfirmed, views[index].isStale) = (false, true)
        unconfirmedCount += 1
        staleCount += 1
        return views.user(at: index)
    }

    private mutating func refresh(_ index: UserTable<View>.Index) {
        if views[index].isStale { staleCount -= 1 }
        views[index].isStale = false
    }
}
