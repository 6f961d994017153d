import PresenceCore

/// Rings that were computed before. In a simulation many nodes compute the same ring, which depends only on the members.
public final class RingCache {
    /// Most rings kept, each of some 400 KB. When they are full all are dropped.
    private static let ringsMax = 256

    private var rings: [[Ring.Member]: Ring] = [:]

    public init() {}

    /// The ring of these members, in any order.
    func ring(of members: [Ring.Member]) -> Ring {
        let members = members.sorted { $0.id < $1.id }
        if let ring = rings[members] { return ring }
        if rings.count >= Self.ringsMax { rings = [:] }
        let ring = Ring(members: members)
        rings[members] = ring
        return ring
    }
}
