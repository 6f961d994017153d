/// The rule of an app's policy that refused a call, or one user of a call: the label of `rollcall_policy_rejections_total` (<doc:Metrics>).
package enum PolicyRule: String, CaseIterable, Sendable {
    /// The plan does not cover the call (7013).
    case plan
    /// The feature is switched off (72001).
    case off = "switch"
    /// The call names more users than it may.
    case batch
    /// The validity of a subscription or of a custom status is missing or out of its range.
    case ttl
    /// The custom status is too long.
    case customStatus
    /// A query of the own status (`query.selfAllowed`).
    case ownStatus = "self"
    /// A query of the whole list (`subscription.list`).
    case list
    /// A subscription beyond the caller's quota, if none is evicted.
    case quota
    /// A subscription to a user who has reached the follower limit (`subscription.maxPerTarget`).
    case followers = "maxPerTarget"
    /// A subscription of type 3 to a user who is not a friend (31704).
    case friends
    /// An unknown user (70107).
    case registered
    /// A call beyond the rate limit (7008).
    case rate
}

/// The refusals by each rule: of a whole call, or of one user of a call that succeeded otherwise.
package struct PolicyRejections: Sendable {
    private var counts = [UInt64](repeating: 0, count: PolicyRule.allCases.count)

    package init() {}

    package subscript(rule: PolicyRule) -> UInt64 { counts[Self.index(of: rule)] }

    package mutating func count(_ rule: PolicyRule?, _ times: Int = 1) {
        if let rule { counts[Self.index(of: rule)] += UInt64(times) }
    }

    private static func index(of rule: PolicyRule) -> Int { PolicyRule.allCases.firstIndex(of: rule) ?? 0 }
}
