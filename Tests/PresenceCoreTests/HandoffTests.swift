import PresenceWire
import Testing

@testable import PresenceCore

/// The requests of a handoff, and the answers that count. Slots below 100 are owned here.
@Suite struct HandoffTests {
    var handoff = Handoff(generation: 0)

    init() { handoff.begin(ring: 7, isDemoted: true, deadline: .farFuture, isOwned: SlotSet { $0 < 100 }) }

    mutating func ask(_ peer: PeerIndex) -> [Slot] {
        handoff.next(from: peer, isPaced: false, isOwned: { $0 < 100 }, isWanted: { _ in true })
    }

    static func offer(_ slots: [Slot], hash: UInt64 = 1) -> [SlotHash] { slots.map { SlotHash(slot: $0, hash: hash) } }

    @Test("Owned slots are requested first") mutating func ownedFirst() {
        handoff.offered(Self.offer([500, 5, 600, 6]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(ask(1) == [5, 6, 500, 600])
        #expect(!handoff.isOwnedReceived(from: 1))
        #expect(handoff.sent(2, ring: 7, by: 1) == [500, 600], "what there was no room for is asked for again")
        #expect(handoff.isOwnedReceived(from: 1))
        #expect(!handoff.isReceived(from: 1))
        #expect(handoff.sent(2, ring: 7, by: 1) == [])
        #expect(handoff.isReceived(from: 1))
    }

    @Test("A later page may have more owned slots") mutating func laterPage() {
        handoff.offered(Self.offer([500]), ring: 7, offerSequence: 1, isFirst: true, isLast: false, by: 1)
        #expect(ask(1) == [])
        handoff.offered(Self.offer([5]), ring: 7, offerSequence: 1, isFirst: false, isLast: true, by: 1)
        #expect(ask(1) == [5, 500])
    }

    @Test("A late page of an earlier offer does not count as the current one") mutating func lateOffer() {
        handoff.offered(Self.offer([5]), ring: 7, offerSequence: 2, isFirst: true, isLast: false, by: 1)
        handoff.offered(Self.offer([8]), ring: 3, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        handoff.offered(Self.offer([9]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        handoff.offered(Self.offer([6]), ring: 7, offerSequence: 2, isFirst: false, isLast: true, by: 1)
        #expect(ask(1) == [5, 6])
        #expect(handoff.sent(2, ring: 7, by: 1) == [])
        #expect(handoff.isReceived(from: 1))
        #expect(handoff.transferComplete(to: 1) == .transferComplete(ring: 7, offerSequence: 2))
        handoff.lose(1)
        handoff.offered(Self.offer([7]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(ask(1) == [7], "nothing counts that was said by one who is gone")
    }

    @Test("Offers of a process are later than those of the process before it") func nextProcess() {
        var before = Handoff(generation: 1_790_000_000_000)
        for _ in 0..<1_000 { before.beginOffer() }
        #expect(Handoff(generation: 1_790_000_000_001).offerSequence > before.offerSequence)
    }

    @Test("A slot is requested from one peer only") mutating func oneSender() {
        handoff.offered(Self.offer([5, 6]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        handoff.offered(Self.offer([5]) + Self.offer([6], hash: 2), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 2)
        #expect(ask(1) == [5, 6])
        #expect(ask(2) == [6], "it holds something else of that one")
        #expect(handoff.sent(1, ring: 7, by: 2) == [])
        #expect(handoff.isReceived(from: 2))
        handoff.lose(1)
        #expect(!handoff.isReceived(from: 2), "the one that was asked is gone")
        #expect(ask(2) == [5, 6])
    }

    @Test("Slots that a peer has sent are not requested again when it leaves") mutating func departedPeer() {
        handoff.offered(Self.offer([5, 6]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        handoff.offered(Self.offer([5, 6]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 2)
        #expect(ask(1) == [5, 6])
        #expect(ask(2) == [])
        #expect(handoff.sent(1, ring: 7, by: 1) == [6])
        handoff.lose(1)
        #expect(ask(2) == [6], "5 has come")
        #expect(handoff.sent(1, ring: 7, by: 2) == [])
        handoff.lose(3)
        #expect(handoff.isReceived(from: 2))
    }

    @Test("Slots that are not urgent are requested a share at a time") mutating func paced() {
        handoff.offered(Self.offer((0..<3_000).map { Slot($0) }), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        var pages: [Int] = []
        while !handoff.isReceived(from: 1), pages.count < 1_000 {
            let asked = handoff.next(from: 1, isPaced: true, isOwned: { _ in true }, isWanted: { _ in true })
            pages.append(asked.count)
            _ = handoff.sent(asked.count, ring: 7, by: 1)
        }
        #expect(pages.allSatisfy { $0 <= 3_000 / Handoff.pacedTicks })
        #expect(pages.count == Handoff.pacedTicks)
    }

    @Test("Slots that were taken are not taken again") func takenOnce() {
        var slots = SlotSet()
        for slot in [65_535, 3, 64] as [Slot] { slots.insert(slot) }
        #expect(slots.take { $0 >= 64 } == [64, 65_535])
        #expect(slots.take { _ in true } == [3])
        #expect(slots == SlotSet())
    }

    @Test("Messages of another ring are void") mutating func otherRing() {
        handoff.offered(Self.offer([5]), ring: 6, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(ask(1) == [])
        #expect(!handoff.isOwnedReceived(from: 1))
        handoff.offered(Self.offer([5]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(ask(1) == [5])
        #expect(handoff.sent(1, ring: 6, by: 1) == [])
        #expect(!handoff.isOwnedReceived(from: 1))
    }

    /// The same members may return, with rows that were written by the ring in between.
    @Test("A node repeats its completion when an earlier ring comes back") mutating func returningRing() {
        let first = handoff.offerSequence
        handoff.completed(7, offerSequence: first, peer: 1)
        #expect(handoff.isComplete(at: 1))
        handoff.begin(ring: 8, isDemoted: false, deadline: .farFuture, isOwned: SlotSet { $0 < 100 })
        handoff.begin(ring: 7, isDemoted: false, deadline: .farFuture, isOwned: SlotSet { $0 < 100 })
        handoff.completed(7, offerSequence: first, peer: 1)
        #expect(!handoff.isComplete(at: 1))
        handoff.completed(7, offerSequence: handoff.offerSequence, peer: 1)
        #expect(handoff.isComplete(at: 1))
    }

    @Test("A peer that offers again receives the completion again") mutating func newOffer() {
        handoff.complete()
        handoff.write(with: 1)
        let isWritten = handoff.written(1, isDurable: true)
        #expect(isWritten && handoff.isWritten)
        handoff.offered(Self.offer([500]), ring: 8, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(handoff.isWritten, "by another ring, which may be the next one")
        handoff.offered(Self.offer([500]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(!handoff.isComplete && !handoff.isWritten)
    }

    @Test("A handoff lasts until no slot is acquiring, even if the members change meanwhile") mutating func duration() {
        let start = Instant(nanoseconds: 5)
        handoff.measure(at: start)
        #expect(handoff.duration == .zero)
        handoff.measure(at: start + .seconds(1))
        #expect(handoff.duration == .seconds(1), "so far")
        handoff.begin(ring: 8, isDemoted: true, deadline: .farFuture, isOwned: SlotSet { $0 < 50 })
        handoff.measure(at: start + .seconds(2))
        handoff.activate(isOwned: SlotSet { $0 < 50 })
        handoff.measure(at: start + .seconds(3))
        handoff.measure(at: start + .seconds(9))
        #expect(handoff.duration == .seconds(3))
        handoff.begin(ring: 9, isDemoted: true, deadline: .farFuture, isOwned: SlotSet { $0 < 100 })
        handoff.measure(at: start + .seconds(20))
        #expect(handoff.duration == .zero, "another one")
    }

    @Test("A slot is awaited from the peer it was requested from until it has arrived") mutating func awaited() {
        handoff.offered(Self.offer([5, 6]), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        #expect(!handoff.awaits(1) && !handoff.awaits(5, from: 1))
        #expect(ask(1) == [5, 6])
        #expect(handoff.awaits(1) && !handoff.awaits(2))
        #expect(handoff.awaits(5, from: 1) && !handoff.awaits(5, from: 2) && !handoff.awaits(7, from: 1))
        #expect(handoff.sent(1, ring: 7, by: 1) == [6])
        #expect(!handoff.awaits(5, from: 1) && handoff.awaits(6, from: 1))
        #expect(handoff.sent(1, ring: 7, by: 1) == [])
        #expect(!handoff.awaits(1))
    }

    @Test("A page has a bounded number of slots") mutating func pageSize() {
        handoff.offered(Self.offer((0..<2_000).map { Slot($0) }), ring: 7, offerSequence: 1, isFirst: true, isLast: true, by: 1)
        var heard = 0
        for _ in 0..<20 {
            let asked = ask(1)
            #expect(asked.count <= Handoff.slotsAskedMax)
            heard += asked.count
            _ = handoff.sent(asked.count, ring: 7, by: 1)
        }
        #expect(heard == 2_000)
        #expect(handoff.isReceived(from: 1))
    }
}
