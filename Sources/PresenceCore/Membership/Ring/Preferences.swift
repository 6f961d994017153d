import PresenceWire

/// The order in which each slot prefers the nodes: a rendezvous hash, whose scores are costs here (the lowest is the best).
///
/// A cost is −log2(u) / weight with a pseudorandom u in (0, 1]. A node comes first in a share of slots proportional to its weight
/// (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005). The cost depends only on slot and node. Other nodes decide only
/// which nodes come between.
///
/// Only the best few nodes of each slot are listed. Each node finds its slots itself (``NodePreferences``), so the work hardly grows with
/// the number of nodes.
struct Preferences {
    /// Nodes listed per slot on average.
    ///
    /// At least three are needed of a number that is about Poisson distributed. At 12, one slot in 2,000 needs more (measured with 100 and
    /// with 1,000 nodes), and reads every node once.
    private static let listedCount = 12

    /// One node in the list of one slot: its cost in the upper 48 bits, its index in the lower 16. Entries compare by cost.
    typealias Entry = UInt64

    private let nodes: [NodePreferences]
    /// The lists, slot by slot. A list is complete up to some cost, and sorted as far as it was read.
    private var entries: [Entry] = []
    private var begins: [Int] = []
    private var ends: [Int] = []
    private var sortedCounts: [UInt16] = []
    /// The entries of each slot if all nodes are listed and sorted, because they are few; otherwise 0.
    private let wholeCount: Int

    init(_ ids: [NodeID], weights: [UInt64]) {
        nodes = zip(ids, weights).map { NodePreferences($0, weight: $1) }
        wholeCount = nodes.count <= Self.listedCount ? nodes.count : 0
        guard wholeCount == 0 else {
            entries = Self.allEntries(of: nodes)
            return
        }
        let (costMax, ranksCounts) = Self.depth(nodes, weightsTotal: weights.reduce(0, +))
        var slots: [UInt16] = []
        slots.reserveCapacity(ranksCounts.reduce(0, +))
        for (node, ranksCount) in zip(nodes, ranksCounts) { node.appendSlots(ofRanksBelow: ranksCount, to: &slots) }

        sortedCounts = Array(repeating: 0, count: Ring.slotsCount)
        begins = Array(repeating: 0, count: Ring.slotsCount)
        for slot in slots { begins[Int(slot)] += 1 }
        var end = 0
        for slot in begins.indices { (begins[slot], end) = (end, end + begins[slot]) }
        ends = begins
        entries = Array(repeating: 0, count: end)
        fill(slots, ranksCounts, costMax)
    }

    /// All nodes of each slot, in the slot's order.
    private static func allEntries(of nodes: [NodePreferences]) -> [Entry] {
        let functions = nodes.flatMap(\.functions)
        let scales = nodes.map { (seed: $0.seed, weightInverse: $0.weightInverse) }
        let logarithms = FixedPoint.table
        return [Entry](unsafeUninitializedCapacity: nodes.count * Ring.slotsCount) { entries, count in
            for slot in 0..<Ring.slotsCount {
                let begin = slot &* scales.count
                for member in scales.indices {
                    let rank = functions.withUnsafeBufferPointer { NodePreferences.rank(of: slot, functions: $0, from: member << 10) }
                    let hash = NodePreferences.hash(at: rank, seed: scales[member].seed)
                    let logarithm = logarithms.withUnsafeBufferPointer { FixedPoint.negativeLog2(hash, by: $0) }
                    let cost = logarithm.multipliedFullWidth(by: scales[member].weightInverse).high
                    let entry = cost << 16 | UInt64(member)
                    var index = begin &+ member
                    while index > begin, entries[index &- 1] > entry {
                        entries[index] = entries[index &- 1]
                        index &-= 1
                    }
                    entries[index] = entry
                }
            }
            count = nodes.count * Ring.slotsCount
        }
    }

    private mutating func fill(_ slots: [UInt16], _ ranksCounts: [Int], _ costMax: UInt64) {
        var begin = 0
        entries.withUnsafeMutableBufferPointer { entries in
            ends.withUnsafeMutableBufferPointer { ends in
                for member in nodes.indices {
                    let node = nodes[member]
                    for rank in 0..<ranksCounts[member] {
                        let cost = node.cost(at: rank)
                        guard cost <= costMax else { continue }
                        let slot = Int(slots[begin + rank])
                        entries[ends[slot]] = cost << 16 | UInt64(member)
                        ends[slot] += 1
                    }
                    begin += ranksCounts[member]
                }
            }
        }
    }

    /// A cost up to which lists have ``listedCount`` entries on average, and the number of ranks of each node that may cost no more.
    private static func depth(_ nodes: [NodePreferences], weightsTotal: UInt64) -> (costMax: UInt64, ranksCounts: [Int]) {
        // Right if no node has much of the total, as −log2(1 − x) ≈ 1.44 x for a small x. Otherwise it is the first of a few steps.
        var costMax = FixedPoint.one * UInt64(listedCount) / weightsTotal * 23 / 16
        while true {
            let ranksCounts = nodes.map { $0.ranksCount(upTo: costMax) }
            if ranksCounts.reduce(0, +) >= (listedCount - 1) * Ring.slotsCount { return (costMax, ranksCounts) }
            costMax += costMax / 8
        }
    }

    /// The member of an entry.
    static func member(_ entry: Entry) -> Int { Int(entry & 0xFFFF) }

    /// The cost of an entry.
    static func cost(_ entry: Entry) -> UInt64 { entry >> 16 }

    /// The node at `position` in the order of a slot; `position` is less than the number of nodes.
    @inline(__always)
    mutating func choice(_ position: Int, of slot: Int) -> Entry {
        wholeCount > 0 ? entries[slot &* wholeCount &+ position] : sortedChoice(position, of: slot)
    }

    private mutating func sortedChoice(_ position: Int, of slot: Int) -> Entry {
        if position < sortedCounts[slot] { return entries[begins[slot] + position] }
        if position >= ends[slot] - begins[slot] { listAll(for: slot) }
        let begin = begins[slot]
        let end = ends[slot]
        let sorted = begin + Int(sortedCounts[slot])
        sortedCounts[slot] = UInt16(position + 1)
        return entries.withUnsafeMutableBufferPointer { entries in
            for next in sorted...begin + position {
                var least = next
                var entry = entries[next]
                for index in next + 1..<end where entries[index] < entry { (least, entry) = (index, entries[index]) }
                entries[least] = entries[next]
                entries[next] = entry
            }
            return entries[begin + position]
        }
    }

    /// Replaces the list of a slot by one of all nodes. It starts as the old one did.
    private mutating func listAll(for slot: Int) {
        begins[slot] = entries.count
        nodes.withUnsafeBufferPointer { nodes in
            for member in nodes.indices {
                entries.append(nodes[member].cost(at: nodes[member].rank(of: slot)) << 16 | UInt64(member))
            }
        }
        ends[slot] = entries.count
        sortedCounts[slot] = 0
    }
}

/// The cost of one node for each slot.
///
/// Plain rendezvous hashing draws u at random for each slot. Here a node *ranks* the slots in a pseudorandom order, and u falls evenly with
/// the rank. Each pair is still as good as random, but the number of slots with u in some range hardly varies.
///
/// By calculation that halves the variance of the number that a node owns (of 65 out of 65,536: from 65 to 33). A node can also list its
/// cheapest slots without reading the others.
struct NodePreferences {
    fileprivate let seed: UInt64
    fileprivate let weightInverse: UInt64
    /// Four random functions from a byte to a byte.
    fileprivate let functions: [UInt8]

    /// - Parameter weight: 1–1000.
    init(_ id: NodeID, weight: UInt64) {
        let seed = StableHash.hash64(id.rawValue.utf8)
        self.seed = seed
        weightInverse = UInt64.max / weight
        functions = [UInt8](unsafeUninitializedCapacity: 1024) { bytes, count in
            for word in 0..<128 {
                let bits = StableHash.mix(seed, UInt64(word))
                for byte in 0..<8 { bytes[8 * word + byte] = UInt8(truncatingIfNeeded: bits >> UInt64(8 * byte)) }
            }
            count = 1024
        }
    }

    /// Appends the slots of the ranks from 0 on, in this order.
    ///
    /// A Feistel network of four rounds turns a rank into a slot. Four rounds of random functions are a permutation that is as good as
    /// random (Luby and Rackoff, 1988).
    func appendSlots(ofRanksBelow ranksCount: Int, to slots: inout [UInt16]) {
        functions.withUnsafeBufferPointer { functions in
            for rank in 0..<ranksCount {
                var left = rank >> 8
                var right = rank & 0xFF
                for round in 0..<4 { (left, right) = (right, left ^ Int(functions[round << 8 | right])) }
                slots.append(UInt16(truncatingIfNeeded: left << 8 | right))
            }
        }
    }

    /// The rank of a slot, by the same network backwards.
    func rank(of slot: Int) -> Int { functions.withUnsafeBufferPointer { Self.rank(of: slot, functions: $0, from: 0) } }

    @inline(__always)
    fileprivate static func rank(of slot: Int, functions: UnsafeBufferPointer<UInt8>, from first: Int) -> Int {
        var left = slot >> 8
        var right = slot & 0xFF
        (left, right) = (right ^ Int(functions[first | 0x300 | left]), left)
        (left, right) = (right ^ Int(functions[first | 0x200 | left]), left)
        (left, right) = (right ^ Int(functions[first | 0x100 | left]), left)
        (left, right) = (right ^ Int(functions[first | left]), left)
        return left << 8 | right
    }

    /// The cost of the slot of this rank: 48 bits. The lower bits of u are random, so that nodes rarely tie.
    @inline(__always)
    func cost(at rank: Int) -> UInt64 { cost(Self.hash(at: rank, seed: seed)) }

    @inline(__always)
    fileprivate static func hash(at rank: Int, seed: UInt64) -> UInt64 {
        UInt64(0xFFFF - rank) << 48 | StableHash.mix(seed, UInt64(128 + rank)) >> 16
    }

    @inline(__always)
    private func cost(_ hash: UInt64) -> UInt64 { FixedPoint.negativeLog2(hash).multipliedFullWidth(by: weightInverse).high }

    /// The number of ranks that cost at most `costMax`.
    func ranksCount(upTo costMax: UInt64) -> Int {
        var low = 0
        var high = Ring.slotsCount
        while low < high {
            let rank = (low + high) / 2
            if cost(UInt64(0xFFFF - rank) << 48 | (1 << 48 - 1)) <= costMax { low = rank + 1 } else { high = rank }
        }
        return low
    }
}
