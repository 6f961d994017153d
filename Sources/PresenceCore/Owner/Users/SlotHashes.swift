import PresenceWire

/// A hash of the facts of each slot's users. Equal facts have equal hashes, in whatever order they arrived.
///
/// Two nodes compare slots by these hashes and exchange only the differences. Pages of 64 slots are made when they are needed.
struct SlotHashes {
    private struct Page {
        var hashes = [UInt64](repeating: 0, count: SlotHashes.pageSlotsCount)
        /// The slots with a hash other than 0, one bit each.
        var known: UInt64 = 0
    }

    private static let pageSlotsCount = 64
    private var pages = [Page?](repeating: nil, count: Ring.slotsCount / SlotHashes.pageSlotsCount)
    /// The pages that exist.
    private var madePages = PageSet()

    /// The hash of a slot; 0 for one without facts.
    func hash(of slot: Slot) -> UInt64 { pages[Int(slot) / Self.pageSlotsCount]?.hashes[Self.index(slot)] ?? 0 }

    /// Calls `body` with each slot that has facts, in order.
    func forEachSlot(_ body: (Slot, UInt64) -> Void) {
        madePages.forEach { number in
            guard let page = pages[number], page.known != 0 else { return }
            page.known.forEachBit { body(Slot(number * Self.pageSlotsCount + $0), page.hashes[$0]) }
        }
    }

    /// Replaces a user's part of a slot's hash.
    mutating func replace(_ old: UInt64, by new: UInt64, slot: Slot) {
        change(slot) { page in
            page.hashes[Self.index(slot)] ^= old ^ new
            let bit: UInt64 = 1 << UInt64(Self.index(slot))
            if page.hashes[Self.index(slot)] == 0 { page.known &= ~bit } else { page.known |= bit }
        }
    }

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
