import PresenceWire

/// How often each user has called each operation lately (T17, T22, T24, Z6): so many calls in any span of so many seconds, no more.
///
/// A user's calls are counted on the node that takes them. Users who have not called within the span cost nothing.
struct RateLimits {
    /// The operations that are counted apart.
    enum Kind: UInt8 { case setStatus, publish, setVisibility, query, list, subscribe, unsubscribe }

    private struct Key: Hashable {
        let user: UserID
        let kind: Kind
    }

    /// Users and operations that are counted at a time; beyond it those that called longest ago are forgotten.
    static let entriesMax = 200_000

    /// When the last calls were, oldest first.
    private var calls: [Key: [Instant]] = [:]
    private var nextSweep = Instant(nanoseconds: 0)
    /// Calls refused.
    private(set) var refusedCount: UInt64 = 0

    /// Counts a call, or says after how many whole seconds it may be tried again; then it is not counted.
    mutating func ask(_ kind: Kind, of user: UserID, _ rate: Policy.Rate, at now: Instant) -> Int? {
        sweep(at: now)
        let span = Duration.seconds(rate.seconds)
        var recent = calls[Key(user: user, kind: kind)] ?? []
        recent.removeAll { $0 + span <= now }
        guard recent.count < Int(rate.calls) else {
            refusedCount += 1
            let wait = recent[recent.count - Int(rate.calls)] + span - now
            return max(Int((wait.wholeMilliseconds + 999) / 1_000), 1)
        }
        recent.append(now)
        calls[Key(user: user, kind: kind)] = recent
        return nil
    }

    /// Forgets those who have not called for an hour, the longest span that there is, or, when there are too many, for less.
    private mutating func sweep(at now: Instant) {
        guard now >= nextSweep || calls.count >= Self.entriesMax else { return }
        nextSweep = now + .seconds(60)
        var age = Duration.seconds(3_600)
        repeat {
            // order does not matter: each is looked at for itself.
            calls = calls.filter { ($0.value.last ?? now) + age > now }
            age /= 2
        } while calls.count >= Self.entriesMax && age > .milliseconds(1)
    }
}

extension Node {
    /// After how many seconds a call may be tried again, if it comes too often.
    mutating func waitOf(_ call: Call, of caller: UserID, at now: Now) -> Int? {
        guard let kind = RateLimits.Kind(call, of: caller), let rate = owners.policies.policy(of: caller).rate(of: kind) else { return nil }
        return rates.ask(kind, of: caller, rate, at: now.instant)
    }
}

extension RateLimits.Kind {
    /// As what a call is counted; nil for one that may come as often as it likes.
    fileprivate init?(_ call: Call, of caller: UserID) {
        switch call {
        case .setSelfStatus: self = .setStatus
        case .publishEvent: self = .publish
        case .setVisibility: self = .setVisibility
        case .getUserStatus(let users) where users.count == 1 && users[0] == caller: return nil  // T15
        case .getUserStatus: self = .query
        case .getSubscribedUserStatus: self = .list
        case .subscribeUserStatus: self = .subscribe
        case .unsubscribeUserStatus: self = .unsubscribe
        case .logout, .setAppPolicy, .kick, .explain, .importUsers, .getVisibility: return nil
        }
    }
}

extension Policy {
    fileprivate func rate(of kind: RateLimits.Kind) -> Rate? {
        switch kind {
        case .setStatus, .publish, .setVisibility: setStatusRate
        case .query, .list: queryRate
        case .subscribe, .unsubscribe: subscribeRate
        }
    }
}
