import PresenceWire

/// Which places of a ``UserTable`` hold the users of a slot; so that a range of slots is walked without a walk of the table.
struct SlotIndex {
    private struct Page {
        /// The slots with users, a bit each.
        var occupied: UInt64 = 0
        var users = [[UserTable<Int>.Index]](repeating: [], count: SlotIndex.pageSlotsCount)
    }

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotIndex.pageSlotsCount)
    private var occupiedPages = PageSet()

    /// The places of a slot's users, in no particular but a reproducible order.
    subscript(slot: Slot) -> [UserTable<Int>.Index] {
        pages[Int(slot) / Self.pageSlotsCount].map { $0.users[Int(slot) % Self.pageSlotsCount] } ?? []
    }

    /// Calls `body` with each user of these slots, in their order; empty ones cost nothing.
    func forEach(in slots: ClosedRange<Slot>, _ body: (Slot, UserTable<Int>.Index) -> Void) {
        let numbers = Int(slots.lowerBound) / Self.pageSlotsCount...Int(slots.upperBound) / Self.pageSlotsCount
        occupiedPages.forEach(in: numbers) { number in
            guard let page = pages[number] else { return }
            let first = number * Self.pageSlotsCount
            page.occupied.forEachBit { place in
                guard slots.contains(Slot(first + place)) else { return }
                for index in page.users[place] { body(Slot(first + place), index) }
            }
        }
    }

    /// The places of the users of the slots for which `isWanted` holds, in the order of the slots.
    func users(where isWanted: (Slot) -> Bool) -> [UserTable<Int>.Index] {
        var found: [UserTable<Int>.Index] = []
        occupiedPages.forEach { number in
            guard let page = pages[number] else { return }
            page.occupied.forEachBit { place in
                if isWanted(Slot(number * Self.pageSlotsCount + place)) { found += page.users[place] }
            }
        }
        return found
    }

    mutating func insert(_ index: UserTable<Int>.Index, slot: Slot) {
        let number = Int(slot) / Self.pageSlotsCount
        let place = Int(slot) % Self.pageSlotsCount
        if pages[number] == nil { pages[number] = Page() }
        pages[number]!.users[place].append(index)
        pages[number]!.occupied |= 1 << UInt64(place)
        occupiedPages.insert(number)
    }

    mutating func remove(_ index: UserTable<Int>.Index, slot: Slot) {
        let (number, place) = (Int(slot) / Self.pageSlotsCount, Int(slot) % Self.pageSlotsCount)
        guard let users = pages[number]?.users[place] else { return }
        if let found = users.firstIndex(of: index) { pages[number]!.users[place].swapAt(found, users.count - 1) }
        _ = pages[number]!.users[place].popLast()
        guard users.count <= 1 else { return }
        pages[number]!.occupied &= ~(1 << UInt64(place))
        if pages[number]!.occupied == 0 { occupiedPages.remove(number) }
    }
}

extension UInt64 {
    /// Calls `body` with the place of each bit that is set, from the lowest on.
    func forEachBit(_ body: (Int) -> Void) {
        var rest = self
        while rest != 0 {
            body(rest.trailingZeroBitCount)
            rest &= rest &- 1
        }
    }
}
