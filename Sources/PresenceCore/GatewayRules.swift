import PresenceWire

/// What a gateway must know of a request before it takes it: the policies of all apps, and whose tokens are void.
///
/// Apart from ``Gateway``, because who keeps a value in a class asks a copy of it, and this is asked three times a request: copies of the
/// whole gateway, which count some thirty references up and down, took a twentieth of the request.
public struct GatewayRules: Sendable {
    /// By app; ``standard`` for the others.
    private var policies: [String: Policy] = [:]
    private var standard = Policy()
    /// Since when the tokens of a user are void; as many as the node keeps.
    var voidTokens: [UserID: Milliseconds] = [:]

    init() {}

    /// The policy for a user's app.
    public func policy(of user: UserID) -> Policy { policies.isEmpty ? standard : policies[String(user.app)] ?? standard }

    /// The policy of an app, or of those about which nothing was said.
    subscript(app: String?) -> Policy {
        get { app.flatMap { policies[$0] } ?? standard }
        set { if let app { policies[app] = newValue } else { standard = newValue } }
    }

    /// Whether a token of a user that was issued at this time is void, because the user was kicked since.
    public func isVoid(_ user: UserID, issuedAt: Milliseconds) -> Bool {
        !voidTokens.isEmpty && issuedAt < voidTokens[user] ?? .min
    }
}
