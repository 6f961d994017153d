import PresenceWire

/// Which node owns each slot: a pure function of the members and their weights, the same on every node with the same view (design §2, Ring).
///
/// Rendezvous hashing with a cap on each node's load, solved by deferred acceptance (Gale and Shapley, 1962): every slot proposes to
/// nodes in the order of its scores; a node over its cap lets its lowest-scored slot go on to the next. The result does not depend on
/// the order of proposals, so neither on that of the members.
public struct Ring: Sendable {
    /// Slots; a user's is the top 16 bits of its hash.
    public static let slotsCount = 65_536

    /// A node with its share.
    public struct Member: Hashable, Sendable {
        public var id: NodeID
        /// Its share of the slots, 1–1000, relative to the others'.
        public var weight: Int

        public init(id: NodeID, weight: Int = 100) {
            self.id = id
            self.weight = weight
        }
    }

    /// The nodes, by ID.
    public let members: [Member]
    /// The owner of each slot, as an index into ``members``; empty without members.
    private let owners: [UInt16]
    private let keepers: [UInt16]

    /// - Parameter members: in any order, each ID once; at most 65,535.
    public init(members: [Member]) {
        self.members = members.sorted { $0.id < $1.id }
        owners = Self.place(self.members)
        keepers = Self.keepers(self.members, owners)
    }

    /// The owner of a slot, as an index into ``members``; nil without members.
    @inline(__always)
    public func owner(of slot: Slot) -> Int? { owners.isEmpty ? nil : Int(owners[Int(slot)]) }

    /// How many nodes keep each slot.
    public var replicasCount: Int { min(Self.replicasMax, members.count) }

    /// Most nodes that keep a slot, its owner included (design §6: R = 3).
    public static let replicasMax = 3

    /// A node that keeps a slot, as an index into ``members``: rank 0 is the owner, 1 the next one.
    public func replica(_ rank: Int, of slot: Slot) -> Int? {
        rank < replicasCount ? Int(keepers[Int(slot) * replicasCount + rank]) : nil
    }

    /// How many slots each member owns.
    public var slotsCounts: [Int] {
        var counts = Array(repeating: 0, count: members.count)
        for owner in owners { counts[Int(owner)] += 1 }
        return counts
    }

    /// 1.05 × the fair share, rounded up: tried in the design, a tighter cap moves more slots at a change.
    private static func caps(_ members: [Member]) -> [Int] {
        let total = members.reduce(0) { $0 + $1.weight }
        return members.map { (slotsCount * $0.weight * 105 + total * 100 - 1) / (total * 100) }
    }

    private static func keepers(_ members: [Member], _ owners: [UInt16]) -> [UInt16] {
        let scores = Scores(members)
        var keepers: [UInt16] = []
        for (slot, owner) in owners.enumerated() {
            var taken = [owner]
            while taken.count < min(replicasMax, members.count) { taken.append(UInt16(scores.best(for: slot, except: taken))) }
            keepers += taken
        }
        return keepers
    }

    private static func place(_ members: [Member]) -> [UInt16] {
        guard !members.isEmpty else { return [] }
        let scores = Scores(members)
        let caps = caps(members)
        var accepted = Array(repeating: SlotHeap(), count: members.count)
        var owners = [UInt16](repeating: 0, count: slotsCount)
        var refusals: [Int: [UInt16]] = [:]
        for first in 0..<slotsCount {
            var slot = first
            while true {
                let member = scores.best(for: slot, except: refusals[slot] ?? [])
                owners[slot] = UInt16(member)
                accepted[member].insert(slot: slot, score: scores.score(of: slot, at: member))
                guard accepted[member].count > caps[member] else { break }
                slot = accepted[member].removeLowest()
                refusals[slot, default: []].append(UInt16(member))
            }
        }
        return owners
    }
}

/// The preference of each slot for each node: −log2(hash) / weight, lowest first, in fixed point, so that it is equal everywhere.
private struct Scores {
    private let hashes: [UInt64]
    private let weights: [UInt64]
    private let isWeighted: Bool

    init(_ members: [Ring.Member]) {
        hashes = members.map { StableHash.hash64(Array($0.id.rawValue.utf8)) }
        weights = members.map { UInt64($0.weight) }
        isWeighted = Set(weights).count > 1
    }

    /// Higher is better. With equal weights the hash itself; otherwise its logarithm's distance from 0, divided by the weight.
    @inline(__always)
    func score(of slot: Int, at member: Int) -> UInt64 {
        let hash = StableHash.mix(hashes[member], UInt64(slot))
        return isWeighted ? ~(FixedPoint.negativeLog2(hash) / weights[member]) : hash
    }

    func best(for slot: Int, except refused: [UInt16]) -> Int {
        var best = -1
        var bestScore: UInt64 = 0
        for member in hashes.indices where refused.isEmpty || !refused.contains(UInt16(member)) {
            let score = score(of: slot, at: member)
            if best < 0 || score > bestScore { (best, bestScore) = (member, score) }
        }
        return best
    }
}

/// Arithmetic that gives the same bits on every platform.
enum FixedPoint {
    /// −log2((hash + 1) / 2⁶⁴) with 32 bits behind the point, by repeated squaring (Knuth, TAOCP 1, §1.2.2, exercise 25).
    static func negativeLog2(_ hash: UInt64) -> UInt64 {
        guard hash > 0 else { return 64 << 32 }
        let zeros = hash.leadingZeroBitCount
        var mantissa = hash << UInt64(zeros)  // 1.63 fixed point in [1, 2)
        var fraction: UInt64 = 0
        for _ in 0..<32 {
            let (high, low) = mantissa.multipliedFullWidth(by: mantissa)
            fraction <<= 1
            if high >> 63 == 1 {
                fraction |= 1
                mantissa = high
            } else {
                mantissa = high << 1 | low >> 63
            }
        }
        return (UInt64(zeros) + 1) << 32 - fraction
    }
}

/// The slots that a node has accepted, the lowest score on top.
private struct SlotHeap {
    private var entries: [(score: UInt64, slot: Int)] = []

    var count: Int { entries.count }

    mutating func insert(slot: Int, score: UInt64) {
        entries.append((score, slot))
        var child = entries.count - 1
        while child > 0, entries[child] < entries[(child - 1) / 2] {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeLowest() -> Int {
        let lowest = entries[0].slot
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var parent = 0
        while true {
            var child = 2 * parent + 1
            guard child < entries.count else { return lowest }
            if child + 1 < entries.count, entries[child + 1] < entries[child] { child += 1 }
            guard entries[child] < entries[parent] else { return lowest }
            entries.swapAt(child, parent)
            parent = child
        }
    }
}
