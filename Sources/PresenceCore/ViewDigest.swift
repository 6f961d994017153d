import PresenceWire

/// What gateways and owners compare: of each range of slots one hash over the users watched, with their versions, and the sessions hosted.
enum ViewDigest {
    static let slotsInRange = Ring.slotsCount / Message.viewRangesCount

    /// A version of a user.
    static func hash(of user: UserID, _ version: Version) -> UInt64 {
        hash(user.withBytes { StableHash.hash64($0) }, version)
    }

    /// The same, by the hash of the user's ID.
    static func hash(_ name: UInt64, _ version: Version) -> UInt64 {
        StableHash.mix(StableHash.mix(name, version.stamp), UInt64(version.node))
    }

    static func hash(of session: SessionID) -> UInt64 { StableHash.mix(session.stamp, UInt64(session.node)) }

    static func slots(of range: Int) -> ClosedRange<Slot> {
        Slot(range * slotsInRange)...Slot((range + 1) * slotsInRange - 1)
    }

    /// Whether a slot is in one of the ranges of a set.
    static func contains(_ ranges: UInt64, _ slot: Slot) -> Bool { ranges & 1 << UInt64(Int(slot) / slotsInRange) != 0 }
}
