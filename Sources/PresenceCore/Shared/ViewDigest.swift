import PresenceWire

/// The hashes that gateways and owners compare: for each range of slots one hash over the watched users, their versions, and the sessions.
enum ViewDigest {
    static let slotsInRange = Ring.slotsCount / Message.viewRangesCount

    /// The hash of a version of a user.
    static func hash(of user: UserID, _ version: Version) -> UInt64 {
        hash(user.withBytes { StableHash.hash64($0) }, version)
    }

    /// The hash of a version of a user, from the hash of the user's ID.
    static func hash(_ name: UInt64, _ version: Version) -> UInt64 {
        StableHash.mix(StableHash.mix(name, version.stamp), UInt64(version.node))
    }

    static func hash(of session: SessionID) -> UInt64 { StableHash.mix(session.stamp, UInt64(session.node)) }

    /// A new list hash that no earlier list has (``PresenceWire/ListUpdate/listHash``).
    static func newListHash(_ version: Version) -> UInt64 { StableHash.mix(version.stamp, UInt64(version.node)) }

    /// The hash of a version and the time from which it is known (``PresenceWire/Record/knownSince``). Two nodes compare it after a new
    /// link.
    static func hash(_ version: UInt64, knownSince: Milliseconds) -> UInt64 { StableHash.mix(version, UInt64(bitPattern: knownSince)) }

    /// The owner's hash of a session with its user's list hash (``PresenceWire/ListUpdate/listHash``).
    ///
    /// The owner has no list hash while a change of the list waits for a disk, and the gateway has none while changes are missing. Neither
    /// equals the other, nor do two of the same session cancel out.
    static func ownerHash(of session: SessionID, listHash: UInt64?) -> UInt64 { StableHash.mix(hash(of: session), listHash ?? 0) }

    static func gatewayHash(of session: SessionID, listHash: UInt64?) -> UInt64 { StableHash.mix(hash(of: session), listHash ?? 1) }

    static func slots(of range: Int) -> ClosedRange<Slot> {
        Slot(range * slotsInRange)...Slot((range + 1) * slotsInRange - 1)
    }

    /// The finer ranges inside a range.
    static func fineRanges(of range: Int) -> Range<Int> {
        SlotRanges.range(of: slots(of: range).lowerBound)..<SlotRanges.range(of: slots(of: range).upperBound) + 1
    }
}
