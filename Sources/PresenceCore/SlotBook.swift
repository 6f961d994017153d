import PresenceWire

/// By slot: which users are kept, and a hash of what is kept of them; equal for equal facts, in whatever order they came.
///
/// Two nodes compare slots by these hashes and exchange only what differs (design §6). Pages of 64 slots are made when they are needed.
struct SlotBook {
    typealias Index = UserTable<OwnedUser>.Index

    private struct Page {
        var hashes = [UInt64](repeating: 0, count: SlotBook.pageSlotsCount)
        var users = [[Index]](repeating: [], count: SlotBook.pageSlotsCount)
    }

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotBook.pageSlotsCount)

    /// The hash of a slot; 0 for one of which nothing is known.
    func hash(of slot: Slot) -> UInt64 { page(of: slot)?.hashes[Self.place(slot)] ?? 0 }

    /// The users of a slot, in no particular but a reproducible order.
    func users(of slot: Slot) -> [Index] { page(of: slot)?.users[Self.place(slot)] ?? [] }

    /// Calls `body` with each slot of which something is known, in order.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) {
        for (number, page) in pages.enumerated() {
            guard let page else { continue }
            for place in page.hashes.indices where page.hashes[place] != 0 {
                body(Slot(number * Self.pageSlotsCount + place), page.hashes[place])
            }
        }
    }

    /// Calls `body` with each user of these slots; empty pages cost nothing.
    func forEachUser(in slots: ClosedRange<Slot>, _ body: (Index) -> Void) {
        var start = Int(slots.lowerBound)
        while start <= Int(slots.upperBound) {
            let number = start / Self.pageSlotsCount
            let end = min((number + 1) * Self.pageSlotsCount, Int(slots.upperBound) + 1)
            if let page = pages[number] {
                for slot in start..<end { for user in page.users[slot % Self.pageSlotsCount] { body(user) } }
            }
            start = end
        }
    }

    mutating func insert(_ user: Index, slot: Slot) { change(slot) { $0.users[Self.place(slot)].append(user) } }

    mutating func remove(_ user: Index, slot: Slot) {
        change(slot) { page in
            if let place = page.users[Self.place(slot)].firstIndex(of: user) { page.users[Self.place(slot)].remove(at: place) }
        }
    }

    /// What is kept of a user of the slot has changed.
    mutating func replace(_ old: UInt64, by new: UInt64, slot: Slot) { change(slot) { $0.hashes[Self.place(slot)] ^= old ^ new } }

    private func page(of slot: Slot) -> Page? { pages[Int(slot) / Self.pageSlotsCount] }

    private mutating func change(_ slot: Slot, _ body: (inout Page) -> Void) {
        let number = Int(slot) / Self.pageSlotsCount
        if pages[number] == nil { pages[number] = Page() }
        body(&pages[number]!)
    }

    private static func place(_ slot: Slot) -> Int { Int(slot) % pageSlotsCount }
}
