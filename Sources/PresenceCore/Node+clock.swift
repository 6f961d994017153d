import PresenceWire

/// The version clock of a node never goes back, also when the wall clock does and the process ends: a bound that it has not reached is on
/// disk before clients are told a position beyond the last one (design §4). A node whose disk takes nothing stops moving its position.
extension Node {
    /// How far the version clock may go.
    struct ClockLease {
        /// How far ahead of the clock a bound is written; after a restart the clock is ahead by as much at most.
        static let length: Milliseconds = 3_000
        /// Beyond all versions that a process may have counted and not written; 65,536 a millisecond.
        static let restart: Milliseconds = 100
        /// So much the clock moves on at a restart because of the time since the bound was written, at most.
        static let ageMax: Milliseconds = 10_000
        /// A new bound is written when so much is left of the last one.
        static let margin: Milliseconds = 1_500

        /// When, by its wall clock, an earlier process wrote the bound that it left on disk.
        var loadedFrom: Milliseconds = 0
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
        let time = owners.clock.milliseconds(at: now.wall)
        guard lease.written < time + ClockLease.margin else { return }
        lease.written = time + ClockLease.length
        outbox.rows.append(Row(clockOf: selfPeer.id, bound: lease.written, writtenAt: now.wall))
        persist(at: now)
        lease.ticket = nextTicket
    }

    mutating func noteLease(_ ticket: UInt64, isDurable: Bool) {
        guard let awaited = lease.ticket, ticket >= awaited, isDurable else { return }
        (lease.durable, lease.ticket) = (lease.written, nil)
    }

    /// All rows have been taken back: nobody else can know anything newer if this node is alone.
    public mutating func loaded(at now: Now) {
        if !joins { renewAlone(at: now) }
        for message in messagesAtStart() { tell(message, mask: .max) }
    }

    /// A cluster of one has told what it had not written when it died: all that it says now is newer than that.
    mutating func renewAlone(at now: Now) {
        guard !isReplicated else { return }
        // While the version clock is ahead of the wall clock it only counts: an earlier process may have counted from the bound, too, and
        // died before it wrote anything. How long ago the bound was written tells one start from another.
        let age = lease.loadedFrom == 0 ? 0 : min(max(now.wall - lease.loadedFrom, 0), ClockLease.ageMax)
        let start = owners.clock.milliseconds(at: 0) + ClockLease.restart + age
        if start >= now.wall { owners.clock.observe(Version(milliseconds: start, counter: 0, node: 0)) }
        owners.renew(at: now)
    }
}
