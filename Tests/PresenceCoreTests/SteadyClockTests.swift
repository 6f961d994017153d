import PresenceWire
import Testing

@testable import PresenceCore

/// The wall clock of a node beside a system clock that is corrected and that jumps.
@Suite struct SteadyClockTests {
    private static let edge = SteadyClock.stepMax
    private var clock = SteadyClock(offset: 1_000_000)

    @Test("A correction up to 2 s, ahead or back, is followed at once", arguments: [0, 1, -1, edge - 1, 1 - edge, edge, -edge])
    mutating func corrections(step: Milliseconds) {
        #expect(clock.follow(1_000_000 + step) == 0)
        #expect(clock.offset == 1_000_000 + step)
    }

    @Test("A jump beyond 2 s, ahead or back, is reported and not followed", arguments: [edge + 1, -edge - 1, 300_000, -300_000])
    mutating func jumps(step: Milliseconds) {
        #expect((0..<3).map { _ in clock.follow(1_000_000 + step) } == [step, step, step])
        #expect(clock.offset == 1_000_000)
    }

    @Test("Corrections add up beyond 2 s, because each is compared with the one before") mutating func slowCorrections() {
        for _ in 0..<10 { #expect(clock.follow(clock.offset + Self.edge) == 0) }
        #expect(clock.offset == 1_000_000 + 10 * Self.edge)
    }

    @Test("A system clock that is back after a jump is followed, with the correction since then") mutating func back() {
        #expect(clock.follow(1_300_000) == 300_000)
        #expect(clock.follow(1_000_050) == 0)
        #expect(clock.offset == 1_000_050)
    }

    @Test("A jump is followed on command only, and corrections count from there", arguments: [300_000, -300_000] as [Milliseconds])
    mutating func adoption(step: Milliseconds) {
        #expect(clock.follow(1_000_000 + step) == step)
        clock.adopt(1_000_000 + step)
        #expect(clock.offset == 1_000_000 + step)
        #expect(clock.follow(1_000_007 + step) == 0)
        #expect(clock.follow(1_000_000) == -step - 7, "the old time is a jump now")
    }
}
