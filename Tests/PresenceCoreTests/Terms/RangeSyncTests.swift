import PresenceWire
import Testing

@testable import PresenceCore

/// A copy that follows its source over a network that loses messages.
@Suite struct RangeSyncTests {
    /// Values by key, in the order of the keys.
    struct Values: RangeCollection, Equatable {
        var values: [Int: Int] { didSet { keys = values.keys.sorted() } }
        private(set) var keys: [Int]

        init(values: [Int: Int] = [:]) {
            self.values = values
            keys = values.keys.sorted()
        }

        func forEach(in range: KeyRange<Int>, _ body: (Int, UInt64) -> Bool) {
            for key in keys[index(of: range.lower)..<keys.count] {
                guard range.contains(key) else { return }
                guard body(key, StableHash.mix(UInt64(key), UInt64(bitPattern: Int64(values[key] ?? 0)))) else { return }
            }
        }

        /// The position of the first key that is not smaller.
        private func index(of lower: Int?) -> Int {
            guard let lower else { return 0 }
            var (low, high) = (0, keys.count)
            while low < high {
                let middle = (low + high) / 2
                if keys[middle] < lower { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// The result of one comparison after another, until the source says that both hold the same.
    struct Result {
        var comparisons = 0
        var valuesSent = 0
        var hashesSent = 0
        var rangesMax = 0
        var isSame = false
    }

    private static var all: KeyRange<Int> { KeyRange() }

    /// - Parameter lossPercent: the share of messages that are lost.
    private func repair(
        _ copy: inout Values, from source: Values, lossPercent: Int = 0, seed: UInt64 = 1, comparisonsMax: Int = 200
    ) -> Result {
        var random = SplitMix64(seed: seed)
        var result = Result()
        let isLost = { Int.random(in: 0..<100, using: &random) < lossPercent }
        while !result.isSame, result.comparisons < comparisonsMax {
            result.comparisons += 1
            let salt = UInt64(result.comparisons)
            var questions = [RangeSync.hash(of: Self.all, in: copy, salt: salt)]
            while !questions.isEmpty {
                result.rangesMax = max(result.rangesMax, questions.count)
                if isLost() { break }
                let answers = RangeSync.answer(questions, from: source, salt: salt)
                result.hashesSent += questions.count
                if isLost() { break }
                for answer in answers {
                    switch answer {
                    case .same: break
                    case .parts(let parts): result.hashesSent += parts.count
                    case .entries(_, let entries): result.hashesSent += entries.count
                    }
                }
                let step = RangeSync.step(answers, at: copy, salt: salt)
                result.isSame = result.isSame || step.same.contains(Self.all)
                #expect(step.wanted.count <= RangeSync.keysMax && step.questions.count <= RangeSync.rangesMax)
                var values = copy.values
                for key in step.surplus { values[key] = nil }
                if !isLost() {
                    for key in step.wanted { values[key] = source.values[key] }
                    result.valuesSent += step.wanted.count
                }
                copy.values = values
                questions = step.questions
            }
        }
        return result
    }

    private func values(_ count: Int, every step: Int = 1) -> Values {
        Values(values: Dictionary(uniqueKeysWithValues: (0..<count).map { ($0 * step, $0 + 1) }))
    }

    @Test("Equal collections cost one hash") func equal() {
        var copy = values(1_000)
        let result = repair(&copy, from: values(1_000))
        #expect(result.isSame && result.comparisons == 1 && result.hashesSent == 1 && result.valuesSent == 0)
    }

    @Test("A copy takes over changed, new and deleted entries, and no others") func differences() {
        let source = values(10_000)
        var copy = source
        var changed = source.values
        for key in stride(from: 0, to: 10_000, by: 1_000) { changed[key] = -1 }
        for key in stride(from: 500, to: 10_000, by: 1_000) { changed[key] = nil }
        for key in 20_000..<20_010 { changed[key] = 1 }
        copy.values = changed
        let result = repair(&copy, from: source)
        #expect(copy == source)
        #expect(result.isSame)
        #expect(result.valuesSent == 20)
        // 21 places differ. Each is three levels of 16 parts and 32 entries deep.
        #expect(result.hashesSent < 21 * (3 * 32 + 32))
    }

    @Test("An empty copy receives pages, each once") func empty() {
        let source = values(5_000, every: 3)
        var copy = Values()
        let result = repair(&copy, from: source)
        #expect(copy == source)
        #expect(result.isSame && result.valuesSent == 5_000)
        #expect(result.comparisons == 2, "the second one confirms the first")
    }

    @Test("A copy of an empty source deletes everything") func emptySource() {
        var copy = values(5_000)
        let result = repair(&copy, from: Values())
        #expect(copy.values.isEmpty)
        #expect(result.isSame)
    }

    @Test("More differences than one comparison has room for are repaired by the next ones") func bounded() {
        let source = values(6_000)
        var copy = Values(values: source.values.mapValues { $0 + 1 })
        let result = repair(&copy, from: source)
        #expect(copy == source)
        #expect(result.isSame && result.valuesSent == 6_000)
        #expect(result.rangesMax <= RangeSync.rangesMax)
    }

    @Test("Lost messages cost further comparisons, and nothing else", arguments: 1...20) func lossy(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var (source, copy) = ([Int: Int](), [Int: Int]())
        for _ in 0..<Int.random(in: 0..<1_500, using: &random) {
            let key = Int.random(in: 0..<10_000, using: &random)
            if Int.random(in: 0..<10, using: &random) > 0 { source[key] = Int.random(in: 0..<9, using: &random) }
            if Int.random(in: 0..<10, using: &random) > 0 { copy[key] = source[key] ?? 0 }
        }
        let whole = Values(values: source)
        var repaired = Values(values: copy)
        let result = repair(&repaired, from: whole, lossPercent: 20, seed: seed)
        #expect(repaired == whole)
        #expect(result.isSame)
    }

    @Test("A source that changes meanwhile is followed") func live() {
        var source = values(2_000)
        var copy = Values()
        for round in 0..<20 {
            _ = repair(&copy, from: source, comparisonsMax: 1)
            source.values[round * 7] = -round
            source.values[round * 11 + 1] = nil
        }
        #expect(repair(&copy, from: source).isSame)
        #expect(copy == source)
    }

    @Test("Two collections with one sum differ by the next salt") func salt() {
        // Without a salt the sums of these hashes would be equal.
        struct Hashes: RangeCollection {
            let hashes: [UInt64]
            func forEach(in range: KeyRange<Int>, _ body: (Int, UInt64) -> Bool) {
                for (key, hash) in hashes.enumerated() where range.contains(key) { guard body(key, hash) else { return } }
            }
        }
        let (one, other) = (Hashes(hashes: [1, 4]), Hashes(hashes: [2, 3]))
        let sums = (0..<4).map { salt in
            RangeSync.hash(of: Self.all, in: one, salt: salt).sum == RangeSync.hash(of: Self.all, in: other, salt: salt).sum
        }
        #expect(sums == [false, false, false, false])
    }
}
