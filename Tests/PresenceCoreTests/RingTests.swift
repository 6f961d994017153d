import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct RingTests {
    static let sizes = [3, 10, 100]

    static func member(_ number: Int, weight: Int = 100) -> Ring.Member {
        Ring.Member(id: NodeID("node-\(number)"), weight: weight)
    }

    static func ring(_ numbers: [Int]) -> Ring { Ring(members: numbers.map { member($0) }) }

    /// One ring of each of ``sizes``.
    static let rings = sizes.map { ring(Array(0..<$0)) }

    /// The changes when a member leaves a ring.
    struct Departure {
        var ownedCount = 0
        var movedCount = 0
        /// Slots of the leaver that its first replica owns afterwards.
        var inheritedCount = 0

        init(of leaver: Int, from before: Ring) {
            var members = before.members
            members.remove(at: leaver)
            let after = Ring(members: members)
            for slot in 0...Slot.max {
                let owner = before.owner(of: slot)!
                let index = after.owner(of: slot)!
                let successor = index < leaver ? index : index + 1
                if owner != successor { movedCount += 1 }
                guard owner == leaver else { continue }
                ownedCount += 1
                if before.replica(1, of: slot) == successor { inheritedCount += 1 }
            }
        }
    }

    /// Two departures from each of ``rings``. Backwards each is a join, as a ring knows no history.
    static let departures = rings.flatMap { ring in [0, 2].map { Departure(of: $0, from: ring) } }

    @Test("No node owns more than 6 % above the mean", arguments: rings) func balance(ring: Ring) {
        let counts = ring.slotsCounts
        #expect(counts.reduce(0, +) == Ring.slotsCount)
        #expect(Double(counts.max()!) <= 1.06 * Double(Ring.slotsCount) / Double(counts.count))
    }

    /// Here the mean of several leaves counts: one node owns too few slots to tell.
    @Test("Of 1,000 nodes none owns 11 % above the mean, and a leave moves at most 15 % more") func thousandNodes() {
        let ring = Self.ring(Array(0..<1_000))
        #expect(Double(ring.slotsCounts.max()!) <= 1.11 * 65.536)
        let departures = [100, 400, 700].map { Departure(of: $0, from: ring) }
        let owned = departures.reduce(0) { $0 + $1.ownedCount }
        #expect(Double(departures.reduce(0) { $0 + $1.movedCount }) <= 1.15 * Double(owned))
        #expect(departures.reduce(0) { $0 + $1.inheritedCount } >= owned * 19 / 20)
    }

    @Test("The caps add up to at least all slots", arguments: [1, 2, 3, 317, 1_000, 65_535]) func caps(count: UInt64) {
        let total = (0..<count).reduce(0) { $0 + $1 % 7 + 1 }
        let caps = (0..<count).map { Ring.cap(weight: $0 % 7 + 1, weightsTotal: total) }
        #expect(caps.reduce(0, +) >= Ring.slotsCount)
    }

    @Test("A leave or a join moves at most 5 % more than the node owns", arguments: departures) func moves(departure: Departure) {
        #expect(departure.movedCount >= departure.ownedCount)
        #expect(Double(departure.movedCount) <= 1.05 * Double(departure.ownedCount))
    }

    @Test("The first replica inherits 19 of 20 slots", arguments: departures) func inheritance(departure: Departure) {
        #expect(departure.inheritedCount >= departure.ownedCount * 19 / 20)
    }

    @Test("The replicas of a slot are three members, the owner first", arguments: rings) func replicas(ring: Ring) {
        #expect(ring.replicasCount == 3)
        let areRight = (0...Slot.max).allSatisfy { slot in
            let (first, second, third) = (ring.replica(0, of: slot)!, ring.replica(1, of: slot)!, ring.replica(2, of: slot)!)
            return first == ring.owner(of: slot) && first != second && first != third && second != third
        }
        #expect(areRight)
        #expect(ring.replica(3, of: 77) == nil)
    }

    @Test("Two members are the replicas of every slot") func twoMembers() {
        let ring = Self.ring([1, 2])
        #expect(ring.replicasCount == 2)
        #expect((0...Slot.max).allSatisfy { ring.replica(0, of: $0)! + ring.replica(1, of: $0)! == 1 })
        #expect(ring.replica(2, of: 7) == nil)
    }

    @Test("An empty ring has no owner") func empty() {
        let ring = Ring(members: [])
        #expect(ring.owner(of: 7) == nil)
        #expect(ring.replica(0, of: 7) == nil)
        #expect(ring.slotsCounts == [])
    }

    @Test("The order of the members does not matter") func memberOrder() {
        let members = (0..<20).map { Self.member($0, weight: 50 + 10 * $0) }
        let left = Ring(members: members)
        let right = Ring(members: members.reversed())
        #expect((0...Slot.max).allSatisfy { slot in (0..<3).allSatisfy { left.replica($0, of: slot) == right.replica($0, of: slot) } })
    }

    /// Nodes of two versions or platforms must agree. If this fails, rings have changed: all nodes have to be updated at once.
    @Test("The ring of the same members never changes") func stability() {
        let ring = Ring(members: (0..<150).map { Self.member($0, weight: 100 + $0) })
        let digest = (0...Slot.max).reduce(0) { digest, slot in
            (0..<3).reduce(digest) { StableHash.mix($0, UInt64(ring.replica($1, of: slot)!)) }
        }
        #expect(digest == 14_863_215_688_074_730_303)
    }

    @Test("The number of slots follows the weights") func weights() {
        let ring = Ring(members: [Self.member(0, weight: 100), Self.member(1, weight: 300)])
        let share = Double(ring.slotsCounts[1]) / Double(Ring.slotsCount)
        #expect(abs(share - 0.75) < 0.01)
    }

    @Test("A weight out of bounds counts as the nearest allowed one") func weightBounds() {
        let ring = Ring(members: [Self.member(0, weight: 0), Self.member(1, weight: .max), Self.member(2, weight: .min)])
        let bounded = Ring(members: [Self.member(0, weight: 1), Self.member(1, weight: 1_000), Self.member(2, weight: 1)])
        #expect((0...Slot.max).allSatisfy { ring.owner(of: $0) == bounded.owner(of: $0) })
    }
}

@Suite struct NodePreferencesTests {
    @Test("Every slot has one rank") func ranks() {
        let node = NodePreferences(NodeID("a"), weight: 3)
        var slots: [UInt16] = []
        node.appendSlots(ofRanksBelow: Ring.slotsCount, to: &slots)
        #expect(slots.count == Ring.slotsCount)
        #expect(slots.indices.allSatisfy { node.rank(of: Int(slots[$0])) == $0 })
    }

    @Test("The cost rises with the rank") func costs() {
        let node = NodePreferences(NodeID("a"), weight: 1_000)
        let costs = (0..<Ring.slotsCount).map { node.cost(at: $0) }
        #expect(zip(costs, costs.dropFirst()).allSatisfy { $0 < $1 })
        #expect(costs.last! < 1 << 48)
        let ranksCount = node.ranksCount(upTo: costs[5_000])
        #expect((5_001...5_002).contains(ranksCount))
    }
}

@Suite struct FixedPointTests {
    @Test("The logarithm of a power of two is exact") func powersOfTwo() {
        #expect(FixedPoint.negativeLog2(1 << 63) == FixedPoint.one)
        #expect(FixedPoint.negativeLog2(1) == 64 * FixedPoint.one)
    }

    /// The second and the third lie between two entries of the table.
    @Test(
        "The logarithm is right within 2⁻²⁶",
        arguments: [(0.75, 0.4150374992788438), (0.7, 0.5145731728297583), (0.999, 0.0014434168696687174), (0.001, 9.965784284662087)])
    func logarithm(value: Double, expected: Double) {
        let logarithm = FixedPoint.negativeLog2(UInt64(value * 18_446_744_073_709_551_616))
        #expect(abs(Double(logarithm) / Double(FixedPoint.one) - expected) < 1.0 / 67_108_864)
    }

    @Test("The square root is rounded down", arguments: [0, 1, 2, 65_535, 65_536, (1 << 47) - 1, 1 << 47]) func squareRoot(value: UInt64) {
        let root = FixedPoint.squareRoot(value)
        #expect(root * root <= value)
        #expect((root + 1) * (root + 1) > value)
    }
}
