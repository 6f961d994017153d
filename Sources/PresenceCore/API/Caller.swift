import PresenceWire

/// The caller that a token names (<doc:HTTPAPI#Callers-and-tokens>).
public struct Caller: Hashable, Sendable {
    public var user: UserID
    /// Whether the caller is an app's back end, which may name any user of its app.
    public var isAdmin: Bool
    /// The time at which the token expires.
    public var expiresAt: Milliseconds
    /// The time at which the token was made; 0 if the token does not say.
    public var issuedAt: Milliseconds

    public init(user: UserID, isAdmin: Bool, expiresAt: Milliseconds, issuedAt: Milliseconds = 0) {
        self.issuedAt = issuedAt
        self.user = user
        self.isAdmin = isAdmin
        self.expiresAt = expiresAt
    }

    /// How far the clock that wrote a token may be from the node's: 5 s. RFC 7519 §4.1.4 allows some leeway.
    public static let leeway: Milliseconds = 5_000

    /// Whether the token has expired, with the leeway.
    public func isExpired(at wall: Milliseconds) -> Bool { expiresAt <= wall - Self.leeway }

    /// Whether a session that the token opens would end at once, because the policy has a shorter grace than the leeway.
    public func opensNoSession(by policy: Policy, at wall: Milliseconds) -> Bool {
        expiresAt <= wall - policy.tokenGrace.wholeMilliseconds
    }
}
