import JWTKit
import PresenceCore
import PresenceWire

/// A claim of a token, as its JSON has it. A claim that is `null` counts as missing.
enum Claim: Codable, Equatable {
    case text(String)
    case number(Double)
    /// A list of texts only, as `aud` may be.
    case texts([String])
    case boolean, list, object

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if (try? value.decode(Bool.self)) != nil {
            self = .boolean
        } else if let texts = try? value.decode([String].self) {
            self = .texts(texts)
        } else {
            self = (try? decoder.unkeyedContainer()) != nil ? .list : .object
        }
    }

    func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .text(let text): try value.encode(text)
        case .number(let number): try value.encode(number)
        case .texts(let texts): try value.encode(texts)
        case .boolean: try value.encode(true)
        case .list: try value.encode([String]())
        case .object: try value.encode([String: String]())
        }
    }

    /// The type of a claim, for people.
    static func type(of claim: Claim?) -> String {
        switch claim {
        case nil: "missing"
        case .text: "a text"
        case .number: "a number"
        case .boolean: "a boolean"
        case .texts, .list: "a list"
        case .object: "an object"
        }
    }
}

/// The claims of a token that a node reads (<doc:HTTPAPI#Callers-and-tokens>). Others refuse nothing.
struct TokenClaims: JWTPayload {
    var sub: Claim?
    var app: Claim?
    var role: Claim?
    var exp: Claim?
    var nbf: Claim?
    /// The time at which the token was made, with the fraction that RFC 7519 §2 allows.
    var iat: Claim?
    /// Read only for an app with ``TokenRules/audiences``.
    var aud: Claim?
    /// Read only for an app with ``TokenRules/issuers``.
    var iss: Claim?

    func verify(using algorithm: some JWTAlgorithm) async throws {}

    /// The text of a claim. Throws for a claim of another type.
    private static func text(_ claim: Claim?, _ name: String) throws(AuthenticationError) -> String {
        guard case .text(let text) = claim else {
            throw AuthenticationError(reason: "\(name): is \(Claim.type(of: claim)); it must be a text")
        }
        return text
    }

    /// The text of a claim that is a name. Throws for a text that is none.
    private static func name(_ claim: Claim?, _ name: String) throws(AuthenticationError) -> String {
        let text = try text(claim, name)
        guard Limits.isValidName(text) else {
            throw AuthenticationError(reason: "\(name): must be 1 to 64 bytes without control characters")
        }
        return text
    }

    /// The time of a claim. Throws for a claim of another type.
    ///
    /// A time beyond 64 bits is the far future or past, because callers choose the content of their tokens.
    private static func time(_ claim: Claim?, _ name: String) throws(AuthenticationError) -> Milliseconds {
        guard case .number(let seconds) = claim else {
            throw AuthenticationError(reason: "\(name): is \(Claim.type(of: claim)); it must be a number of seconds")
        }
        return Milliseconds(exactly: (seconds * 1_000).rounded()) ?? (seconds > 0 ? .max : .min)
    }

    // MARK: Claim by claim

    /// The user ID. Throws if `sub` is none.
    func user() throws(AuthenticationError) -> String { try Self.name(sub, "sub") }

    /// The app ID. Throws if `app` is none.
    func appID() throws(AuthenticationError) -> String { app == nil ? "default" : try Self.name(app, "app") }

    /// Whether the caller is a back end of the app.
    func isAdmin() throws(AuthenticationError) -> Bool { role == nil ? false : try Self.text(role, "role") == "admin" }

    /// The end of the token. Throws if it was before `wall`, by more than the leeway.
    func end(at wall: Milliseconds) throws(AuthenticationError) -> Milliseconds {
        let time = try Self.time(exp, "exp")
        guard time > wall - Caller.leeway else { throw AuthenticationError(reason: "exp: the token has expired") }
        return time
    }

    /// Throws if the token is not valid yet.
    func checkStart(at wall: Milliseconds) throws(AuthenticationError) {
        // Most tokens count whole seconds, so the node's time is rounded up to one.
        let latest = (wall + 999) / 1_000 * 1_000 + Caller.leeway
        if nbf != nil, try Self.time(nbf, "nbf") > latest { throw AuthenticationError(reason: "nbf: the token is not valid yet") }
    }

    /// The time of issue; 0 if the token does not say. Throws if it is too far ahead.
    func issueTime(at wall: Milliseconds) throws(AuthenticationError) -> Milliseconds {
        let time = iat == nil ? 0 : try Self.time(iat, "iat")
        guard time <= wall + Self.issuedAheadMax else {
            throw AuthenticationError(
                reason: "iat: is more than \(Self.issuedAheadMax / 1_000) s ahead; it must be the time of issue in seconds since 1970")
        }
        return time
    }

    /// How far `iat` may be ahead of the node's clock. A time in milliseconds is always beyond.
    static let issuedAheadMax: Milliseconds = 60_000

    /// Throws if the token is for other audiences than those of its app (RFC 7519 §4.1.3).
    func checkAudience(_ rules: TokenRules) throws(AuthenticationError) {
        guard !rules.audiences.isEmpty else { return }
        let found: [String]
        switch aud {
        case .text(let text): found = [text]
        case .texts(let texts): found = texts
        default:
            throw AuthenticationError(
                reason: "aud: is \(Claim.type(of: aud)); it must be \(Self.oneOf(rules.audiences)), or a list with it")
        }
        guard found.contains(where: rules.audiences.contains) else {
            throw AuthenticationError(reason: "aud: is for another audience; it must be \(Self.oneOf(rules.audiences))")
        }
    }

    /// Throws if another issuer has made the token than those of its app.
    func checkIssuer(_ rules: TokenRules) throws(AuthenticationError) {
        guard !rules.issuers.isEmpty else { return }
        guard case .text(let issuer) = iss else {
            throw AuthenticationError(reason: "iss: is \(Claim.type(of: iss)); it must be \(Self.oneOf(rules.issuers))")
        }
        guard rules.issuers.contains(issuer) else {
            throw AuthenticationError(reason: "iss: is another issuer; it must be \(Self.oneOf(rules.issuers))")
        }
    }

    private static func oneOf(_ texts: [String]) -> String { texts.map { "\"\($0)\"" }.joined(separator: " or ") }

    // MARK: All of them

    /// Throws if a claim that says who calls is of another type, before the key is looked up.
    func checkNames() throws(AuthenticationError) {
        _ = try user()
        _ = try appID()
        _ = try isAdmin()
    }

    /// The caller of a token that is signed rightly. Throws for the first claim that refuses it.
    func caller(_ rules: TokenRules, at wall: Milliseconds) throws(AuthenticationError) -> Caller {
        let expiresAt = try end(at: wall)
        try checkStart(at: wall)
        let issuedAt = try issueTime(at: wall)
        try checkAudience(rules)
        try checkIssuer(rules)
        return Caller(
            user: UserID(app: try appID(), id: try user()), isAdmin: try isAdmin(), expiresAt: expiresAt, issuedAt: issuedAt)
    }
}
