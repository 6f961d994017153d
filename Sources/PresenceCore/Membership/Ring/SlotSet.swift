import PresenceWire

/// A set of the ``Ring/slotsCount`` slots. A bit each, 8 KB in total, so that a change of the ring touches little memory.
struct SlotSet: Equatable, Sendable {
    private static let wordsCount = Ring.slotsCount / UInt64.bitWidth
    private var words: [UInt64]

    /// Makes an empty set.
    init() { words = Array(repeating: 0, count: Self.wordsCount) }

    /// The set of all slots.
    static let all: SlotSet = {
        var set = SlotSet()
        set.words = Array(repeating: .max, count: wordsCount)
        return set
    }()

    /// Makes the set of the slots for which `isMember` holds.
    init(where isMember: (Int) -> Bool) {
        words = [UInt64](unsafeUninitializedCapacity: Self.wordsCount) { words, count in
            for word in 0..<Self.wordsCount {
                var bits: UInt64 = 0
                for bit in 0..<UInt64.bitWidth { bits |= (isMember(word &* UInt64.bitWidth &+ bit) ? 1 : 0) &<< UInt64(bit) }
                words[word] = bits
            }
            count = Self.wordsCount
        }
    }

    /// All slots in `count` sets: `part` gives the set of each.
    static func partition(count: Int, by part: (Int) -> Int) -> [SlotSet] {
        var words = [UInt64](repeating: 0, count: count * wordsCount)
        for slot in 0..<Ring.slotsCount {
            words[part(slot) &* wordsCount &+ slot / UInt64.bitWidth] |= 1 << UInt64(slot % UInt64.bitWidth)
        }
        return (0..<count).map { part in
            var set = SlotSet()
            set.words = Array(words[part * wordsCount..<(part + 1) * wordsCount])
            return set
        }
    }

    var count: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }

    func contains(_ slot: Slot) -> Bool { words[Int(slot) / UInt64.bitWidth] & 1 << UInt64(Int(slot) % UInt64.bitWidth) != 0 }

    mutating func insert(_ slot: Slot) { words[Int(slot) / UInt64.bitWidth] |= 1 << UInt64(Int(slot) % UInt64.bitWidth) }

    /// Removes the slots for which `isTaken` holds, and returns them in order.
    mutating func take(where isTaken: (Slot) -> Bool) -> [Slot] {
        var taken: [Slot] = []
        for word in words.indices where words[word] != 0 {
            words[word].forEachBit { bit in
                let slot = Slot(word * UInt64.bitWidth + bit)
                if isTaken(slot) { taken.append(slot) }
            }
        }
        for slot in taken { words[Int(slot) / UInt64.bitWidth] &= ~(1 << UInt64(Int(slot) % UInt64.bitWidth)) }
        return taken
    }

    func isSubset(of other: SlotSet) -> Bool { words.indices.allSatisfy { words[$0] & ~other.words[$0] == 0 } }

    /// Keeps only the slots that are in `other` too.
    mutating func formIntersection(_ other: SlotSet) { for word in words.indices { words[word] &= other.words[word] } }
}
