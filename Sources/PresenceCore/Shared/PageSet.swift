/// The set of pages of 64 slots that are in use. A walk skips the others, 64 at a time.
struct PageSet {
    private var words = [UInt64](repeating: 0, count: Ring.slotsCount / 64 / 64)

    mutating func insert(_ page: Int) { words[page / 64] |= 1 << UInt64(page % 64) }

    mutating func remove(_ page: Int) { words[page / 64] &= ~(1 << UInt64(page % 64)) }

    /// Calls `body` with each page of the set, from the lowest up.
    func forEach(in pages: ClosedRange<Int> = 0...(Ring.slotsCount / 64 - 1), _ body: (Int) -> Void) {
        for number in pages.lowerBound / 64...pages.upperBound / 64 {
            var word = words[number]
            if number == pages.lowerBound / 64 { word &= .max << UInt64(pages.lowerBound % 64) }
            if number == pages.upperBound / 64 { word &= .max >> UInt64(63 - pages.upperBound % 64) }
            word.forEachBit { body(number * 64 + $0) }
        }
    }
}
