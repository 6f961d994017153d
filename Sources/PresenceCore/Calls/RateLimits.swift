import PresenceWire

/// Counts the calls of each user and operation, and limits them in the whole cluster (T17, T22, T24, Z6).
///
/// The caller's owner counts. A call that reaches the owner is counted there. A query that another node answers itself is counted by a
/// message. That node answers without waiting while few of the user's queries are uncounted.
///
/// All nodes together have at most a fifth of the limit uncounted, so at most 1.2 × the limit passes. A user without a call within the span
/// costs nothing.
struct RateLimits {
    /// The operations that have separate counts.
    enum Kind: UInt8 { case setStatus, publish, setVisibility, query, list, subscribe, unsubscribe, chain }

    private struct Key: Hashable {
        let user: UserID
        let kind: Kind
    }

    /// A user whose queries another node counts.
    private struct Remote {
        /// The time before which the owner accepts no query.
        var closedUntil = Instant(nanoseconds: 0)
        /// The times of the answered queries that the owner has not counted yet.
        var answeredAt: [Instant] = []
    }

    /// The times of a user's last calls, oldest first.
    ///
    /// Most users have called once, which takes no memory of its own.
    private struct Recent {
        private let first: Instant
        private let others: [Instant]

        init?(_ all: [Instant]) {
            guard let first = all.first else { return nil }
            self.first = first
            others = all.count == 1 ? [] : Array(all.dropFirst())
        }

        var all: [Instant] { [first] + others }
        var last: Instant { others.last ?? first }
    }

    /// Most users and operations with a count. Beyond it those with the oldest calls are dropped.
    static let entriesMax = 200_000
    /// The time after which a query counts as counted without an acknowledgement: the owner, or the link to it, is gone.
    private static let countTimeout = Duration.seconds(5)

    /// The times of the last calls, oldest first.
    private var calls: [Key: Recent] = [:]
    private var remotes: [UserID: Remote] = [:]
    /// The users whose queries are being counted, by request.
    private var counting: [UInt64: UserID] = [:]
    private var nextSweep = Instant(nanoseconds: 0)
    /// The longest span of any limit. Users whose last call is older are not kept.
    private var spanMax = Duration.zero
    /// The number of refused calls.
    private(set) var refusedCount: UInt64 = 0

    /// Counts a call. If it exceeds the limit it is not counted, and the result is the number of whole seconds until the next one succeeds.
    ///
    /// A call that `isMade` is counted in any case. The result is then the number of seconds until the next one succeeds.
    mutating func ask(_ kind: Kind, of user: UserID, _ rate: Policy.Rate, at now: Instant, isMade: Bool = false) -> Int? {
        if calls.count >= Self.entriesMax { sweep(at: now) }
        let (span, countMax) = (Duration.seconds(rate.seconds), Int(rate.calls))
        spanMax = max(spanMax, span)
        var recent = calls[Key(user: user, kind: kind)]?.all ?? []
        recent.removeAll { $0 + span <= now }
        if isMade || recent.count < countMax {
            recent.append(now)
            calls[Key(user: user, kind: kind)] = Recent(recent)
            // The result tells a node that has already answered that this query was the last one for now.
            guard isMade, recent.count >= countMax else { return nil }
        } else {
            refusedCount += 1
        }
        return (recent[recent.count - countMax] + span - now).wholeSecondsUp
    }

    /// The decision about a query whose caller another node owns.
    enum OnQuery: Equatable {
        /// Answer the query, and have it counted.
        case answer
        /// Ask the owner first.
        case ask
        case refuse(retryAfter: Int)
    }

    /// Decides about a query.
    ///
    /// - Parameter nodesCount: the number of nodes that may answer queries of the user.
    mutating func query(of user: UserID, _ rate: Policy.Rate, nodesCount: Int, at now: Instant) -> OnQuery {
        if remotes.count >= Self.entriesMax { sweep(at: now) }
        guard var remote = remotes[user] else { return rate.uncountedMax(of: nodesCount) > 0 ? .answer : .ask }
        remote.answeredAt.removeAll { $0 + Self.countTimeout <= now }
        remotes[user] = remote
        guard remote.closedUntil <= now else {
            refusedCount += 1
            return .refuse(retryAfter: (remote.closedUntil - now).wholeSecondsUp)
        }
        return remote.answeredAt.count < rate.uncountedMax(of: nodesCount) ? .answer : .ask
    }

    /// Records that a query is answered and that `request` asks its owner to count it.
    mutating func answered(_ user: UserID, request: UInt64, at now: Instant) {
        remotes[user, default: Remote()].answeredAt.append(now)
        counting[request] = user
    }

    /// Records an owner's answer to `request`, which counts a query. Returns whether the query had been answered before.
    mutating func counted(_ request: UInt64, _ answer: Answer, at now: Instant) -> Bool {
        guard let user = counting.removeValue(forKey: request) else { return false }
        if !(remotes[user]?.answeredAt.isEmpty ?? true) { remotes[user]?.answeredAt.removeFirst() }
        if case .rateLimited(let seconds) = answer { close(user, for: seconds, at: now) }
        if let remote = remotes[user], remote.answeredAt.isEmpty, remote.closedUntil <= now { remotes[user] = nil }
        return true
    }

    /// Records that a user's owner accepts no query for so many seconds.
    mutating func close(_ user: UserID, for seconds: UInt64, at now: Instant) {
        remotes[user, default: Remote()].closedUntil = now + .seconds(Int64(min(seconds, 3_600)))
    }

    /// Removes users without a call within the longest span, at most once in five seconds. Called at each tick.
    mutating func tick(at now: Instant) {
        guard now >= nextSweep, !calls.isEmpty || !remotes.isEmpty else { return }
        sweep(at: now)
    }

    /// Removes them now, and beyond ``entriesMax`` also those with the oldest calls.
    private mutating func sweep(at now: Instant) {
        nextSweep = now + .seconds(5)
        var age = spanMax
        repeat {
            // order does not matter: each entry is checked by itself.
            calls = calls.filter { $0.value.last + age > now }
            age /= 2
        } while calls.count >= Self.entriesMax && age > .milliseconds(1)
        // order does not matter: each entry is checked by itself.
        remotes = remotes.filter { _, remote in
            remote.closedUntil > now || (remote.answeredAt.last ?? remote.closedUntil) + Self.countTimeout > now
        }
        if remotes.count >= Self.entriesMax { remotes = [:] }
        // order does not matter: each entry is checked by itself.
        counting = counting.filter { remotes[$0.value] != nil }
    }
}

extension Calls {
    /// Counts a call at the caller's owner.
    ///
    /// - Returns: the seconds until the call may be repeated, if it exceeds the rate limit; nil if it may run.
    mutating func delay(of request: Request, _ owner: borrowing Owner, at now: Now) -> Int? {
        guard request.isLimited, let kind = RateLimits.Kind(request.operation) else { return nil }
        guard let rate = owner.policies.shared(of: request.user).policy.rate(of: kind) else { return nil }
        return rates.ask(kind, of: request.user, rate, at: now.instant)
    }
}

extension Policy {
    fileprivate func rate(of kind: RateLimits.Kind) -> Rate? {
        switch kind {
        case .setStatus, .publish, .setVisibility: setStatusRate
        case .query, .list: queryRate
        case .subscribe, .unsubscribe: subscribeRate
        case .chain: chain.rate
        }
    }
}

extension Policy.Rate {
    /// The number of uncounted queries that each of so many nodes may have: a fifth of the limit for all of them.
    fileprivate func uncountedMax(of nodesCount: Int) -> Int { Int(calls) / (5 * max(nodesCount, 1)) }
}

extension Duration {
    /// The duration in whole seconds, rounded up; at least 1.
    var wholeSecondsUp: Int { max(Int((wholeMilliseconds + 999) / 1_000), 1) }
}
