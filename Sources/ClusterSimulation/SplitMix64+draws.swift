import PresenceWire

extension SplitMix64 {
    /// A separate generator for one part of the simulation. The draws of one part do not shift those of another.
    func split(_ part: UInt64) -> SplitMix64 {
        var parent = self
        var child = SplitMix64(seed: parent.next() ^ (part &* 0xD6E8_FEB8_6659_FD93))
        _ = child.next()
        return child
    }

    /// True once in `count` times.
    mutating func isOnce(in count: Int) -> Bool { next() % UInt64(count) == 0 }

    /// A number of `range`. It is slightly biased, and much faster than `Int.random(in:using:)`.
    mutating func number(in range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.upperBound - range.lowerBound + 1))
    }

    /// A uniformly random duration in virtual nanoseconds, between two numbers of microseconds.
    mutating func microseconds(_ range: ClosedRange<Int>) -> Int64 { Int64(number(in: range)) * 1_000 }
}
