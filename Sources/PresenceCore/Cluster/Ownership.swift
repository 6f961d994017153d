import PresenceWire

/// The slots that this node may decide about: by the present ring, by the next one, and by the rows that it still has to receive.
///
/// Only this type knows that a ring is changing. Each node offers every other node the slots that the other keeps (``Handoff``). A slot
/// that is new to its owner is acquiring until all members have answered, because any of them may have an acknowledged change.
///
/// The Architecture page has the table of the transitions. `OwnershipTests` has a test for each.
struct Ownership {
    /// A ring that is prepared while the present one holds.
    ///
    /// Each node fetches the rows that it keeps by it, and all change when all have them.
    struct Preparation {
        let placement: Placement
        /// The time from which the ring holds, whichever nodes are missing.
        fileprivate(set) var deadline: Instant
    }

    /// How the ring of the members relates to the present one.
    enum RingState {
        /// The members are those of the present ring. `joined` is the present ring when other nodes still prepare it.
        case stable(joined: Preparation?)
        /// The members have changed, and the ring with this ID is being computed. `other` is a preparation of another ring, which goes on.
        case computing(id: UInt64, other: Preparation?)
        /// The next ring is known and prepared.
        case preparing(Preparation)

        /// The ID of the ring of the members; nil when it is the present one.
        var awaitedID: UInt64? {
            switch self {
            case .stable: nil
            case .computing(let id, _): id
            case .preparing(let preparation): preparation.placement.id
            }
        }

        var preparation: Preparation? {
            switch self {
            case .stable(let preparation), .computing(_, let preparation): preparation
            case .preparing(let preparation): preparation
            }
        }

        fileprivate init(awaitedID: UInt64?, _ preparation: Preparation?) {
            switch (awaitedID, preparation) {
            case (nil, let preparation): self = .stable(joined: preparation)
            case (let id?, let preparation?) where preparation.placement.id == id: self = .preparing(preparation)
            case (let id?, let preparation): self = .computing(id: id, other: preparation)
            }
        }
    }

    /// A reason why the present ring cannot hold until the next one is prepared. A later case includes those before it.
    enum Demotion: Int, Comparable {
        case none
        /// A member has died, restarted, or come back.
        case abruptChange
        /// This node was on the smaller side of a split. Its decisions give way at the next change of the ring.
        case smallerSide
        /// The other members declared this node dead. Its rows may be old, even if the ring stays the same.
        case declaredDead

        static func < (left: Demotion, right: Demotion) -> Bool { left.rawValue < right.rawValue }
    }

    /// Whether this node may claim that its views are complete.
    enum Completeness: Equatable {
        case complete
        /// Since this version the node may decide without the rows of the others.
        case incomplete(since: Version)
        /// A member has come back to this node while it was alone.
        ///
        /// Other nodes may have gone on together. This node asks all of them again, even if the ring stays the same.
        case contacted(incompleteSince: Version?)

        var incompleteSince: Version? {
            switch self {
            case .complete: nil
            case .incomplete(let since): since
            case .contacted(let since): since
            }
        }
    }

    /// The progress of this process with the slots that it loaded from its disk.
    private enum Start {
        /// It owns no slots yet, and has no contact points.
        case alone
        /// It owns no slots yet, and may find another node through a contact point.
        case joining
        /// It has owned its slots once.
        case finished
    }

    /// An action that the node carries out, in order.
    enum Output {
        /// Compute the ring of the members.
        case computeRing
        /// Change the present ring, and start its transfer with ``change(to:at:)``.
        case change(to: Placement)
        /// The present ring has changed: users have another owner.
        case changed(from: Placement, to: Placement)
        /// All members are asked again by the present ring: ``beginTransfer(isDemoted:at:)``.
        case beginTransfer
        /// Offer each linked peer the slots that it keeps by the prepared ring.
        case offerPrepared
        /// Send each member the completion of the prepared ring.
        case announcePrepared
        /// Assume that subscription lists may lack entries: members are gone that may have known more.
        case listsMayLackEntries
        /// Assume that subscription lists are complete: all rows of the members have arrived.
        case listsAreComplete
        /// Nothing may have to move any more. The rows that this node does not keep are deleted, unless others may still need them.
        ///
        /// The members are those of the present ring again, a preparation has ended without a change, or a transfer is complete.
        case settled
        /// The acquiring slots are active. `isFirst` the first time in this process.
        case activated(isFirst: Bool)
    }

    /// The present ring as a placement on this node's peers.
    private(set) var placement: Placement
    private(set) var ring = RingState.stable(joined: nil)
    private(set) var demotion = Demotion.none
    private(set) var completeness = Completeness.complete
    /// The transfer by the present ring.
    private(set) var transfer: Handoff
    /// The transfer by the prepared ring.
    private(set) var prefetch: Handoff
    private var start: Start
    private let settings: CoreSettings

    /// Makes the state before the first input: the node owns all slots, and has yet to join others if `joins` is true.
    init(own: Peer, joins: Bool, settings: CoreSettings) {
        self.init(
            placement: Placement([(Ring.Member(id: own.id, weight: Int(own.weight)), 0)]), generation: own.generation, joins: joins,
            settings: settings)
    }

    init(placement: Placement, generation: UInt64, joins: Bool, settings: CoreSettings) {
        self.placement = placement
        self.settings = settings
        start = joins ? .joining : .alone
        transfer = Handoff(generation: generation)
        prefetch = transfer
        transfer.begin(ring: placement.id, isDemoted: joins, deadline: .farFuture, isOwned: placement.isOwn)
        if !joins { transfer.activate(isOwned: placement.isOwn) }
    }

    // MARK: Reading

    /// The peer that owns a user by the present ring.
    func owner(of user: UserID) -> PeerIndex { placement.owner(of: user) }

    /// Whether this node decides about a slot now.
    func decides(_ slot: Slot) -> Bool { placement.owner(of: slot) == 0 && transfer.isActive(slot) }

    /// Whether the members are those of the present ring.
    var isStable: Bool { ring.awaitedID == nil }

    /// Whether the present ring holds, with all its members, while the next one is prepared.
    var isPreparing: Bool {
        if case .preparing = ring { demotion == .none } else { false }
    }

    /// Whether the present ring is the one by which all decide.
    var isInForce: Bool { isStable || isPreparing }

    /// Slots of this node that are acquiring.
    var acquiringCount: Int { transfer.acquiringCount }

    /// The version since which this node may decide without the rows of the others; nil if its views are complete.
    var incompleteSince: Version? { completeness.incompleteSince }

    /// The ring that holds next, while the present one still does.
    var next: Placement? { isPreparing ? ring.preparation?.placement : nil }

    /// Whether this node will soon decide about a user, but does not yet.
    func decidesSoon(_ user: UserID) -> Bool {
        guard owner(of: user) != 0 else { return !transfer.isActive(user.slot) }
        return next?.owner(of: user) == 0
    }

    /// Whether a peer is a member of the present ring or of the prepared one.
    func isMember(_ peer: PeerIndex) -> Bool {
        placement.members.contains(peer) || ring.preparation?.placement.members.contains(peer) == true
    }

    /// A test for slots that this node keeps neither by the present ring nor by the prepared one.
    var isNotKept: (Slot) -> Bool {
        let (placement, next) = (placement, ring.preparation?.placement)
        return { !placement.isKept($0, by: 0) && next?.isKept($0, by: 0) != true }
    }

    // MARK: Members

    /// Records a reason why the present ring cannot hold until the next one is prepared.
    mutating func demote(_ reason: Demotion) { demotion = max(demotion, reason) }

    /// Records that a former member has come back to this node, which was alone.
    mutating func metWhileAlone() { completeness = .contacted(incompleteSince: completeness.incompleteSince) }

    /// Records the ID of the ring of the members. Called after every input, even if nothing has changed.
    mutating func membersChanged(to id: UInt64, clock: Version) -> Output? {
        guard id == placement.id else {
            if completeness == .contacted(incompleteSince: nil) { completeness = .contacted(incompleteSince: clock) }
            let isNew = ring.awaitedID != id
            ring = RingState(awaitedID: id, ring.preparation)
            return isNew ? .computeRing : nil
        }
        let joined = ring.preparation.flatMap { $0.placement.id == id ? $0 : nil }
        let wasMoving = ring.awaitedID != nil || (ring.preparation != nil && joined == nil)
        ring = .stable(joined: joined)
        if demotion == .declaredDead { return .change(to: placement) }
        guard case .contacted(let since) = completeness else { return wasMoving ? .settled : nil }
        completeness = since.map { .incomplete(since: $0) } ?? .complete
        return .beginTransfer
    }

    /// Whether the ring with this ID is awaited.
    func awaits(_ id: UInt64) -> Bool { ring.awaitedID == id }

    /// Receives the awaited ring. It is prepared if the present one is at rest, and holds at once otherwise.
    mutating func ringComputed(_ next: Placement, peersCount: Int, isAlive: (PeerIndex) -> Bool, at now: Now) -> Output {
        guard canPrepare(next, peersCount: peersCount, isAlive: isAlive) else {
            ring = .stable(joined: nil)
            return .change(to: next)
        }
        prepare(next, at: now)
        return .offerPrepared
    }

    /// Starts the present ring again, or another one. Returns whether the earlier offers of the peers are void.
    mutating func change(to new: Placement, clock: Version, at now: Now) -> Bool {
        let wasDeclaredDead = demotion == .declaredDead
        placement = new
        if wasDeclaredDead { transfer.loseAll() }
        beginTransfer(isDemoted: demotion >= .smallerSide, clock: clock, at: now)
        demotion = .none
        return wasDeclaredDead
    }

    /// Asks the members again by the present ring. With `isDemoted` no decision of this node counts.
    mutating func beginTransfer(isDemoted: Bool, clock: Version, at now: Now) {
        let deadline = now.instant + settings.takeoverTimeout
        transfer.begin(ring: placement.id, isDemoted: isDemoted, deadline: deadline, isOwned: placement.isOwn)
        completeness = .incomplete(since: incompleteSince ?? clock)
    }

    // MARK: Receiving

    /// Records that no contact point leads to another node. This node has all rows, unless a former member is missing.
    mutating func foundNobody(missingCount: Int, at now: Now) -> Output? {
        guard missingCount == 0 else {
            transfer.wait(until: now.instant + settings.takeoverTimeout)
            return nil
        }
        return activate(at: now)
    }

    /// Completes what can be completed. Called after each received message, and at every tick.
    ///
    /// - Parameters:
    ///   - alive: the other members.
    ///   - missingCount: former members that are dead.
    mutating func advance(alive: some Sequence<PeerIndex>, hasAlive: Bool, missingCount: Int, at now: Now) -> [Output] {
        transfer.measure(at: now.instant)
        var outputs: [Output] = []
        let isReceived = alive.allSatisfy { transfer.isOwnedReceived(from: $0) }
        // With two of three replicas missing, no node here may have an acknowledged change, even if this node has decided before.
        //
        // Both may have died before any other node received it.
        let isMissingMuch = missingCount >= PresenceCore.Ring.replicasMax - 1
        if isMissingMuch { outputs.append(.listsMayLackEntries) } else if isReceived { outputs.append(.listsAreComplete) }
        if isReceived, acquiringCount > 0, mayActivate(hasAlive: hasAlive), isFinished || !isMissingMuch {
            outputs.append(activate(at: now))
        }
        if !transfer.isComplete, alive.allSatisfy({ transfer.isReceived(from: $0) }) {
            transfer.complete()
            if case .contacted = completeness { completeness = .contacted(incompleteSince: nil) } else { completeness = .complete }
        }
        guard acquiringCount > 0, now.instant >= transfer.deadline else { return outputs }
        if !isReceived { outputs.append(.listsMayLackEntries) }
        outputs.append(activate(at: now))
        return outputs
    }

    /// Whether this node may activate its slots.
    ///
    /// A process that has just started may not, because it does not know yet whether there are others. If its only peers are gone again
    /// without having sent their rows, it may not either: members that it has not met may have them.
    private func mayActivate(hasAlive: Bool) -> Bool { start != .joining || hasAlive }

    private var isFinished: Bool { start == .finished }

    private mutating func activate(at now: Now) -> Output {
        transfer.activate(isOwned: placement.isOwn)
        transfer.measure(at: now.instant)
        let isFirst = !isFinished
        start = .finished
        return .activated(isFirst: isFirst)
    }

    // MARK: Preparing

    /// Whether the present ring is at rest.
    ///
    /// All nodes that keep a slot by it are alive, have completed it, and have not changed yet. Then no node decides by an older ring, and
    /// all follow the first one that changes.
    private func canPrepare(_ next: Placement, peersCount: Int, isAlive: (PeerIndex) -> Bool) -> Bool {
        guard settings.preparationTimeout > .zero, demotion == .none, acquiringCount == 0, transfer.isComplete, peersCount > 1 else {
            return false
        }
        return placement.members.allSatisfy {
            $0 == 0 || (isAlive($0) && transfer.isComplete(at: $0) && !transfer.isOffered(next.id, by: $0))
        }
    }

    private mutating func prepare(_ next: Placement, at now: Now) {
        let preparation = Preparation(placement: next, deadline: now.instant + settings.preparationTimeout)
        prefetch.begin(ring: next.preparedID, isDemoted: false, deadline: .farFuture, isOwned: SlotSet())
        ring = RingState(awaitedID: ring.awaitedID, preparation)
    }

    /// Takes part in a preparation of the present ring that others have not finished.
    ///
    /// This node has just started and could not wait for it. Others may decide about its slots meanwhile, even if this node has used
    /// another ring in between.
    mutating func joinPreparation(peers: some Sequence<PeerIndex>, at now: Now) -> Output? {
        let id = placement.preparedID
        guard ring.preparation == nil,
            peers.contains(where: { prefetch.isOffered(id, by: $0) && !transfer.isOffered(placement.id, by: $0) })
        else { return nil }
        transfer.wait(for: settings.preparationTimeout + settings.takeoverTimeout, at: now.instant)
        guard prefetch.ring != id || !prefetch.isComplete else { return nil }
        prepare(placement, at: now)
        return .offerPrepared
    }

    /// Records that a peer of the present ring has changed to the next one. This node changes as soon as it has handled the received
    /// messages.
    mutating func changed(_ peer: PeerIndex, to id: UInt64, at now: Now) {
        guard case .preparing(var preparation) = ring, preparation.placement.id == id, placement.members.contains(peer) else { return }
        preparation.deadline = now.instant
        ring = .preparing(preparation)
    }

    /// Announces that this node is prepared when it has received all rows, and changes when all nodes are prepared.
    mutating func advancePreparation(alive: some Sequence<PeerIndex>, at now: Now) -> [Output] {
        guard let preparation = ring.preparation else { return [] }
        var outputs: [Output] = []
        if alive.allSatisfy({ prefetch.isReceived(from: $0) }) { completePrefetch(&outputs) }
        let isPrepared = prefetch.isComplete && alive.allSatisfy { prefetch.isComplete(at: $0) }
        // A peer that has changed already still takes part, because others wait for it.
        let cannotWait = demotion > .none && ring.awaitedID == preparation.placement.id
        guard isPrepared || cannotWait || now.instant >= preparation.deadline else { return outputs }
        completePrefetch(&outputs)
        guard ring.awaitedID == preparation.placement.id else {
            ring = RingState(awaitedID: ring.awaitedID, nil)
            if isStable { outputs.append(.settled) }
            return outputs
        }
        ring = .stable(joined: nil)
        outputs.append(.change(to: preparation.placement))
        return outputs
    }

    /// Releases the others from waiting for this node.
    private mutating func completePrefetch(_ outputs: inout [Output]) {
        guard !prefetch.isComplete else { return }
        prefetch.complete()
        outputs.append(.announcePrepared)
    }

    // MARK: Transfers

    /// Names one of the two transfers: by the present ring, or by the prepared one.
    enum Transfer { case present, prepared }

    /// The transfer that the ring ID of a message names. IDs of prepared rings are odd.
    static func transfer(of ring: UInt64) -> Transfer { ring & 1 == 0 ? .present : .prepared }

    /// Changes one of the transfers.
    mutating func withTransfer<Result>(_ which: Transfer, _ body: (inout Handoff) -> Result) -> Result {
        switch which {
        case .present: body(&transfer)
        case .prepared: body(&prefetch)
        }
    }

    /// Drops the offers of a peer that is gone or was restarted.
    mutating func lose(_ peer: PeerIndex) {
        transfer.lose(peer)
        prefetch.lose(peer)
    }

    /// The ring by which this node offers a peer the slots of a preparation; nil for none.
    ///
    /// It stays after this node has changed, until the peer has too.
    func preparedPlacement(for peer: PeerIndex) -> Placement? {
        let isAwaited = placement.preparedID == prefetch.ring && !transfer.isComplete(at: peer)
        return ring.preparation?.placement ?? (isAwaited ? placement : nil)
    }

    /// Whether a slot's rows were requested from a peer that has not sent all of them.
    func awaits(_ slot: Slot, from peer: PeerIndex) -> Bool {
        transfer.awaits(slot, from: peer) || prefetch.awaits(slot, from: peer)
    }

    /// Whether a peer has still to send requested rows.
    func awaits(_ peer: PeerIndex) -> Bool { transfer.awaits(peer) || prefetch.awaits(peer) }

    // MARK: Checking

    /// Stops the process at a state that cannot occur. For simulations and tests.
    func checkInvariants() {
        let owned = placement.isOwn
        precondition(transfer.activeSlots.isSubset(of: owned), "a slot is active that another node owns")
        let acquiring = owned.count - transfer.activeSlots.count
        precondition(acquiringCount == acquiring, "\(acquiring) slots are acquiring, \(acquiringCount) are counted")
        switch ring {
        case .stable(let joined):
            if let joined { precondition(joined.placement.id == placement.id, "a node that changes no ring prepares another one") }
        case .computing(let id, let other):
            precondition(id != placement.id, "the present ring is computed again")
            precondition(other?.placement.id != id, "a ring is computed that is prepared")
        case .preparing(let preparation):
            precondition(preparation.placement.id != placement.id, "the present ring is prepared as the next one")
        }
    }
}

extension Placement {
    /// The ID under which this ring is prepared. IDs of rings that hold are even.
    var preparedID: UInt64 { id | 1 }
}
