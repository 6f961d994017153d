import PresenceWire

/// The time up to which this node's disk has every row that the node keeps.
///
/// The time is on disk with each bound of the clock. After a restart the other nodes send the rows that differ. A row among them that is
/// much older than this time was on this disk. So the disk has lost it, or has an older one in its place.
struct DiskCompleteness {
    /// How much older a row is that must have been on disk.
    ///
    /// A younger one may have been on its way: clocks differ by up to 60 s, and two replicas compare every 60 s in a cluster of three.
    static let lateness: Milliseconds = 120_000

    /// A time at which a disk was complete.
    struct Mark: Equatable {
        /// By the wall clock.
        let time: Milliseconds
        /// The ring by which the node kept its slots; 0 if each node kept all slots.
        let ring: UInt64
    }

    /// The last mark of the process before; nil once this process has all rows.
    private(set) var former: Mark?
    /// The mark for the next bound of the clock.
    private(set) var mark: Mark?

    /// Takes the mark with the last bound of the process before. An earlier release wrote none.
    mutating func load(_ row: Row) {
        guard let json = try? JSONValue(row), let time = json["completeAt"]?.wholeNumber, let ring = UInt64(json["ring"]?.text ?? "") else {
            return
        }
        former = Mark(time: time, ring: ring)
        mark = former
    }

    /// Moves the mark if the disk is complete now. Called at every tick.
    ///
    /// While a member is dead, the other side of a split may have rows that this node lacks.
    mutating func follow(_ cluster: borrowing Cluster, isDiskFailing: Bool, at now: Now) {
        guard !isDiskFailing, !cluster.isDraining, cluster.ownership.isStable, cluster.ownership.transfer.isWritten,
            cluster.ownership.acquiringCount == 0, cluster.peers.missedCount == 0
        else { return }
        let placement = cluster.placement
        mark = Mark(time: now.wall, ring: placement.members.count > Ring.replicasMax ? placement.id : 0)
        former = nil
    }

    /// Whether the disk had a row when the process before ended.
    ///
    /// - Parameter ring: the one by which this node keeps its slots now.
    func had(_ row: Row, by ring: UInt64) -> Bool {
        guard let former, former.ring == 0 || former.ring == ring else { return false }
        return row.version.milliseconds + Self.lateness < former.time
    }
}
