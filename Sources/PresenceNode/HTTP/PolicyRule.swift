/// By what of an app's policy a call, or one user of a call, was refused: the label of `rollcall_policy_rejections_total`.
enum PolicyRule: String, CaseIterable, Sendable {
    /// The plan does not cover the call (7013).
    case plan
    /// The feature is switched off (72001).
    case off = "switch"
    /// More users in one call than it may name.
    case batch
    /// The validity of a subscription or of a custom status is missing or out of its range.
    case ttl
    /// The custom status is too long.
    case customStatus
    /// Asking for oneself (`query.selfAllowed`).
    case ownStatus = "self"
    /// Asking for the whole list (`subscription.list`).
    case list
    /// A subscription beyond what one may follow, where nobody is evicted.
    case quota
    /// A subscription to a user who has as many followers as a user may have (`subscription.maxPerTarget`).
    case followers = "maxPerTarget"
    /// A subscription of type 3 to somebody who is no friend (31704).
    case friends
    /// No such user (70107).
    case registered
    /// Called too often (7008).
    case rate
}

/// How often each rule has refused something: a call, or one user of a call that did something else.
struct PolicyRejections: Sendable {
    private var counts = [UInt64](repeating: 0, count: PolicyRule.allCases.count)

    subscript(rule: PolicyRule) -> UInt64 { counts[Self.place(of: rule)] }

    mutating func count(_ rule: PolicyRule?, _ times: Int = 1) {
        if let rule { counts[Self.place(of: rule)] += UInt64(times) }
    }

    private static func place(of rule: PolicyRule) -> Int { PolicyRule.allCases.firstIndex(of: rule) ?? 0 }
}
