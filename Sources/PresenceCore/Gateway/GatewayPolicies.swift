import PresenceWire

/// The policies of all apps, as the node has sent them to its gateways.
public struct GatewayPolicies: Sendable {
    /// By app; ``standard`` is the policy of the others.
    private var policies: [String: SharedPolicy] = [:]
    private var standard = SharedPolicy(Policy())
    /// The times of the last changes, by app.
    private var changes: [String: Milliseconds] = [:]

    init() {}

    /// The policy for a user's app.
    public func policy(of user: UserID) -> Policy { shared(of: user).policy }

    /// The policy for a user's app, without a copy.
    public func shared(of user: UserID) -> SharedPolicy { policies.isEmpty ? standard : policies[String(user.app)] ?? standard }

    /// The policy of an app; for nil, the policy of all other apps.
    func policy(of app: String?) -> Policy { (app.flatMap { policies[$0] } ?? standard).policy }

    /// The time at which the policy of a user's app was changed last; 0 for never.
    func changedAt(for user: UserID) -> Milliseconds { changes.isEmpty ? 0 : changes[String(user.app)] ?? 0 }

    /// Replaces the policy of an app, which was changed at `time`; for nil, the policy of all other apps.
    mutating func set(_ policy: Policy, of app: String?, changedAt time: Milliseconds) {
        guard let app else { return standard = SharedPolicy(policy) }
        policies[app] = SharedPolicy(policy)
        changes[app] = time
    }
}

/// The times of kicks, since when earlier tokens of the users are void.
public struct VoidTokens: Sendable {
    /// By user. Each app has a limit (`kicks.max`).
    private var before: [UserID: Milliseconds] = [:]

    init() {}

    /// The time of the user's kick; nil if the user was not kicked.
    subscript(user: UserID) -> Milliseconds? {
        get { before[user] }
        set { before[user] = newValue }
    }

    /// The resolution of `iat`: most libraries write whole seconds, rounded down.
    ///
    /// A token that was made right after a kick names a time up to a second before it.
    static let resolution: Milliseconds = 1_000

    /// Whether a kick voids a token, because it was issued a second before the kick or more.
    static func isVoid(issuedAt: Milliseconds, kickedAt: Milliseconds) -> Bool { issuedAt <= kickedAt - resolution }

    /// Whether a token that was issued at this time is void, because its user was kicked a second later or more.
    public func isVoid(_ user: UserID, issuedAt: Milliseconds) -> Bool {
        guard !before.isEmpty, let kickedAt = before[user] else { return false }
        return Self.isVoid(issuedAt: issuedAt, kickedAt: kickedAt)
    }

    /// The time of a session that a user opens now. It is later than the user's kick, though the clock of the kick may be ahead.
    func openingTime(of user: UserID, at wall: Milliseconds) -> Milliseconds {
        guard !before.isEmpty, let kickedAt = before[user] else { return wall }
        return max(wall, kickedAt + 1)
    }
}
