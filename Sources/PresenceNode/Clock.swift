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
    /// The wall clock minus the monotonic clock, in milliseconds.
    private static let offset = Atomic<Int64>(systemOffset())

    /// Both clocks, now.
    static func now() -> Now {
        let monotonic = NIODeadline.now().uptimeNanoseconds
        return Now(
            instant: Instant(nanoseconds: Int64(monotonic)),
            wall: Int64(monotonic) / 1_000_000 + offset.load(ordering: .relaxed))
    }

    /// Reads the system clock, and follows it unless it has jumped. Returns how far it is ahead: 0 unless it has jumped.
    ///
    /// Call it at each tick of a node.
    static func follow() -> Milliseconds {
        let old = offset.load(ordering: .relaxed)
        var clock = SteadyClock(offset: old)
        let ahead = clock.follow(systemOffset())
        // Another node of the process may have adopted the system clock meanwhile.
        if clock.offset != old { _ = offset.compareExchange(expected: old, desired: clock.offset, ordering: .relaxed) }
        return ahead
    }

    /// Follows the system clock, though it has jumped.
    static func adopt() { offset.store(systemOffset(), ordering: .relaxed) }

    /// The system clock minus the monotonic clock, in milliseconds.
    private static func systemOffset() -> Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let wall = Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
        return wall - Int64(NIODeadline.now().uptimeNanoseconds) / 1_000_000
    }
}
