import PresenceWire

/// The indices of a ``UserTable`` that hold the users of each slot, so that a range of slots is walked without a walk of the table.
///
/// The users of a slot are a chain: each names the next one. Most slots of a small node have one user, and an array for each would take
/// twelve times the memory.
struct SlotIndex {
    typealias Index = UserTable<Int>.Index

    private struct Page {
        /// The slots with users, one bit each.
        var occupied: UInt64 = 0
        /// The first user of each slot.
        var first = [Index](repeating: SlotIndex.none, count: SlotIndex.pageSlotsCount)
    }

    /// Stands for no user. A table never has so many entries.
    private static let none = Index.max
    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotIndex.pageSlotsCount)
    private var occupiedPages = PageSet()
    /// For each index the next user of its slot.
    private var next: [Index] = []

    /// The indices of a slot's users, in a reproducible order.
    subscript(slot: Slot) -> [Index] {
        var found: [Index] = []
        guard let page = pages[Int(slot) / Self.pageSlotsCount] else { return [] }
        forEach(from: page.first[Int(slot) % Self.pageSlotsCount]) { found.append($0) }
        return found
    }

    /// Calls `body` with each user of these slots, in the order of the slots. Empty slots cost nothing.
    func forEach(in slots: ClosedRange<Slot>, _ body: (Slot, Index) -> Void) {
        let numbers = Int(slots.lowerBound) / Self.pageSlotsCount...Int(slots.upperBound) / Self.pageSlotsCount
        occupiedPages.forEach(in: numbers) { number in
            guard let page = pages[number] else { return }
            let first = number * Self.pageSlotsCount
            page.occupied.forEachBit { offset in
                guard slots.contains(Slot(first + offset)) else { return }
                forEach(from: page.first[offset]) { body(Slot(first + offset), $0) }
            }
        }
    }

    /// The XOR of the hashes of the users of these slots for which `isWanted` holds.
    func hash(of slots: ClosedRange<Slot>, where isWanted: (Slot) -> Bool, by hash: (Index) -> UInt64) -> UInt64 {
        var sum: UInt64 = 0
        forEach(in: slots) { slot, index in if isWanted(slot) { sum ^= hash(index) } }
        return sum
    }

    /// The indices of the users of the slots for which `isWanted` holds, in the order of the slots.
    func users(where isWanted: (Slot) -> Bool) -> [Index] {
        var found: [Index] = []
        occupiedPages.forEach { number in
            guard let page = pages[number] else { return }
            page.occupied.forEachBit { offset in
                guard isWanted(Slot(number * Self.pageSlotsCount + offset)) else { return }
                forEach(from: page.first[offset]) { found.append($0) }
            }
        }
        return found
    }

    private func forEach(from first: Index, _ body: (Index) -> Void) {
        var index = first
        while index != Self.none {
            body(index)
            index = next[Int(index)]
        }
    }

    mutating func insert(_ index: Index, slot: Slot) {
        let (number, offset) = (Int(slot) / Self.pageSlotsCount, Int(slot) % Self.pageSlotsCount)
        if pages[number] == nil { pages[number] = Page() }
        while next.count <= Int(index) { next.append(Self.none) }
        next[Int(index)] = pages[number]!.first[offset]
        pages[number]!.first[offset] = index
        pages[number]!.occupied |= 1 << UInt64(offset)
        occupiedPages.insert(number)
    }

    mutating func remove(_ index: Index, slot: Slot) {
        let (number, offset) = (Int(slot) / Self.pageSlotsCount, Int(slot) % Self.pageSlotsCount)
        guard let first = pages[number]?.first[offset], first != Self.none else { return }
        if first == index {
            pages[number]!.first[offset] = next[Int(index)]
        } else {
            var before = first
            while next[Int(before)] != index {
                before = next[Int(before)]
                if before == Self.none { return }
            }
            next[Int(before)] = next[Int(index)]
        }
        next[Int(index)] = Self.none
        guard pages[number]!.first[offset] == Self.none else { return }
        pages[number]!.occupied &= ~(1 << UInt64(offset))
        if pages[number]!.occupied == 0 { occupiedPages.remove(number) }
    }
}

extension UInt64 {
    /// Calls `body` with the position of each set bit, from the lowest up.
    func forEachBit(_ body: (Int) -> Void) {
        var rest = self
        while rest != 0 {
            body(rest.trailingZeroBitCount)
            rest &= rest &- 1
        }
    }
}
