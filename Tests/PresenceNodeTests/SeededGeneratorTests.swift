import NodeFixture
import PresenceWire
import Testing

/// The fixture imports nothing of the core, so it has a generator of its own.
@Suite struct SeededGeneratorTests {
    @Test("A seed gives the fixture the sequence of the core's generator", arguments: [0, 1, 7, UInt64.max]) func sequence(seed: UInt64) {
        var (own, core) = (SeededGenerator(seed: seed), SplitMix64(seed: seed))
        for _ in 0..<100 { #expect(own.next() == core.next()) }
    }
}
