import PresenceWire
import Testing

@testable import PresenceCore

/// The transitions of the table in the Architecture page, without a node.
@Suite struct OwnershipTests {
    private static let peers = ["a", "b", "c"].map { Peer(id: NodeID($0), generation: 1, address: "\($0):1") }
    private var now = Now(instant: Instant(nanoseconds: 0), wall: 1_000_000)
    private let settings: CoreSettings
    private let clock = Version(milliseconds: 7, counter: 0, node: 1)

    init() {
        var settings = CoreSettings()
        settings.preparationTimeout = .seconds(10)
        self.settings = settings
    }

    /// The ring of the first `count` nodes, as the first of them sees it.
    private func ring(_ count: Int) -> Placement {
        Placement(Self.peers.prefix(count).enumerated().map { (Ring.Member(id: $1.id, weight: Int($1.weight)), $0) })
    }

    private func alone(joins: Bool = false) -> Ownership { Ownership(own: Self.peers[0], joins: joins, settings: settings) }

    /// Takes another ring without preparing it. Returns whether what the peers have offered is void.
    @discardableResult private func change(_ ownership: inout Ownership, to next: Placement) -> Bool {
        _ = ownership.membersChanged(to: next.id, clock: clock)
        _ = ownership.ringComputed(next, peersCount: 1, isAlive: { _ in true }, at: now)
        return ownership.change(to: next, clock: clock, at: now)
    }

    /// A member of a ring of two that has received all.
    private func settled() -> Ownership {
        var ownership = alone()
        change(&ownership, to: ring(2))
        receiveAll(&ownership, from: 1)
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        complete(&ownership, at: 1)
        return ownership
    }

    /// A peer offers nothing by the present ring.
    private func receiveAll(_ ownership: inout Ownership, from peer: PeerIndex) {
        let ring = ownership.transfer.ring
        ownership.withTransfer(.present) { $0.offered([], ring: ring, offerSequence: 1, isFirst: true, isLast: true, by: peer) }
    }

    /// A peer has received all that this node has offered by the present ring.
    private func complete(_ ownership: inout Ownership, at peer: PeerIndex) {
        ownership.withTransfer(.present) { $0.completed($0.ring, offerSequence: $0.offerSequence, peer: peer) }
    }

    /// A member of a ring of two that prepares a ring of three.
    private func preparing() -> Ownership {
        var ownership = settled()
        _ = ownership.membersChanged(to: ring(3).id, clock: clock)
        _ = ownership.ringComputed(ring(3), peersCount: 3, isAlive: { _ in true }, at: now)
        return ownership
    }

    /// The state of a slot at a node.
    private enum SlotState {
        /// Another node keeps it.
        case none
        /// Another node owns it; this one keeps its rows.
        case replica
        /// This node owns it, and has not yet received the rows of the others. It neither answers nor writes for its users.
        case acquiring
        /// This node owns it and decides.
        case active

        init(of slot: Slot, at ownership: Ownership) {
            if ownership.placement.owner(of: slot) == 0 {
                self = ownership.transfer.isActive(slot) ? .active : .acquiring
            } else {
                self = ownership.placement.isKept(slot, by: 0) ? .replica : .none
            }
        }
    }

    private func slots(_ state: SlotState, _ ownership: Ownership) -> Int {
        ownership.checkInvariants()
        return (0..<Ring.slotsCount).count { SlotState(of: Slot($0), at: ownership) == state }
    }

    // MARK: Slots

    @Test("A node without contact points begins with all slots active")
    func aloneAllSlotsAreActive() {
        #expect(slots(.active, alone()) == Ring.slotsCount)
        #expect(alone().isStable && alone().incompleteSince == nil)
    }

    @Test("A node with contact points acquires all slots, and activates them when no contact point leads to a node")
    func joiningSlotsAreAcquiring() {
        var ownership = alone(joins: true)
        #expect(slots(.acquiring, ownership) == Ring.slotsCount)
        let waits = ownership.advance(alive: [], hasAlive: false, missingCount: 0, at: now)
        #expect(slots(.acquiring, ownership) == Ring.slotsCount, "\(waits)")
        guard case .activated(isFirst: true)? = ownership.foundNobody(missingCount: 0, at: now) else { return #expect(Bool(false)) }
        #expect(slots(.active, ownership) == Ring.slotsCount)
    }

    @Test("A node that finds no peer and misses former members waits for the takeover timeout")
    mutating func missingMembersAreWaitedFor() {
        var ownership = alone(joins: true)
        let output = ownership.foundNobody(missingCount: 1, at: now)
        #expect(output == nil)
        now.instant += settings.takeoverTimeout - .nanoseconds(1)
        _ = ownership.advance(alive: [], hasAlive: false, missingCount: 1, at: now)
        #expect(slots(.acquiring, ownership) == Ring.slotsCount)
        now.instant += .nanoseconds(1)
        _ = ownership.advance(alive: [], hasAlive: false, missingCount: 1, at: now)
        #expect(slots(.active, ownership) == Ring.slotsCount)
    }

    @Test("A change of the ring turns a lost slot into a replica and a new slot into an acquiring one, and keeps the active ones")
    func ringChangesSlots() {
        let first = settled()
        let owned = ring(2).isOwn.count
        #expect(slots(.active, first) == owned)
        #expect(slots(.replica, first) == Ring.slotsCount - owned, "two nodes keep everything")
        var ownership = first
        change(&ownership, to: ring(1))
        #expect(slots(.active, ownership) == owned)
        #expect(slots(.acquiring, ownership) == Ring.slotsCount - owned)
        #expect(slots(.none, ownership) == 0)
    }

    @Test("Acquiring slots are active when all members have sent what they hold, and not before")
    func receivedSlotsAreActive() {
        var ownership = settled()
        change(&ownership, to: ring(3))
        ownership.beginTransfer(isDemoted: true, clock: clock, at: now)
        receiveAll(&ownership, from: 1)
        _ = ownership.advance(alive: [1, 2], hasAlive: true, missingCount: 0, at: now)
        #expect(slots(.active, ownership) == 0)
        receiveAll(&ownership, from: 2)
        let outputs = ownership.advance(alive: [1, 2], hasAlive: true, missingCount: 0, at: now)
        #expect(outputs.count == 2)
        guard case .listsAreComplete = outputs[0], case .activated = outputs[1] else { return #expect(Bool(false), "\(outputs)") }
        #expect(slots(.acquiring, ownership) == 0 && slots(.active, ownership) == ring(3).isOwn.count)
    }

    @Test("A member that never answers is waited for until the takeover timeout, and lists may lack entries then")
    mutating func silentMemberIsWaitedFor() {
        var ownership = settled()
        ownership.beginTransfer(isDemoted: true, clock: clock, at: now)
        ownership.withTransfer(.present) { $0.lose(1) }
        now.instant += settings.takeoverTimeout
        let outputs = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        guard outputs.count == 2, case .listsMayLackEntries = outputs[0], case .activated = outputs[1] else {
            return #expect(Bool(false), "\(outputs)")
        }
        #expect(ownership.incompleteSince == clock, "not all was received")
    }

    @Test("With two of three replicas missing a process that has just begun waits, and one that has decided before goes on")
    func missingReplicas() {
        var ownership = alone(joins: true)
        change(&ownership, to: ring(2))
        receiveAll(&ownership, from: 1)
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 2, at: now)
        #expect(slots(.active, ownership) == 0)
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        #expect(slots(.acquiring, ownership) == 0)
        ownership.beginTransfer(isDemoted: true, clock: clock, at: now)
        receiveAll(&ownership, from: 1)
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 2, at: now)
        #expect(slots(.acquiring, ownership) == 0)
    }

    // MARK: The ring

    @Test("The same members change nothing, others have their ring computed once")
    func changedMembersAreComputedOnce() {
        var ownership = settled()
        #expect(ownership.membersChanged(to: ring(2).id, clock: clock) == nil && ownership.isStable)
        guard case .computeRing? = ownership.membersChanged(to: ring(3).id, clock: clock) else { return #expect(Bool(false)) }
        #expect(ownership.membersChanged(to: ring(3).id, clock: clock) == nil)
        #expect(ownership.awaits(ring(3).id) && !ownership.isInForce)
        guard case .settled? = ownership.membersChanged(to: ring(2).id, clock: clock) else { return #expect(Bool(false)) }
        #expect(ownership.isStable)
    }

    @Test("A ring at rest holds while the next one is prepared, and changes when all are prepared")
    func preparedRingChanges() {
        var ownership = preparing()
        #expect(ownership.isPreparing && ownership.isInForce && ownership.next?.id == ring(3).id)
        #expect(slots(.active, ownership) == ring(2).isOwn.count)
        let id = ring(3).preparedID
        for peer in [1, 2] {
            ownership.withTransfer(.prepared) { $0.offered([], ring: id, offerSequence: 1, isFirst: true, isLast: true, by: peer) }
        }
        let announced = ownership.advancePreparation(alive: [1, 2], at: now)
        guard announced.count == 1, case .announcePrepared = announced[0] else { return #expect(Bool(false), "\(announced)") }
        for peer in [1, 2] { ownership.withTransfer(.prepared) { $0.completed(id, offerSequence: $0.offerSequence, peer: peer) } }
        let changed = ownership.advancePreparation(alive: [1, 2], at: now)
        guard changed.count == 1, case .change(let placement) = changed[0] else { return #expect(Bool(false), "\(changed)") }
        #expect(placement.id == ring(3).id && ownership.isStable && ownership.ring.preparation == nil)
    }

    @Test("A preparation ends at its deadline, and at once when a member dies or a peer has changed")
    func preparationEnds() {
        for cause in 0..<3 {
            var ownership = preparing()
            var later = now
            let waits = ownership.advancePreparation(alive: [1, 2], at: now)
            #expect(waits.isEmpty)
            switch cause {
            case 0: later.instant += settings.preparationTimeout
            case 1: ownership.demote(.abruptChange)
            default: ownership.changed(1, to: ring(3).id, at: now)
            }
            let outputs = ownership.advancePreparation(alive: [1, 2], at: later)
            guard outputs.count == 2, case .announcePrepared = outputs[0], case .change = outputs[1] else {
                return #expect(Bool(false), "\(cause): \(outputs)")
            }
        }
    }

    @Test("A peer outside of the present ring, or one that changes to another ring, does not end a preparation")
    func strangersDoNotEndAPreparation() {
        var ownership = preparing()
        ownership.changed(2, to: ring(3).id, at: now)
        ownership.changed(1, to: 42, at: now)
        #expect(ownership.advancePreparation(alive: [1, 2], at: now).isEmpty)
    }

    @Test("A ring that is not at rest does not hold: the next one is taken at once")
    func unrestedRingDoesNotHold() {
        for cause in 0..<4 {
            var ownership = settled()
            if cause == 0 { ownership.demote(.abruptChange) }
            if cause == 1 { ownership.withTransfer(.present) { $0.beginOffer() } }
            if cause == 2 { ownership.beginTransfer(isDemoted: true, clock: clock, at: now) }
            _ = ownership.membersChanged(to: ring(3).id, clock: clock)
            let output = ownership.ringComputed(ring(3), peersCount: 3, isAlive: { $0 != (cause == 3 ? 1 : 9) }, at: now)
            guard case .change = output else { return #expect(Bool(false), "\(cause): \(output)") }
            #expect(ownership.isStable && ownership.ring.preparation == nil)
        }
    }

    @Test("A preparation goes on while a third ring is computed, and ends where the members are those of the present ring again")
    func preparationBesideAnotherRing() {
        var ownership = preparing()
        _ = ownership.membersChanged(to: ring(1).id, clock: clock)
        #expect(ownership.ring.preparation?.placement.id == ring(3).id && !ownership.isPreparing && !ownership.isInForce)
        ownership.checkInvariants()
        guard case .computeRing? = ownership.membersChanged(to: ring(3).id, clock: clock) else { return #expect(Bool(false)) }
        #expect(ownership.isPreparing, "it is the awaited one again")
        _ = ownership.membersChanged(to: ring(2).id, clock: clock)
        #expect(ownership.isStable && ownership.ring.preparation == nil)
    }

    @Test("A preparation of another ring than the awaited one ends without a change")
    mutating func outdatedPreparationEnds() {
        var ownership = preparing()
        _ = ownership.membersChanged(to: ring(1).id, clock: clock)
        now.instant += settings.preparationTimeout
        let outputs = ownership.advancePreparation(alive: [1, 2], at: now)
        #expect(outputs.count == 1 && ownership.ring.preparation == nil && ownership.awaits(ring(1).id))
    }

    @Test("A change of the ring that is taken back leaves the node settled, once", arguments: [true, false])
    func changeTakenBack(isComputed: Bool) {
        var ownership = isComputed ? preparing() : settled()
        _ = ownership.membersChanged(to: ring(3).id, clock: clock)
        guard case .settled? = ownership.membersChanged(to: ring(2).id, clock: clock) else { return #expect(Bool(false)) }
        #expect(ownership.isStable && ownership.ring.preparation == nil)
        #expect(ownership.membersChanged(to: ring(2).id, clock: clock) == nil)
    }

    @Test("A node whose preparation of its own ring ends without a change is settled")
    mutating func joinedPreparationEnds() {
        var ownership = alone(joins: true)
        change(&ownership, to: ring(2))
        let id = ring(2).preparedID
        ownership.withTransfer(.prepared) { $0.offered([], ring: id, offerSequence: 1, isFirst: true, isLast: true, by: 1) }
        _ = ownership.joinPreparation(peers: 0..<2, at: now)
        #expect(ownership.membersChanged(to: ring(2).id, clock: clock) == nil, "the preparation goes on")
        now.instant += settings.preparationTimeout
        let outputs = ownership.advancePreparation(alive: [1], at: now)
        guard outputs.count == 2, case .announcePrepared = outputs[0], case .settled = outputs[1] else {
            return #expect(Bool(false), "\(outputs)")
        }
        #expect(ownership.isStable && ownership.ring.preparation == nil)
    }

    @Test("A node that was declared dead starts again instead, where a change of the ring is taken back")
    func declaredDeadMeanwhile() {
        var ownership = preparing()
        ownership.demote(.declaredDead)
        guard case .change? = ownership.membersChanged(to: ring(2).id, clock: clock) else { return #expect(Bool(false)) }
    }

    @Test("A node takes part where others prepare the ring that it uses already, and waits longer for them")
    mutating func joinedPreparation() {
        var ownership = alone(joins: true)
        change(&ownership, to: ring(2))
        #expect(ownership.joinPreparation(peers: 0..<2, at: now) == nil)
        let id = ring(2).preparedID
        ownership.withTransfer(.prepared) { $0.offered([], ring: id, offerSequence: 1, isFirst: true, isLast: true, by: 1) }
        guard case .offerPrepared? = ownership.joinPreparation(peers: 0..<2, at: now) else { return #expect(Bool(false)) }
        #expect(ownership.isStable && ownership.ring.preparation?.placement.id == ring(2).id && ownership.next == nil)
        #expect(ownership.joinPreparation(peers: 0..<2, at: now) == nil, "it takes part already")
        now.instant += settings.takeoverTimeout
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        #expect(slots(.active, ownership) == 0, "others may decide about its slots")
    }

    // MARK: Demotion and completeness

    @Test("Only the smaller side of a split and a node that was declared dead give up their slots when the ring changes")
    func demotedNodesGiveUpTheirSlots() {
        for (reason, isDemoted) in [(Ownership.Demotion.none, false), (.abruptChange, false), (.smallerSide, true), (.declaredDead, true)] {
            var ownership = settled()
            ownership.demote(reason)
            ownership.demote(.none)
            let isVoid = change(&ownership, to: ring(1))
            #expect(isVoid == (reason == .declaredDead))
            #expect(slots(.active, ownership) == (isDemoted ? 0 : ring(2).isOwn.count))
            #expect(ownership.demotion == .none)
        }
    }

    @Test("A node that was declared dead starts its ring again even with the same members")
    func declaredDeadBeginsAnew() {
        var ownership = settled()
        ownership.demote(.declaredDead)
        guard case .change(let placement)? = ownership.membersChanged(to: ring(2).id, clock: clock) else { return #expect(Bool(false)) }
        #expect(placement === ownership.placement)
        _ = ownership.change(to: placement, clock: clock, at: now)
        #expect(slots(.active, ownership) == 0 && !ownership.transfer.isReceived(from: 1))
        #expect(ownership.membersChanged(to: ring(2).id, clock: clock) == nil)
    }

    @Test("A node that was alone asks a returning member again, also where the ring stays the same")
    func contactedNodeAsksAgain() {
        var ownership = settled()
        ownership.metWhileAlone()
        guard case .beginTransfer? = ownership.membersChanged(to: ring(2).id, clock: clock) else { return #expect(Bool(false)) }
        ownership.beginTransfer(isDemoted: false, clock: clock, at: now)
        #expect(ownership.completeness == .incomplete(since: clock))
        #expect(ownership.membersChanged(to: ring(2).id, clock: clock) == nil, "once")
        #expect(slots(.active, ownership) == ring(2).isOwn.count, "it goes on deciding")
    }

    @Test("While another ring is awaited, a returning member makes the views incomplete from then on")
    func contactedNodeClaimsNothing() {
        var ownership = settled()
        #expect(ownership.incompleteSince == nil)
        ownership.metWhileAlone()
        _ = ownership.membersChanged(to: ring(3).id, clock: clock)
        #expect(ownership.incompleteSince == clock)
        _ = ownership.membersChanged(to: ring(3).id, clock: Version(milliseconds: 9, counter: 0, node: 1))
        #expect(ownership.incompleteSince == clock, "the first time counts")
    }

    @Test("Views are complete again when all members have sent all")
    func receivedViewsAreComplete() {
        var ownership = settled()
        ownership.beginTransfer(isDemoted: false, clock: clock, at: now)
        ownership.withTransfer(.present) { $0.lose(1) }
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        #expect(ownership.incompleteSince == clock)
        receiveAll(&ownership, from: 1)
        _ = ownership.advance(alive: [1], hasAlive: true, missingCount: 0, at: now)
        #expect(ownership.completeness == .complete)
    }

    @Test("A message names the transfer by the parity of its ring")
    func ringNamesTheTransfer() {
        #expect(Ownership.transfer(of: ring(2).id) == .present)
        #expect(Ownership.transfer(of: ring(2).preparedID) == .prepared)
    }
}
