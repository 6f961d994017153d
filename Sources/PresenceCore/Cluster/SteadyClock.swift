import PresenceWire

/// A node's wall clock, which does not follow the jumps of the system clock.
///
/// The wall clock is the monotonic clock plus an offset. Small corrections of the system clock change the offset at once. A jump does not,
/// because versions that are too far ahead or behind divide the cluster (<doc:SteadyClocks>).
public struct SteadyClock: Sendable {
    /// The largest correction that is followed at once. 2 s: a daemon that keeps time corrects by less, once it has started.
    public static let stepMax: Milliseconds = 2_000

    /// The wall time at the start of the monotonic clock.
    public private(set) var offset: Milliseconds

    /// - Parameter offset: the system clock minus the monotonic clock.
    public init(offset: Milliseconds) { self.offset = offset }

    /// Reads the system clock again, and follows it unless it has jumped. Call it at each tick.
    ///
    /// - Parameter systemOffset: the system clock minus the monotonic clock, now.
    ///
    /// - Returns: how far the system clock is ahead of this clock: 0 unless it has jumped.
    public mutating func follow(_ systemOffset: Milliseconds) -> Milliseconds {
        let ahead = systemOffset - offset
        guard ahead.magnitude <= Self.stepMax else { return ahead }
        offset = systemOffset
        return 0
    }

    /// Follows a jump that the node has found to be right (``Effect/followSystemClock``).
    public mutating func adopt(_ systemOffset: Milliseconds) { offset = systemOffset }
}
