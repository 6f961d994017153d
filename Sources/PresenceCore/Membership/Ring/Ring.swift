import HeapModule
import PresenceWire

/// The nodes that hold each slot. It is a pure function of the members and their weights, so nodes with the same members agree.
///
/// The ring is rendezvous hashing with a cap on each node's load, solved by deferred acceptance (Gale and Shapley, 1962). Every slot
/// proposes to nodes in the order of its ``Preferences``. A node over its cap passes on the slots that it likes least.
///
/// The result depends neither on the order of proposals nor on that of the members (<doc:SlotRing>).
public struct Ring: Sendable {
    /// The number of slots. A user's slot is the top 16 bits of its hash.
    public static let slotsCount = 65_536
    /// The nodes that hold a slot: its owner and two more. A change is durable once two of the three have it.
    public static let replicasMax = 3

    /// A node and its weight.
    public struct Member: Hashable, Sendable {
        public var id: NodeID
        /// The node's share of the slots, relative to the others'; 1–1000. Other values count as the nearest of these.
        public var weight: Int

        public init(id: NodeID, weight: Int = 100) {
            self.id = id
            self.weight = weight
        }
    }

    /// The nodes, by ID.
    public let members: [Member]
    /// The replicas of each slot: ``replicasMax``, or all members if they are fewer.
    public let replicasCount: Int
    /// For each slot ``replicasCount`` indices into ``members``, the owner first.
    private let replicas: [UInt16]
    /// The slots of each member, if the members are few. Every node reads its own whenever the members change.
    private let ownedSlots: [SlotSet]
    private static let ownedSlotsMax = 16

    /// - Parameter members: in any order, each ID once; at most 65,535.
    public init(members: [Member]) {
        self.members = members.sorted { $0.id < $1.id }
        replicasCount = min(Self.replicasMax, members.count)
        guard members.count > 1 else {
            replicas = Array(repeating: 0, count: members.count * Self.slotsCount)
            ownedSlots = members.map { _ in .all }
            return
        }
        var placement = SlotPlacement(self.members)
        placement.settle()
        let replicas = placement.replicas(count: replicasCount)
        self.replicas = replicas
        let count = replicasCount
        let isFew = members.count <= Self.ownedSlotsMax
        ownedSlots = isFew ? SlotSet.partition(count: members.count) { Int(replicas[$0 &* count]) } : []
    }

    /// The owner of a slot, as an index into ``members``; nil without members.
    @inline(__always)
    public func owner(of slot: Slot) -> Int? { replica(0, of: slot) }

    /// The replica of this rank, as an index into ``members``; nil from ``replicasCount`` on.
    ///
    /// Rank 0 is the owner. Rank 1 owns the slot once the owner is gone. With equal weights that holds in all slots of 3 or 10 nodes, in
    /// 99.9 % with 100 and in 99.8 % with 1,000 (measured).
    @inline(__always)
    public func replica(_ rank: Int, of slot: Slot) -> Int? {
        rank < replicasCount ? Int(replicas[Int(slot) * replicasCount + rank]) : nil
    }

    /// The slots that this member, an index into ``members``, owns; all slots without members.
    func isOwned(by member: Int?) -> SlotSet {
        guard !members.isEmpty else { return .all }
        guard let member else { return SlotSet() }
        if member < ownedSlots.count { return ownedSlots[member] }
        let count = replicasCount
        return replicas.withUnsafeBufferPointer { replicas in SlotSet { replicas[$0 &* count] == member } }
    }

    /// The number of slots that each member owns.
    public var slotsCounts: [Int] {
        var counts = Array(repeating: 0, count: members.count)
        let count = replicasCount
        replicas.withUnsafeBufferPointer { replicas in
            counts.withUnsafeMutableBufferPointer { counts in
                for slot in 0..<(counts.isEmpty ? 0 : Self.slotsCount) { counts[Int(replicas[slot &* count])] += 1 }
            }
        }
        return counts
    }

    /// The most slots that a node may own whose fair share of them is `weight` of `weightsTotal`.
    ///
    /// It is the fair share f and 5 % or 0.89 √f more, whichever is more, rounded down, never below f. From f = 317 down the latter is
    /// more: 11 % at 65.
    ///
    /// A tighter cap moves more at a change: a node at its cap that loses a slot to a newcomer takes back another. Without a cap the number
    /// would deviate by about 0.71 √f, so few nodes reach it: measured, 5 % of 100 and 16 % of 1,000.
    static func cap(weight: UInt64, weightsTotal: UInt64) -> Int {
        let fair = UInt64(slotsCount) * weight << 16 / weightsTotal  // 16 bits behind the point, as in all three.
        let slack = max(fair / 20, FixedPoint.squareRoot(fair << 16) * 89 / 100)
        let fairRoundedUp = (fair + 0xFFFF) >> 16
        return Int(max(fairRoundedUp, (fair + slack) >> 16))
    }
}

/// The state of the deferred acceptance: the slots that each member has accepted.
private struct SlotPlacement {
    private var preferences: Preferences
    /// The member that holds each slot now.
    private var holders: [UInt16] = []
    /// The number of members that have refused each slot: its position in its list.
    private var positions: [UInt16] = Array(repeating: 0, count: Ring.slotsCount)
    /// The number of slots that each member may hold, and that it holds.
    private let countsMax: [Int]
    private var counts: [Int]
    /// The slots of each member that has refused one, each as its cost and its number. Few members refuse; the others need no order.
    private var ordered: [Heap<UInt64>]

    init(_ members: [Ring.Member]) {
        let weights = members.map { UInt64(min(max($0.weight, 1), 1_000)) }
        let weightsTotal = weights.reduce(0, +)
        preferences = Preferences(members.map(\.id), weights: weights)
        countsMax = weights.map { Ring.cap(weight: $0, weightsTotal: weightsTotal) }
        counts = weights.map { _ in 0 }
        ordered = weights.map { _ in [] }
    }

    /// Finds the owner of every slot. It ends, because the caps add up to at least all slots.
    ///
    /// All slots propose at once to the member that they prefer. A member with too many refuses the most expensive ones, which propose one
    /// by one.
    mutating func settle() {
        holders = (0..<Ring.slotsCount).map { UInt16(Preferences.member(preferences.choice(0, of: $0))) }
        for holder in holders { counts[Int(holder)] += 1 }
        for refused in refuse() { propose(refused) }
    }

    /// Has each member with too many slots keep the cheapest.
    ///
    /// - Returns: the refused slots.
    private mutating func refuse() -> [Int] {
        let isOver = zip(counts, countsMax).map { $0 > $1 }
        guard isOver.contains(true) else { return [] }
        var entries: [[UInt64]] = counts.map { _ in [] }
        for slot in holders.indices where isOver[Int(holders[slot])] { entries[Int(holders[slot])].append(entry(slot)) }
        var refused: [Int] = []
        for member in counts.indices where isOver[member] {
            let sorted = entries[member].sorted()
            refused += sorted[countsMax[member]...].map(Self.slot)
            ordered[member] = Heap(sorted[..<countsMax[member]])
            counts[member] = countsMax[member]
        }
        return refused.sorted()
    }

    /// Has a refused slot propose to its next member, and then the slot that it displaces.
    private mutating func propose(_ first: Int) {
        var slot = first
        while true {
            positions[slot] += 1
            let member = Preferences.member(preferences.choice(Int(positions[slot]), of: slot))
            guard counts[member] == countsMax[member] else {
                holders[slot] = UInt16(member)
                counts[member] += 1
                return
            }
            if ordered[member].isEmpty { ordered[member] = Heap(holders.indices.filter { holders[$0] == member }.map { self.entry($0) }) }
            let entry = self.entry(slot)
            guard let dearest = ordered[member].max, entry < dearest else { continue }
            ordered[member].replaceMax(with: entry)
            holders[slot] = UInt16(member)
            slot = Self.slot(dearest)
        }
    }

    /// The cost of a slot for its holder, and its number.
    private mutating func entry(_ slot: Int) -> UInt64 {
        Preferences.cost(preferences.choice(Int(positions[slot]), of: slot)) << 16 | UInt64(slot)
    }

    private static func slot(_ entry: UInt64) -> Int { Int(entry & 0xFFFF) }

    /// The replicas of each slot.
    ///
    /// The second replica is the next member that would accept the slot, judged by its current slots. The third is the member that the slot
    /// likes best of the rest, whether or not it would accept. That changes least with the members: measured with 1,000, a leave makes 1.05
    /// copies for each that the leaver held. It would make 1.6 if the third had to accept the slot.
    mutating func replicas(count: Int) -> [UInt16] {
        let costsMax = ordered.map { $0.max.map { $0 >> 16 } ?? .max }
        return [UInt16](unsafeUninitializedCapacity: count * Ring.slotsCount) { replicas, initializedCount in
            for slot in 0..<Ring.slotsCount {
                let owner = Int(positions[slot])
                let successor = successor(of: slot, after: owner, costsMax)
                var next = slot &* count
                let end = next &+ count
                replicas[next] = holders[slot]
                next &+= 1
                if let successor {
                    replicas[next] = UInt16(Preferences.member(preferences.choice(successor, of: slot)))
                    next &+= 1
                }
                var position = 0
                while next < end {
                    if position != owner, position != successor {
                        replicas[next] = UInt16(Preferences.member(preferences.choice(position, of: slot)))
                        next &+= 1
                    }
                    position &+= 1
                }
            }
            initializedCount = count * Ring.slotsCount
        }
    }

    /// The first position after the owner's whose node would accept the slot.
    private mutating func successor(of slot: Int, after owner: Int, _ costsMax: [UInt64]) -> Int? {
        var position = owner + 1
        while position < costsMax.count {
            let choice = preferences.choice(position, of: slot)
            if Preferences.cost(choice) < costsMax[Preferences.member(choice)] { return position }
            position += 1
        }
        return nil
    }
}
