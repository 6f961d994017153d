import PresenceWire

/// How often each user has called each operation lately (T17, T22, T24, Z6): so many calls in any span of so many seconds, no more.
///
/// A user's calls are counted on the node that takes them. Users who have not called within the span cost nothing.
struct RateLimits {
    /// The operations that are counted apart.
    enum Kind: UInt8 { case setStatus, publish, setVisibility, query, subscribe, unsubscribe }

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
        let policy = owners.policies.policy(of: caller)
        let (kind, rate): (RateLimits.Kind, Policy.Rate?) =
            switch call {
            case .setSelfStatus: (.setStatus, policy.setStatusRate)
            case .publishEvent: (.publish, policy.setStatusRate)
            case .setVisibility: (.setVisibility, policy.setStatusRate)
            case .getUserStatus(let users): (.query, users == [caller] ? nil : policy.queryRate)  // T15
            case .subscribeUserStatus: (.subscribe, policy.subscribeRate)
            case .unsubscribeUserStatus: (.unsubscribe, policy.subscribeRate)
            case .getSubscribedUserStatus: (.query, policy.queryRate)
            case .logout, .setAppPolicy, .kick, .explain, .importUsers, .getVisibility: (.query, nil)
            }
        guard let rate else { return nil }
        return rates.ask(kind, of: caller, rate, at: now.instant)
    }
}
