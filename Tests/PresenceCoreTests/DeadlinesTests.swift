import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct DeadlinesTests {
    /// Beside a dictionary that is searched each time.
    @Test("The earliest deadline is first after any sets, moves and removals", arguments: 1...20) func first(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var deadlines = Deadlines<Int>()
        var known: [UInt32: Int] = [:]
        for _ in 0..<2_000 {
            let index = UInt32(Int.random(in: 0...39, using: &random))
            switch Int.random(in: 0...3, using: &random) {
            case 0:
                deadlines.remove(index)
                known[index] = nil
            case 1:
                if let first = deadlines.first {
                    deadlines.remove(first.index)
                    known[first.index] = nil
                }
            default:
                let time = Int.random(in: 0...49, using: &random)
                deadlines.set(index, at: time)
                known[index] = time
            }
            let right = known.min { ($0.value, $0.key) < ($1.value, $1.key) }
            #expect(deadlines.first?.index == right?.key && deadlines.first?.at == right?.value)
            #expect(deadlines.count == known.count)
            #expect(deadlines.deadline(of: index) == known[index])
        }
    }

    @Test("An index without a deadline is never due") func missing() {
        var deadlines = Deadlines<Int>()
        deadlines.remove(7)
        #expect(deadlines.deadline(of: 7) == nil && deadlines.first == nil)
    }
}
