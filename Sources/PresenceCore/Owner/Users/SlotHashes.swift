import PresenceWire

/// The users of each slot, and a hash of their facts. Equal facts have equal hashes, in whatever order they arrived.
///
/// Two nodes compare slots by these hashes and exchange only the differences. Pages of 64 slots are made when they are needed.
struct SlotHashes {
    typealias Index = UserTable<OwnedUser>.Index

    private struct Page {
        var hashes = [UInt64](repeating: 0, count: SlotHashes.pageSlotsCount)
        /// The slots with a hash other than 0, one bit each.
        var known: UInt64 = 0
    }

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotHashes.pageSlotsCount)
    /// The pages that exist.
    private var madePages = PageSet()
    private var users = SlotIndex()

    /// The hash of a slot; 0 for one without facts.
    func hash(of slot: Slot) -> UInt64 { page(of: slot)?.hashes[Self.index(slot)] ?? 0 }

    /// The users of a slot, in a reproducible order.
    func users(of slot: Slot) -> [Index] { users[slot] }

    /// Calls `body` with each slot that has facts, in order.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) {
        madePages.forEach { number in
            guard let page = pages[number], page.known != 0 else { return }
            page.known.forEachBit { body(Slot(number * Self.pageSlotsCount + $0), page.hashes[$0]) }
        }
    }

    /// Calls `body` with each user of these slots, in the order of the slots. Empty slots cost nothing.
    func forEachUser(in slots: ClosedRange<Slot>, _ body: (Index) -> Void) { users.forEach(in: slots) { body($1) } }

    mutating func insert(_ user: Index, slot: Slot) { users.insert(user, slot: slot) }

    mutating func remove(_ user: Index, slot: Slot) { users.remove(user, slot: slot) }

    /// Replaces a user's part of a slot's hash.
    mutating func replace(_ old: UInt64, by new: UInt64, slot: Slot) {
        change(slot) { page in
            page.hashes[Self.index(slot)] ^= old ^ new
            let bit: UInt64 = 1 << UInt64(Self.index(slot))
            if page.hashes[Self.index(slot)] == 0 { page.known &= ~bit } else { page.known |= bit }
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

    private static func index(_ slot: Slot) -> Int { Int(slot) % pageSlotsCount }
}
