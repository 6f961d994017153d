import PresenceWire

/// The users of each slot, and a hash of what is kept of them. Equal facts have equal hashes, in whatever order they came.
///
/// Two nodes compare slots by these hashes and exchange only what differs. Pages of 64 slots are made when they are needed.
struct SlotHashes {
    typealias Index = UserTable<OwnedUser>.Index

    private struct Page {
        var hashes = [UInt64](repeating: 0, count: SlotHashes.pageSlotsCount)
        /// The slots with a hash other than 0, a bit each.
        var known: UInt64 = 0
    }

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotHashes.pageSlotsCount)
    /// Those that were made.
    private var madePages = PageSet()
    private var users = SlotIndex()

    /// The hash of a slot; 0 for one of which nothing is known.
    func hash(of slot: Slot) -> UInt64 { page(of: slot)?.hashes[Self.place(slot)] ?? 0 }

    /// The users of a slot, in no particular but a reproducible order.
    func users(of slot: Slot) -> [Index] { users[slot] }

    /// Calls `body` with each slot of which something is known, in order.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) {
        madePages.forEach { number in
            guard let page = pages[number], page.known != 0 else { return }
            page.known.forEachBit { body(Slot(number * Self.pageSlotsCount + $0), page.hashes[$0]) }
        }
    }

    /// Calls `body` with each user of these slots, in their order; empty ones cost nothing.
    func forEachUser(in slots: ClosedRange<Slot>, _ body: (Index) -> Void) { users.forEach(in: slots) { body($1) } }

    mutating func insert(_ user: Index, slot: Slot) { users.insert(user, slot: slot) }

    mutating func remove(_ user: Index, slot: Slot) { users.remove(user, slot: slot) }

    /// The facts of a user of the slot have changed.
    mutating func replace(_ old: UInt64, by new: UInt64, slot: Slot) {
        change(slot) { page in
            page.hashes[Self.place(slot)] ^= old ^ new
            let bit: UInt64 = 1 << UInt64(Self.place(slot))
            if page.hashes[Self.place(slot)] == 0 { page.known &= ~bit } else { page.known |= bit }
        }
    }

    private func page(of slot: Slot) -> Page? { pages[Int(slot) / Self.pageSlotsCount] }

    private mutating func change(_ slot: Slot, _ body: (inout Page) -> Void) {
        let number = Int(slot) / Self.pageSlotsCount
        if pages[number] == nil {
            pages[number] = Page()
            madePages.insert(number)
        }
        body(&pages[number]!)
    }

    private static func place(_ slot: Slot) -> Int { Int(slot) % pageSlotsCount }
}
