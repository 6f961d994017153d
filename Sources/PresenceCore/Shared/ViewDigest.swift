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

    /// What no other list was ever named (``PresenceWire/Interest/mark``).
    static func mark(_ version: Version) -> UInt64 { StableHash.mix(version.stamp, UInt64(version.node)) }

    /// A version of a user and since when it is known, which is told on, too (``PresenceWire/Record/knownSince``): what two nodes must agree
    /// about after a reset.
    static func hash(_ version: UInt64, knownSince: Milliseconds) -> UInt64 { StableHash.mix(version, UInt64(bitPattern: knownSince)) }

    /// A session and the list of whom its user follows (``PresenceWire/Interest/mark``). Where its owner has not told all of the list yet there is
    /// no mark, nor where the gateway has none: no two of these are equal, nor are two of each to be taken together.
    static func ownerHash(of session: SessionID, mark: UInt64?) -> UInt64 { StableHash.mix(hash(of: session), mark ?? 0) }

    static func gatewayHash(of session: SessionID, mark: UInt64?) -> UInt64 { StableHash.mix(hash(of: session), mark ?? 1) }

    static func slots(of range: Int) -> ClosedRange<Slot> {
        Slot(range * slotsInRange)...Slot((range + 1) * slotsInRange - 1)
    }

    /// The finer ranges of one of those.
    static func fineRanges(of range: Int) -> Range<Int> {
        SlotRanges.range(of: slots(of: range).lowerBound)..<SlotRanges.range(of: slots(of: range).upperBound) + 1
    }
}
