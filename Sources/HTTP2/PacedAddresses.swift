import NIOCore

/// The addresses whose new connections begin one after the other, because one of their connections has repeated a refused request or has
/// ended for a flood.
///
/// A limit on a connection does not bound the cost of a client that closes it and connects again. A paced connection is accepted, and left
/// unread until its turn. Turns are ``spacing`` apart. A connection without a turn within ``HTTPLimits/headerTimeout`` is closed.
/// Used on one event loop only.
struct PacedAddresses {
    /// The time between the beginnings of two connections of a paced address.
    ///
    /// The first requests of a connection cost 0.4 ms. One connection in 5 ms therefore takes 8 % of the loop.
    static let spacing = TimeAmount.milliseconds(5)
    /// The time for which an address stays paced after the last refusal.
    static let duration = TimeAmount.seconds(1)
    /// The most paced addresses. One more ends the pace of all.
    static let countMax = 10_000

    private struct Pace {
        var end: NIODeadline
        /// The beginning of the last connection.
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

    /// Returns the time at which a new connection of the address begins; nil when it begins at once.
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

    /// Removes the addresses whose pace has ended.
    mutating func sweep(at now: NIODeadline) {
        guard !paces.isEmpty else { return }
        paces = paces.filter { $0.value.end > now || $0.value.lastBeginning > now }
    }
}

extension HTTPLoop {
    /// Leaves a new connection of a paced address unread until its turn, and then calls `body`.
    ///
    /// - Returns: false if its turn is now; `body` is not called then.
    func waitForTurn(of address: ConnectionLimits.Address, on channel: any Channel, then body: @escaping () -> Void) -> Bool {
        guard let beginning = pacedAddresses.beginning(of: address, at: .now()), let options = channel.syncOptions else { return false }
        delegate?.violated(.pacedAddress)
        // Setting the option fails only on a closed channel, which reads nothing.
        do { try options.setOption(.autoRead, value: false) } catch { return true }
        // The timer keeps no closed connection's memory.
        eventLoop.assumeIsolated().scheduleTask(deadline: beginning) { [weak channel] in
            guard let channel, channel.isActive else { return }
            do { try channel.syncOptions?.setOption(.autoRead, value: true) } catch { return }
            body()
        }
        return true
    }
}
