import PresenceWire

/// Which places of a ``UserTable`` hold the users of a slot; so that a range of slots is walked without a walk of the table.
struct SlotIndex {
    private typealias Page = [[UserTable<Int>.Index]]

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotIndex.pageSlotsCount)

    /// The places of a slot's users, in no particular but a reproducible order.
    subscript(slot: Slot) -> [UserTable<Int>.Index] {
        pages[Int(slot) / Self.pageSlotsCount].map { $0[Int(slot) % Self.pageSlotsCount] } ?? []
    }

    /// Calls `body` with each user of these slots; empty pages cost nothing.
    func forEach(in slots: ClosedRange<Slot>, _ body: (Slot, UserTable<Int>.Index) -> Void) {
        var start = Int(slots.lowerBound)
        while start <= Int(slots.upperBound) {
            let number = start / Self.pageSlotsCount
            let end = min((number + 1) * Self.pageSlotsCount, Int(slots.upperBound) + 1)
            if let page = pages[number] {
                for slot in start..<end { for index in page[slot % Self.pageSlotsCount] { body(Slot(slot), index) } }
            }
            start = end
        }
    }

    mutating func insert(_ index: UserTable<Int>.Index, slot: Slot) {
        let number = Int(slot) / Self.pageSlotsCount
        if pages[number] == nil { pages[number] = Page(repeating: [], count: Self.pageSlotsCount) }
        pages[number]![Int(slot) % Self.pageSlotsCount].append(index)
    }

    mutating func remove(_ index: UserTable<Int>.Index, slot: Slot) {
        let (number, place) = (Int(slot) / Self.pageSlotsCount, Int(slot) % Self.pageSlotsCount)
        if let found = pages[number]?[place].firstIndex(of: index) { pages[number]![place].swapAt(found, pages[number]![place].count - 1) }
        _ = pages[number]?[place].popLast()
    }
}
