/// A part of the user's state that a call replaces as a whole.
enum Fact: Hashable, Sendable {
    case customStatus, event
    case visibilityMode, visibilityUsers, invisibility
    /// Whether the user follows another user.
    case following(UserKey)
    /// The whole subscription list of the user.
    case followingAnybody
}

/// The facts that a call sets.
struct Claim: Equatable, Sendable {
    var facts: Set<Fact>
    /// Whether the call subscribes. Otherwise it unsubscribes.
    var startsFollowing = false

    /// Whether an older call that sets `fact` undoes this one when the node gets it later.
    func supersedes(_ fact: Fact) -> Bool {
        switch fact {
        case .following: facts.contains(fact) || facts.contains(.followingAnybody)
        case .followingAnybody: startsFollowing || facts.contains(fact)
        default: facts.contains(fact)
        }
    }
}

/// Orders the calls that set the same fact. A value without I/O.
///
/// - A call is sent when no older call that sets one of its facts is on the wire or waits to be sent.
/// - A call that waits to be retried gives up each fact that a newer call sets. A call without facts is not retried.
struct CallOrder {
    private struct Entry {
        let number: UInt64
        var claim: Claim
        /// Whether the call names no fact, for example with an empty list. Then no other call concerns it.
        let isFree: Bool
        /// Whether the call waits for a retry.
        var isPaused = false

        var isLive: Bool { isFree || !claim.facts.isEmpty }
    }

    /// The calls that have not ended, the oldest first.
    private var entries: [Entry] = []
    private var callsCount: UInt64 = 0

    /// The number of calls that have not ended.
    var count: Int { entries.count }

    /// Adds the newest call.
    ///
    /// Returns its number, and the paused calls that have nothing left to do.
    mutating func begin(_ claim: Claim) -> (number: UInt64, superseded: [UInt64]) {
        var superseded: [UInt64] = []
        for index in entries.indices where entries[index].isPaused && entries[index].isLive {
            entries[index].claim.facts = entries[index].claim.facts.filter { !claim.supersedes($0) }
            if !entries[index].isLive { superseded.append(entries[index].number) }
        }
        callsCount += 1
        entries.append(Entry(number: callsCount, claim: claim, isFree: claim.facts.isEmpty))
        return (callsCount, superseded)
    }

    /// Whether the call may be sent.
    func hasTurn(_ number: UInt64) -> Bool {
        guard let own = entries.first(where: { $0.number == number }) else { return true }
        return !entries.prefix { $0.number < number }.contains { older in
            !older.isPaused && older.claim.facts.contains { own.claim.supersedes($0) }
        }
    }

    /// Records that the call waits for a retry.
    ///
    /// Returns whether a fact is left that no newer call sets.
    mutating func pause(_ number: UInt64) -> Bool {
        guard let index = index(of: number) else { return false }
        let newer = entries[(index + 1)...].map(\.claim)
        entries[index].isPaused = true
        entries[index].claim.facts = entries[index].claim.facts.filter { fact in !newer.contains { $0.supersedes(fact) } }
        return entries[index].isLive
    }

    /// Records that the call is sent again.
    mutating func resume(_ number: UInt64) {
        if let index = index(of: number) { entries[index].isPaused = false }
    }

    /// Whether a fact is left that no newer call has set.
    func isLive(_ number: UInt64) -> Bool { index(of: number).map { entries[$0].isLive } ?? false }

    /// Whether no newer call has set `fact`, and the call has not released it.
    func holds(_ fact: Fact, _ number: UInt64) -> Bool { index(of: number).map { entries[$0].claim.facts.contains(fact) } ?? false }

    /// Records that the call has set these facts and does not set them again.
    mutating func release(_ facts: some Sequence<Fact>, _ number: UInt64) {
        if let index = index(of: number) { entries[index].claim.facts.subtract(facts) }
    }

    /// Removes a call that has ended.
    mutating func end(_ number: UInt64) { entries.removeAll { $0.number == number } }

    private func index(of number: UInt64) -> Int? { entries.firstIndex { $0.number == number } }
}
