import NIOCore
import PresenceWire

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The one place of a node that reads the clocks.
enum Clock {
    /// Both clocks, now.
    static func now() -> Now {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Now(
            instant: Instant(nanoseconds: Int64(NIODeadline.now().uptimeNanoseconds)),
            wall: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}
