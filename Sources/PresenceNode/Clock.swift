import NIOCore
import PresenceCore
import PresenceWire
import Synchronization

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The one place of a process that reads the clocks.
///
/// All its nodes share one ``SteadyClock``, because they run on one machine.
enum Clock {
    /// The wall clock minus the monotonic clock, in nanoseconds.
    private static let offset = Atomic<Int64>(systemOffset())

    /// Both clocks, now.
    static func now() -> Now {
        let monotonic = Int64(NIODeadline.now().uptimeNanoseconds)
        return Now(instant: Instant(nanoseconds: monotonic), wall: (monotonic + offset.load(ordering: .relaxed)) / 1_000_000)
    }

    /// The wall clock now, in nanoseconds since 1970.
    static func wallNanoseconds() -> Int64 { Int64(NIODeadline.now().uptimeNanoseconds) + offset.load(ordering: .relaxed) }

    /// Reads the system clock, and follows it unless it has jumped. Returns how far it is ahead: 0 unless it has jumped.
    ///
    /// Call it at each tick of a node.
    static func follow() -> Milliseconds {
        let old = offset.load(ordering: .relaxed)
        // The clocks are read one after the other, so their difference trembles. Times that are exact to a millisecond must not.
        let difference = (systemOffset() - old) / 1_000_000
        guard difference != 0 else { return 0 }
        var clock = SteadyClock(offset: 0)
        let ahead = clock.follow(difference)
        // Another node of the process may have adopted the system clock meanwhile.
        if clock.offset != 0 { _ = offset.compareExchange(expected: old, desired: old + clock.offset * 1_000_000, ordering: .relaxed) }
        return ahead
    }

    /// Follows the system clock, though it has jumped.
    static func adopt() { offset.store(systemOffset(), ordering: .relaxed) }

    /// The system clock minus the monotonic clock, in nanoseconds.
    private static func systemOffset() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) - Int64(NIODeadline.now().uptimeNanoseconds)
    }
}
