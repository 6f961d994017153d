import Foundation
import JWTKit
import PresenceWire

/// The caller that a token names (<doc:HTTPAPI#Callers-and-tokens>).
public struct Caller: Hashable, Sendable {
    public var user: UserID
    /// An app's back end, which may name any user of its app.
    public var isAdmin: Bool
    /// When the token ends.
    public var expiresAt: Milliseconds
    /// When the token was made; 0 for one that does not say so.
    public var issuedAt: Milliseconds

    public init(user: UserID, isAdmin: Bool, expiresAt: Milliseconds, issuedAt: Milliseconds = 0) {
        self.issuedAt = issuedAt
        self.user = user
        self.isAdmin = isAdmin
        self.expiresAt = expiresAt
    }
}

/// Why a token is not taken: always 401, code 6014.
public struct AuthenticationError: Error, Equatable, Sendable {
    /// What was wrong, and what would be right.
    public let reason: String
}

/// The claims of a token (<doc:HTTPAPI#Callers-and-tokens>).
struct TokenClaims: JWTPayload {
    var sub: String
    var app: String?
    var role: String?
    var exp: ExpirationClaim
    var nbf: NotBeforeClaim?
    /// When it was made, with the fraction that RFC 7519 §2 allows.
    var iat: Double?

    func verify(using algorithm: some JWTAlgorithm) async throws {}
}

/// A key that signs, or only checks, the tokens of an app.
public enum TokenKey: Sendable {
    /// A shared secret of at least 32 bytes.
    case hs256(secret: String)
    /// A P-256 key, PEM.
    case es256(publicPEM: String)
    /// An RSA key of at least 2048 bits, PEM.
    case rs256(publicPEM: String)

    /// The one algorithm that it is for: `alg` in a token's header (RFC 7518 §3.1).
    var algorithm: String {
        switch self {
        case .hs256: "HS256"
        case .es256: "ES256"
        case .rs256: "RS256"
        }
    }

    /// Throws when the key is too short or no key at all.
    func collection() async throws(ConfigurationError) -> JWTKeyCollection {
        let keys = JWTKeyCollection()
        switch self {
        case .hs256(let secret):
            guard secret.utf8.count >= 32 else {
                throw ConfigurationError(setting: "hs256", problem: "the secret has \(secret.utf8.count) bytes; it needs at least 32")
            }
            await keys.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256)
        case .es256(let pem):
            guard let key = try? ES256PublicKey(pem: pem) else {
                throw ConfigurationError(setting: "es256PublicKeyFile", problem: "holds no P-256 public key in PEM")
            }
            await keys.add(ecdsa: key)
        case .rs256(let pem):
            guard let key = try? Insecure.RSA.PublicKey(pem: pem) else {
                throw ConfigurationError(setting: "rs256PublicKeyFile", problem: "holds no RSA public key of at least 2048 bits in PEM")
            }
            await keys.add(rsa: key, digestAlgorithm: .sha256)
        }
        return keys
    }
}

/// The key of `--dev`: known to everybody, so a node that takes it listens on loopback only.
public enum DevelopmentKey {
    /// 43 bytes; HS256 wants at least 32.
    public static let secret = "rollcall development key, never in earnest!"
}

/// Checks tokens with the keys of the app that they name.
public final class Authenticator: Sendable {
    private struct Key {
        let algorithm: String
        let keys: JWTKeyCollection

        init(_ key: TokenKey) async throws(ConfigurationError) {
            algorithm = key.algorithm
            keys = try await key.collection()
        }
    }

    private let keys: [String: [Key]]
    private let development: Key?

    /// - Parameters:
    ///   - apps: the keys by app; several for one app while they are changed.
    ///   - isDevelopment: take ``DevelopmentKey`` for every app.
    public init(apps: [String: [TokenKey]], isDevelopment: Bool) async throws {
        var keys: [String: [Key]] = [:]
        for (app, appKeys) in apps {
            for key in appKeys { keys[app, default: []].append(try await Key(key)) }
        }
        self.keys = keys
        development = isDevelopment ? try await Key(.hs256(secret: DevelopmentKey.secret)) : nil
    }

    /// The caller that a token names. Takes some 50 µs: ``VerifiedTokens`` remembers the answer.
    public func check(_ token: [UInt8], at wall: Milliseconds) async -> Result<Caller, AuthenticationError> {
        do { return .success(try await verify(token, at: wall)) } catch let error as AuthenticationError { return .failure(error) } catch {
            return .failure(AuthenticationError(reason: "the token cannot be checked: \(error)"))
        }
    }

    private func verify(_ token: [UInt8], at wall: Milliseconds) async throws -> Caller {
        guard token.count <= 8_192 else { throw AuthenticationError(reason: "the token is longer than 8192 bytes") }
        let (header, claims): (JWTHeader, TokenClaims)
        do { (header, claims, _) = try DefaultJWTParser().parse(token, as: TokenClaims.self) } catch {
            throw AuthenticationError(reason: "the token is not a JWT with the claims sub and exp")
        }
        // RFC 7515 §4.1.11: who does not understand what the header calls critical must refuse, and this node understands none.
        guard header.fields["crit"] == nil else { throw AuthenticationError(reason: "the token's header calls extensions critical") }
        let app = claims.app ?? "default"
        let candidates = keys[app] ?? development.map { [$0] } ?? []
        guard !candidates.isEmpty else { throw AuthenticationError(reason: "no keys are configured for app \"\(app)\"") }
        // RFC 8725 §3.1: the key says what the signature is, never the token.
        let fitting = candidates.filter { $0.algorithm == header.alg }
        guard !fitting.isEmpty else {
            let algorithms = Set(candidates.map(\.algorithm)).sorted().joined(separator: " or ")
            throw AuthenticationError(reason: "the token's alg is not \(algorithms), that of the keys of app \"\(app)\"")
        }
        guard await isSigned(token, by: fitting) else {
            throw AuthenticationError(reason: "the token is not signed by a key of app \"\(app)\"")
        }
        let expiresAt = Self.milliseconds(claims.exp.value)
        guard expiresAt > wall else { throw AuthenticationError(reason: "the token has expired") }
        if let start = claims.nbf?.value, Self.milliseconds(start) > wall {
            throw AuthenticationError(reason: "the token is not valid yet (nbf)")
        }
        guard Limits.isValidName(claims.sub), Limits.isValidName(app) else {
            throw AuthenticationError(reason: "sub and app must be 1 to 64 bytes without control characters")
        }
        return Caller(
            user: UserID(app: app, id: claims.sub), isAdmin: claims.role == "admin", expiresAt: expiresAt,
            issuedAt: claims.iat.flatMap { Milliseconds(exactly: ($0 * 1_000).rounded()) } ?? 0)
    }

    /// A claim's time. One beyond what 64 bits hold is the far future or past: a caller writes what it likes into its token.
    private static func milliseconds(_ date: Date) -> Milliseconds {
        let value = date.timeIntervalSince1970 * 1_000
        return Milliseconds(exactly: value.rounded()) ?? (value > 0 ? .max : .min)
    }

    private func isSigned(_ token: [UInt8], by candidates: [Key]) async -> Bool {
        for key in candidates {
            do {
                _ = try await key.keys.verify(token, as: TokenClaims.self)
                return true
            } catch { continue }  // The next key may be the one; no key at all is answered with 401.
        }
        return false
    }
}

/// Makes tokens: `rollcall token`, the demo and the simulator.
public struct TokenMint: Sendable {
    private let keys: JWTKeyCollection

    /// - Parameter secret: the HS256 secret of the app; the development key when nil.
    public init(secret: String? = nil) async throws {
        keys = try await TokenKey.hs256(secret: secret ?? DevelopmentKey.secret).collection()
    }

    /// A token for `user` of `app`, valid for `seconds`.
    public func token(user: String, app: String = "default", isAdmin: Bool = false, seconds: Int = 86_400) async throws -> String {
        let claims = TokenClaims(
            sub: user, app: app, role: isAdmin ? "admin" : nil,
            exp: ExpirationClaim(value: Date(timeIntervalSinceNow: TimeInterval(seconds))), nbf: nil,
            iat: (Date().timeIntervalSince1970 * 1_000).rounded(.down) / 1_000)
        return try await keys.sign(claims)
    }
}

/// A token that was checked, by the whole of its header field. A connection keeps its last one: compared byte by byte, it costs a
/// connection of one caller no lookup and no allocation.
final class VerifiedToken {
    let header: [UInt8]
    let caller: Caller
    /// Why a login of the user was refused last, and up to when the next one is.
    var loginRefusal: LoginRates.Refusal?

    init(header: [UInt8], caller: Caller) {
        self.header = header
        self.caller = caller
    }
}

/// Tokens that were checked before, of one event loop: a hit costs one lookup. Bounded; a full table is emptied.
struct VerifiedTokens {
    /// Entries; one is some 500 bytes.
    static let countMax = 20_000

    private var tokens: [[UInt8]: VerifiedToken] = [:]

    /// The token with this header, if it is known and has not ended.
    func token(_ header: [UInt8], at wall: Milliseconds) -> VerifiedToken? {
        guard let token = tokens[header], token.caller.expiresAt > wall else { return nil }
        return token
    }

    mutating func add(_ token: VerifiedToken) {
        if tokens.count >= Self.countMax { tokens.removeAll(keepingCapacity: true) }
        tokens[token.header] = token
    }
}
