import PresenceWire

/// The version clock of a node never goes back, also when the wall clock does and the process ends: a bound that it has not reached is on
/// disk before a node that has just begun tells anything, and before clients are told a position beyond the last one (design §4). A node
/// whose disk takes nothing stops moving its position.
extension Node {
    /// How far the version clock may go.
    struct ClockLease {
        /// How far ahead of the wall clock a bound is written; after a restart the version clock is ahead by as much at most.
        static let length: Milliseconds = 3_000
        /// How far ahead of the version clock: while it is ahead of the wall clock it only counts, 65,536 versions a millisecond.
        static let countLength: Milliseconds = 100
        /// A new bound is written when so much is left of the last one.
        static let margin: Milliseconds = 1_500
        static let countMargin: Milliseconds = 50

        /// The bound that is on disk.
        var durable: Milliseconds = 0
        /// The bound that was written last.
        var written: Milliseconds = 0
        /// The write of ``written``, until it is on disk.
        var ticket: UInt64?
    }

    /// Writes a new bound in time; not while nobody is here to be told anything.
    mutating func renewLease(at now: Now) {
        guard sessions.count > 0 else { return }
        let time = owners.clock.milliseconds(at: 0)
        guard lease.written < max(now.wall + ClockLease.margin, time + ClockLease.countMargin) else { return }
        outbox.rows.append(nextLease(at: now))
        lease.ticket = persist(at: now)
    }

    private mutating func nextLease(at now: Now) -> Row {
        lease.written = max(now.wall + ClockLease.length, owners.clock.milliseconds(at: 0) + ClockLease.countLength)
        return Row(clockOf: selfPeer.id, bound: lease.written)
    }

    mutating func noteLease(_ ticket: UInt64, isDurable: Bool) {
        guard let awaited = lease.ticket, ticket >= awaited, isDurable else { return }
        (lease.durable, lease.ticket) = (lease.written, nil)
    }

    /// All rows have been taken back: nobody else can know anything newer if this node is alone.
    ///
    /// - Parameter isKept: puts a row on disk at once, before anybody is told anything, and says whether it is there: it tells this start from
    ///   the next one, if that comes before anything else has been written.
    public mutating func loaded(at now: Now, isKept: (Row) -> Bool) {
        if !joins { renewAlone(at: now) }
        for message in messagesAtStart() { tell(message, mask: .max) }
        owners.doubtAll(at: now)
        if isKept(nextLease(at: now)) { lease.durable = lease.written } else { noteDisk(isDurable: false, at: now) }
    }

    /// How long ago the newest was written of what has been loaded, if the other nodes may have forgotten meanwhile what has ended: nil for
    /// less than ``Subscriptions/tombstoneHorizon``, for an empty disk, and for a node that joins nobody.
    public func absence(at now: Now) -> Duration? {
        let newest = owners.clock.milliseconds(at: 0)
        guard joins, newest > 0, now.wall - newest > Subscriptions.tombstoneHorizon else { return nil }
        return .milliseconds(now.wall - newest)
    }

    /// A cluster of one has told what it had not written when it died: all that it says now is newer than that.
    mutating func renewAlone(at now: Now) {
        guard !isReplicated else { return }
        // All that an earlier process told is below the bound that it left.
        let start = owners.clock.milliseconds(at: 0) + 1
        if start >= now.wall { owners.clock.observe(Version(milliseconds: start, counter: 0, node: 0)) }
        if peers.contains(where: { $0.wasMember && $0.hasLeft }) { owners.doubtPositions(at: now) }
        owners.renew(at: now)
    }
}
