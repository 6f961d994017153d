import PresenceWire
import Testing

@testable import PresenceCore

/// The states of a disk that cannot write for a while.
@Suite struct DiskHealthTests {
    private static let interval = Duration.milliseconds(500)
    private var now = Now(instant: Instant(nanoseconds: 1_000_000_000), wall: 1_000_000)
    private var disk = DiskHealth()

    private mutating func note(_ isDurable: Bool) { disk.note(isDurable: isDurable, retryAfter: Self.interval, at: now) }

    /// Lets time pass. Returns whether the disk is to be tried then.
    @discardableResult private mutating func tick(after duration: Duration) -> Bool {
        now.instant += duration
        return disk.tick(retryAfter: Self.interval, at: now)
    }

    @Test("A disk that writes is sound, and is never tried") mutating func sound() {
        note(true)
        #expect(disk.state == .sound)
        #expect(!tick(after: .seconds(3_600)))
        #expect(!disk.isFailing && !disk.givesSlotsAway)
    }

    @Test("A failed write makes the disk fail, and the node gives its slots away at once") mutating func failure() {
        note(false)
        #expect(disk.state == .failing(nextTryAt: now.instant + Self.interval))
        #expect(disk.isFailing && disk.givesSlotsAway)
    }

    @Test("A failing disk is tried at each interval and not before, whatever else fails meanwhile") mutating func retries() {
        note(false)
        for _ in 0..<3 {
            #expect(!tick(after: Self.interval - .nanoseconds(1)))
            note(false)
            #expect(tick(after: .nanoseconds(1)))
            #expect(disk.isFailing)
        }
    }

    @Test("A disk that writes again is not failing, and the node takes slots 2 s later") mutating func returning() {
        note(false)
        now.instant += Self.interval
        note(true)
        #expect(disk.state == .returning(since: now.instant))
        #expect(!tick(after: DiskHealth.returnAfter - .nanoseconds(1)))
        #expect(!disk.isFailing && disk.givesSlotsAway)
        #expect(!tick(after: .nanoseconds(1)))
        #expect(disk.state == .sound && !disk.givesSlotsAway)
    }

    @Test("Further writes do not prolong the return") mutating func writesWhileReturning() {
        note(false)
        note(true)
        for _ in 0..<4 {
            tick(after: DiskHealth.returnAfter / 4)
            note(true)
        }
        #expect(disk.state == .sound)
    }

    @Test("A failure while the disk returns counts from there, and the 2 s begin again") mutating func failureWhileReturning() {
        note(false)
        note(true)
        tick(after: DiskHealth.returnAfter - .nanoseconds(1))
        note(false)
        #expect(disk.state == .failing(nextTryAt: now.instant + Self.interval))
        #expect(!tick(after: Self.interval - .nanoseconds(1)))
        #expect(tick(after: .nanoseconds(1)))
        note(true)
        tick(after: DiskHealth.returnAfter - .nanoseconds(1))
        #expect(disk.givesSlotsAway)
        tick(after: .nanoseconds(1))
        #expect(disk.state == .sound)
    }
}
