import NIOCore

/// Addresses whose new connections begin one after the other, ``spacing`` apart, because a connection of theirs has asked for what was refused before.
///
/// A limit on a connection alone does not bound the cost of a client that closes it and connects again. A paced connection is accepted and left unread
/// until its turn; it is closed when its turn does not come within ``HTTPLimits/headerTimeout``. Used on one event loop only.
struct PacedAddresses {
    /// The time between the beginnings of two connections of a paced address. The first requests of a connection cost 0.4 ms: 8 % of the loop.
    static let spacing = TimeAmount.milliseconds(5)
    /// How long an address stays paced after the last refusal.
    static let duration = TimeAmount.seconds(1)
    /// Most addresses that are paced at a time. One more ends the pace of all.
    static let countMax = 10_000

    private struct Pace {
        var end: NIODeadline
        /// When the last connection begins.
        var lastBeginning: NIODeadline
    }

    private var paces: [ConnectionLimits.Address: Pace] = [:]

    /// Whether no address is paced.
    var isEmpty: Bool { paces.isEmpty }

    /// Paces an address from now on.
    mutating func pace(_ address: ConnectionLimits.Address, at now: NIODeadline) {
        if paces.count >= Self.countMax, paces[address] == nil { paces.removeAll() }
        paces[address, default: Pace(end: now, lastBeginning: now)].end = now + Self.duration
    }

    /// The time at which a new connection of this address begins; nil when it begins at once.
    mutating func beginning(of address: ConnectionLimits.Address, at now: NIODeadline) -> NIODeadline? {
        guard let pace = paces[address] else { return nil }
        guard pace.end > now || pace.lastBeginning > now else {
            paces[address] = nil
            return nil
        }
        let beginning = max(pace.lastBeginning + Self.spacing, now)
        paces[address]?.lastBeginning = beginning
        return beginning > now ? beginning : nil
    }

    /// Removes the addresses that are paced no longer.
    mutating func sweep(at now: NIODeadline) {
        guard !paces.isEmpty else { return }
        paces = paces.filter { $0.value.end > now || $0.value.lastBeginning > now }
    }
}
