import PresenceWire

/// A bound on disk that the version clock has not reached.
///
/// The version clock never goes back, even if the wall clock does and the process ends. The bound is on disk before a restarted node sends
/// anything, and before clients receive a position beyond the last bound. A node with a failing disk stops moving its position.
struct ClockLease {
    /// The distance of a new bound ahead of the wall clock. After a restart the version clock is ahead by at most as much. 3 s.
    private static let length: Milliseconds = 3_000
    /// The distance of a new bound ahead of the version clock. While that is ahead of the wall clock it only counts, 65,536 versions a
    /// millisecond. 100 ms.
    private static let countLength: Milliseconds = 100
    /// The remainder of the last bound at which a new one is written.
    private static let margin: Milliseconds = 1_500
    private static let countMargin: Milliseconds = 50

    /// The bound that is on disk.
    private(set) var durable: Milliseconds = 0
    /// The bound that was written last.
    private var written: Milliseconds = 0
    /// The write of ``written``, until it is on disk.
    private var ticket: UInt64?

    /// Whether a new bound is due.
    ///
    /// - Parameter clock: the version clock.
    func isDue(clock: Milliseconds, at now: Now) -> Bool { written < max(now.wall + Self.margin, clock + Self.countMargin) }

    /// The row of a new bound.
    ///
    /// - Parameter mark: a time at which the disk was complete; nil for none.
    mutating func next(of node: NodeID, clock: Milliseconds, complete mark: DiskCompleteness.Mark?, at now: Now) -> Row {
        written = max(now.wall + Self.length, clock + Self.countLength)
        return Row(clockOf: node, bound: written, complete: mark)
    }

    /// Records that the new bound is written under a ticket.
    mutating func hold(until ticket: UInt64?) { self.ticket = ticket }

    /// Records that the new bound is on disk.
    mutating func keep() { durable = written }

    /// Records that the disk has finished with a ticket.
    mutating func stored(_ ticket: UInt64, isDurable: Bool) {
        guard let awaited = self.ticket, ticket >= awaited, isDurable else { return }
        (durable, self.ticket) = (written, nil)
    }
}
