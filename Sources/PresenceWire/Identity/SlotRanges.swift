/// A set of the ``Message/digestRangesCount`` ranges of 64 slots by which nodes compare their users.
public struct SlotRanges: Hashable, Sendable {
    /// Every range.
    public static let all = SlotRanges(words: Array(repeating: .max, count: wordsCount))

    static let wordsCount = Message.digestRangesCount / 64
    static let slotsInRange = 65_536 / Message.digestRangesCount

    /// One bit for each range, from the lowest range up.
    var words: [UInt64]

    init(words: [UInt64]) { self.words = words }

    /// Makes an empty set.
    public init() { words = Array(repeating: 0, count: Self.wordsCount) }

    public var isEmpty: Bool { words.allSatisfy { $0 == 0 } }

    /// The number of ranges in the set.
    public var count: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }

    public mutating func insert(_ range: Int) { words[range / 64] |= 1 << UInt64(range % 64) }

    /// Whether the range of a slot is in the set.
    public func contains(_ slot: Slot) -> Bool { contains(range: Self.range(of: slot)) }

    public func contains(range: Int) -> Bool { words[range / 64] & 1 << UInt64(range % 64) != 0 }

    /// The range of a slot.
    public static func range(of slot: Slot) -> Int { Int(slot) / slotsInRange }

    /// The slots of a range.
    public static func slots(of range: Int) -> ClosedRange<Slot> { Slot(range * slotsInRange)...Slot((range + 1) * slotsInRange - 1) }
}
