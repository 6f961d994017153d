import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct RingTests {
    static func ring(_ count: Int, without: Int? = nil) -> Ring {
        Ring(members: (0..<count).filter { $0 != without }.map { Ring.Member(id: NodeID("node-\($0)")) })
    }

    @Test(arguments: [3, 10]) func noNodeOwnsMoreThanSixPercentAboveTheMean(count: Int) {
        let counts = Self.ring(count).slotsCounts
        #expect(counts.reduce(0, +) == Ring.slotsCount)
        #expect(Double(counts.max()!) <= 1.06 * Double(Ring.slotsCount) / Double(count))
    }

    @Test(arguments: [3, 10]) func aLeaveMovesHardlyMoreThanWhatTheNodeOwned(count: Int) {
        let before = Self.ring(count + 1)
        let after = Self.ring(count + 1, without: 0)
        let owned = before.slotsCounts[before.members.firstIndex { $0.id == NodeID("node-0") }!]
        let moved = (0..<Ring.slotsCount).count { slot in
            before.members[before.owner(of: Slot(slot))!].id != after.members[after.owner(of: Slot(slot))!].id
        }
        #expect(moved >= owned)
        #expect(Double(moved) <= 1.05 * Double(owned))
    }

    @Test func theOrderOfTheMembersDoesNotMatter() {
        let members = (0..<7).map { Ring.Member(id: NodeID("node-\($0)"), weight: 50 + 10 * $0) }
        let left = Ring(members: members)
        let right = Ring(members: members.reversed())
        #expect((0..<Ring.slotsCount).allSatisfy { left.owner(of: Slot($0)) == right.owner(of: Slot($0)) })
    }

    @Test func slotsFollowWeights() {
        let ring = Ring(members: [Ring.Member(id: NodeID("a"), weight: 100), Ring.Member(id: NodeID("b"), weight: 300)])
        let share = Double(ring.slotsCounts[1]) / Double(Ring.slotsCount)
        #expect(abs(share - 0.75) < 0.02)
    }

    @Test func anEmptyRingHasNoOwner() {
        #expect(Ring(members: []).owner(of: 7) == nil)
    }

    @Test func theLogarithmIsRight() {
        #expect(FixedPoint.negativeLog2(1 << 63) == 1 << 32)
        #expect(FixedPoint.negativeLog2(1) == 64 << 32)
        let threeQuarters = Double(FixedPoint.negativeLog2(3 << 62)) / 4_294_967_296
        #expect(abs(threeQuarters - 0.4150374992788438) < 1e-8)
    }
}
