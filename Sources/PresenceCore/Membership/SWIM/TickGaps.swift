import PresenceWire

/// The times between the ticks of this node. A large one means that the process was paused.
struct TickGaps {
    /// The time after a pause in which messages may have waited for its end.
    private static let wakingMax = Duration.milliseconds(500)

    private var last: Instant?
    private var wokeAt = Instant(nanoseconds: .min / 2)
    /// From then on others may have declared this node dead, unless it ticks before; far in the future before the first tick.
    var doubtedFrom: Instant = .farFuture

    /// Returns the time since the tick before; nil for the first one.
    mutating func tick(at now: Instant, _ settings: Membership.Settings) -> Duration? {
        defer { (last, doubtedFrom) = (now, now + settings.detectionMin) }
        guard let last else { return nil }
        if now - last > settings.tickGapMax { wokeAt = now }
        return now - last
    }

    /// Whether a message that this node receives now may have waited for the end of a pause. Messages can come before the first tick.
    func mayHaveWaited(at now: Instant, gapMax: Duration) -> Bool {
        guard let last else { return false }
        return now - last > gapMax || now - wokeAt < Self.wakingMax
    }
}
