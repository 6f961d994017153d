import Synchronization

/// Rings that were computed before, for simulations and tests, in which many nodes compute the same: a ring depends on nothing but its
/// members.
package final class RingCache: Sendable {
    /// All simulated clusters of this process.
    package static let shared = RingCache()
    /// Rings kept, each of some 400 KB; when they are full all are dropped.
    private static let ringsMax = 64

    private let rings = Mutex<[[Ring.Member]: Ring]>([:])

    /// The ring of these members, in any order.
    package func ring(of members: [Ring.Member]) -> Ring {
        let members = members.sorted { $0.id < $1.id }
        if let ring = rings.withLock({ $0[members] }) { return ring }
        let ring = Ring(members: members)
        rings.withLock { rings in
            if rings.count >= Self.ringsMax { rings = [:] }
            rings[members] = ring
        }
        return ring
    }
}
