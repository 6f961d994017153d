import HeapModule
import PresenceWire

/// Which nodes hold each slot: a pure function of the members and their weights, so the same on every node with the same view.
///
/// Rendezvous hashing with a cap on each node's load, solved by deferred acceptance (Gale and Shapley, 1962): every slot proposes to
/// nodes in the order of their ``Preferences``; a node over its cap lets the slot that it likes least go on to the next. The result does
/// not depend on the order of proposals, so neither on that of the members.
public struct Ring: Sendable {
    /// Slots; a user's is the top 16 bits of its hash.
    public static let slotsCount = 65_536
    /// Nodes that hold a slot: its owner and two more (durable once two of three have it).
    public static let replicasMax = 3

    /// A node with its share.
    public struct Member: Hashable, Sendable {
        public var id: NodeID
        /// Its share of the slots, relative to the others'; 1–1000, others count as the nearest of these.
        public var weight: Int

        public init(id: NodeID, weight: Int = 100) {
            self.id = id
            self.weight = weight
        }
    }

    /// The nodes, by ID.
    public let members: [Member]
    /// Replicas of each slot: ``replicasMax``, or all members where they are fewer.
    public let replicasCount: Int
    /// For each slot ``replicasCount`` indices into ``members``, its owner first.
    private let replicas: [UInt16]
    /// The slots of each member, while these are few: every node of a cluster asks for its own whenever the members change.
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

    /// The node of this rank among those that hold a slot, as an index into ``members``; nil from ``replicasCount`` on.
    ///
    /// Rank 0 is the owner. Rank 1 is the node that owns the slot once the owner is gone: measured with equal weights, in all slots of 3 or
    /// 10 nodes, in 99.9 % with 100 and in 99.8 % with 1,000.
    @inline(__always)
    public func replica(_ rank: Int, of slot: Slot) -> Int? {
        rank < replicasCount ? Int(replicas[Int(slot) * replicasCount + rank]) : nil
    }

    /// Whether this member, an index into ``members``, holds the slot, as its owner or as another replica.
    public func isReplica(_ member: Int, of slot: Slot) -> Bool {
        (0..<replicasCount).contains { replicas[Int(slot) * replicasCount + $0] == member }
    }

    /// The slots that this member, an index into ``members``, owns; without members all slots.
    func isOwned(by member: Int?) -> SlotSet {
        guard !members.isEmpty else { return .all }
        guard let member else { return SlotSet() }
        if member < ownedSlots.count { return ownedSlots[member] }
        let count = replicasCount
        return replicas.withUnsafeBufferPointer { replicas in SlotSet { replicas[$0 &* count] == member } }
    }

    /// How many slots each member owns.
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
    /// The fair share f and 5 % or 0.89 √f more, whichever is more (from f = 317 down the latter: 11 % at 65), rounded down, never below f.
    /// A tighter cap moves more at a change: a node at its cap that loses a slot to a newcomer takes back another. Without a cap the number
    /// would deviate by about 0.71 √f, so few nodes are at it: measured, 5 % of 100 and 16 % of 1,000.
    static func cap(weight: UInt64, weightsTotal: UInt64) -> Int {
        let fair = UInt64(slotsCount) * weight << 16 / weightsTotal  // 16 bits behind the point, as in all three.
        let slack = max(fair / 20, FixedPoint.squareRoot(fair << 16) * 89 / 100)
        let fairRoundedUp = (fair + 0xFFFF) >> 16
        return Int(max(fairRoundedUp, (fair + slack) >> 16))
    }
}

/// Deferred acceptance at work: who has accepted which slots so far.
private struct SlotPlacement {
    private var preferences: Preferences
    /// The member that holds each slot now.
    private var holders: [UInt16] = []
    /// How many members have refused each slot: its position in its list.
    private var positions: [UInt16] = Array(repeating: 0, count: Ring.slotsCount)
    /// How many slots each member may hold, and how many it does.
    private let countsMax: [Int]
    private var counts: [Int]
    /// The slots of each member that has refused one, each as its cost and its number. Few members get that far; the others need no order.
    private var ordered: [Heap<UInt64>]

    init(_ members: [Ring.Member]) {
        let weights = members.map { UInt64(min(max($0.weight, 1), 1_000)) }
        let weightsTotal = weights.reduce(0, +)
        preferences = Preferences(members.map(\.id), weights: weights)
        countsMax = weights.map { Ring.cap(weight: $0, weightsTotal: weightsTotal) }
        counts = weights.map { _ in 0 }
        ordered = weights.map { _ in [] }
    }

    /// Finds the owner of every slot. Ends, because the caps add up to all slots at least.
    ///
    /// All slots propose at once to the member that they like best; whom too many like refuses the dearest, which go on one by one.
    mutating func settle() {
        holders = (0..<Ring.slotsCount).map { UInt16(Preferences.member(preferences.choice(0, of: $0))) }
        for holder in holders { counts[Int(holder)] += 1 }
        for refused in refuse() { propose(refused) }
    }

    /// Each member that holds too much keeps the slots that cost it least.
    ///
    /// - Returns: the others, by their numbers.
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

    /// A slot that was refused proposes to the next, and so does whom it displaces.
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

    /// What a slot costs its holder, and its number.
    private mutating func entry(_ slot: Int) -> UInt64 {
        Preferences.cost(preferences.choice(Int(positions[slot]), of: slot)) << 16 | UInt64(slot)
    }

    private static func slot(_ entry: UInt64) -> Int { Int(entry & 0xFFFF) }

    /// Slot by slot the owner; the next that would accept the slot, as far as can be told from what each accepts now; and of the others
    /// those that the slot likes best, whether they would or not, because that changes least with the members: as measured with
    /// 1,000, a leave makes 1.05 copies for each that the leaver held, but 1.6 if the third has to accept the slot, too.
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
