import PresenceWire

/// The policies of all apps, as a gateway knows them.
///
/// A class that never changes, beside the rest of ``Gateway``: who keeps a value in a class asks a copy of it, and a copy of the whole
/// gateway, which counts some thirty references up and down, three times a request, took a twentieth of it.
public final class GatewayPolicies: Sendable {
    /// By app; ``standard`` for the others.
    private let policies: [String: Policy]
    private let standard: Policy

    init(_ policies: [String: Policy] = [:], standard: Policy = Policy()) {
        self.policies = policies
        self.standard = standard
    }

    /// The policy for a user's app.
    public func policy(of user: UserID) -> Policy { policies.isEmpty ? standard : policies[String(user.app)] ?? standard }

    /// The policy of an app, or with nil that of all others.
    func policy(of app: String?) -> Policy { app.flatMap { policies[$0] } ?? standard }

    /// The same with another policy of an app, or with nil of all others.
    func with(_ policy: Policy, of app: String?) -> GatewayPolicies {
        guard let app else { return GatewayPolicies(policies, standard: policy) }
        return GatewayPolicies(policies.merging([app: policy]) { $1 }, standard: standard)
    }
}

/// Since when the tokens of users are void; apart for the same reason as ``GatewayPolicies``.
public struct VoidTokens: Sendable {
    /// As many as the node keeps.
    private var before: [UserID: Milliseconds] = [:]

    init() {}

    /// Since when a user's tokens are void.
    subscript(user: UserID) -> Milliseconds? {
        get { before[user] }
        set { before[user] = newValue }
    }

    /// Whether a token of a user that was issued at this time is void, because the user was kicked since.
    public func isVoid(_ user: UserID, issuedAt: Milliseconds) -> Bool { !before.isEmpty && issuedAt < before[user] ?? .min }
}
