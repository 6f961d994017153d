import Foundation
import JWTKit
import PresenceCore
import PresenceWire

/// The reason why a token is not accepted. The answer is always 401 with code 6014.
public struct AuthenticationError: Error, Equatable, Sendable {
    /// The error in the token, and the correct form.
    public let reason: String
}

/// A claim of a token, as its JSON has it. A claim that is `null` counts as missing.
enum Claim: Codable, Equatable {
    case text(String)
    case number(Double)
    case boolean, list, object

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if (try? value.decode(Bool.self)) != nil {
            self = .boolean
        } else {
            self = (try? decoder.unkeyedContainer()) != nil ? .list : .object
        }
    }

    func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .text(let text): try value.encode(text)
        case .number(let number): try value.encode(number)
        case .boolean: try value.encode(true)
        case .list: try value.encode([String]())
        case .object: try value.encode([String: String]())
        }
    }

    /// The type of a claim, for people.
    fileprivate static func type(of claim: Claim?) -> String {
        switch claim {
        case nil: "missing"
        case .text: "a text"
        case .number: "a number"
        case .boolean: "a boolean"
        case .list: "a list"
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

    func verify(using algorithm: some JWTAlgorithm) async throws {}

    /// The text of a claim. Throws for a claim of another type.
    fileprivate static func text(_ claim: Claim?, _ name: String) throws(AuthenticationError) -> String {
        guard case .text(let text) = claim else {
            throw AuthenticationError(reason: "\(name): is \(Claim.type(of: claim)); it must be a text")
        }
        return text
    }

    /// The time of a claim. Throws for a claim of another type.
    ///
    /// A time beyond 64 bits is the far future or past, because callers choose the content of their tokens.
    fileprivate static func time(_ claim: Claim?, _ name: String) throws(AuthenticationError) -> Milliseconds {
        guard case .number(let seconds) = claim else {
            throw AuthenticationError(reason: "\(name): is \(Claim.type(of: claim)); it must be a number of seconds")
        }
        return Milliseconds(exactly: (seconds * 1_000).rounded()) ?? (seconds > 0 ? .max : .min)
    }

    /// The caller that the claims name. Throws if a claim is of another type or names no user.
    fileprivate func caller() throws(AuthenticationError) -> Caller {
        let id = try Self.text(sub, "sub")
        let app = try app.map { claim throws(AuthenticationError) in try Self.text(claim, "app") } ?? "default"
        let role = try role.map { claim throws(AuthenticationError) in try Self.text(claim, "role") }
        let expiresAt = try Self.time(exp, "exp")
        let issuedAt = try iat.map { claim throws(AuthenticationError) in try Self.time(claim, "iat") }
        for (name, text) in [("sub", id), ("app", app)] where !Limits.isValidName(text) {
            throw AuthenticationError(reason: "\(name): must be 1 to 64 bytes without control characters")
        }
        return Caller(user: UserID(app: app, id: id), isAdmin: role == "admin", expiresAt: expiresAt, issuedAt: issuedAt ?? 0)
    }

    /// Throws if the token is not valid at a time.
    fileprivate func check(_ caller: Caller, at wall: Milliseconds) throws(AuthenticationError) {
        guard !caller.isExpired(at: wall) else { throw AuthenticationError(reason: "exp: the token has expired") }
        // Most tokens count whole seconds, so the node's time is rounded up to one.
        let latest = (wall + 999) / 1_000 * 1_000 + Caller.leeway
        if let nbf, try Self.time(nbf, "nbf") > latest { throw AuthenticationError(reason: "nbf: the token is not valid yet") }
        guard caller.issuedAt <= wall + Self.issuedAheadMax else {
            throw AuthenticationError(
                reason: "iat: is more than \(Self.issuedAheadMax / 1_000) s ahead; it must be the time of issue in seconds since 1970")
        }
    }

    /// How far `iat` may be ahead of the node's clock. A time in milliseconds is always beyond.
    static let issuedAheadMax: Milliseconds = 60_000
}

/// A key that signs, or only checks, the tokens of an app.
public enum TokenKey: Sendable {
    /// A shared secret of at least 32 bytes.
    case hs256(secret: String)
    /// A P-256 key, PEM.
    case es256(publicPEM: String)
    /// An RSA key of at least 2048 bits, PEM.
    case rs256(publicPEM: String)

    /// The only algorithm of the key: `alg` in a token's header (RFC 7518 §3.1).
    var algorithm: String {
        switch self {
        case .hs256: "HS256"
        case .es256: "ES256"
        case .rs256: "RS256"
        }
    }

    /// Makes the collection for checks. Throws if the key is too short or not a key.
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

/// The key of `--dev`. Everybody knows it, so a node that accepts it listens on loopback only.
public enum DevelopmentKey {
    /// 43 bytes. HS256 needs at least 32.
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
    ///   - apps: the keys by app; several for one app while they are replaced.
    ///   - isDevelopment: whether to accept ``DevelopmentKey`` for every app.
    public init(apps: [String: [TokenKey]], isDevelopment: Bool) async throws {
        var keys: [String: [Key]] = [:]
        for (app, appKeys) in apps {
            for key in appKeys { keys[app, default: []].append(try await Key(key)) }
        }
        self.keys = keys
        development = isDevelopment ? try await Key(.hs256(secret: DevelopmentKey.secret)) : nil
    }

    /// Checks a token and returns its caller. That takes about 50 µs; ``VerifiedTokens`` caches the result.
    public func check(_ token: [UInt8], at wall: Milliseconds) async -> Result<Caller, AuthenticationError> {
        do { return .success(try await verify(token, at: wall)) } catch let error as AuthenticationError { return .failure(error) } catch {
            return .failure(AuthenticationError(reason: "the token cannot be checked: \(error)"))
        }
    }

    private func verify(_ token: [UInt8], at wall: Milliseconds) async throws -> Caller {
        guard token.count <= 8_192 else { throw AuthenticationError(reason: "the token is longer than 8192 bytes") }
        // The parser reads other spellings, too. Each would be an entry of its own in the cache of verified tokens.
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, parts.allSatisfy({ Base64.isCanonicalURLText($0) }) else {
            throw AuthenticationError(reason: "the token is not three parts in Base64url without padding, with dots between them")
        }
        let (header, claims): (JWTHeader, TokenClaims)
        do { (header, claims, _) = try DefaultJWTParser().parse(token, as: TokenClaims.self) } catch {
            throw AuthenticationError(reason: "the token is not a JWT whose claims are a JSON object")
        }
        // RFC 7515 §4.1.11: a verifier must refuse a header whose critical extensions it does not know, and this node knows none.
        guard header.fields["crit"] == nil else { throw AuthenticationError(reason: "the token's header calls extensions critical") }
        let caller = try claims.caller()
        let app = String(caller.user.app)
        let candidates = keys[app] ?? development.map { [$0] } ?? []
        guard !candidates.isEmpty else { throw AuthenticationError(reason: "no keys are configured for app \"\(app)\"") }
        // RFC 8725 §3.1: the key decides the algorithm, never the token.
        let fitting = candidates.filter { $0.algorithm == header.alg }
        guard !fitting.isEmpty else {
            let algorithms = Set(candidates.map(\.algorithm)).sorted().joined(separator: " or ")
            throw AuthenticationError(reason: "the token's alg is not \(algorithms), that of the keys of app \"\(app)\"")
        }
        guard await isSigned(token, by: fitting) else {
            throw AuthenticationError(reason: "the token is not signed by a key of app \"\(app)\"")
        }
        try claims.check(caller, at: wall)
        return caller
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

    /// - Parameter secret: the HS256 secret of the app; nil for the development key.
    public init(secret: String? = nil) async throws {
        keys = try await TokenKey.hs256(secret: secret ?? DevelopmentKey.secret).collection()
    }

    /// A token for `user` of `app`, valid for `seconds`.
    public func token(user: String, app: String = "default", isAdmin: Bool = false, seconds: Int = 86_400) async throws -> String {
        let now = Date().timeIntervalSince1970
        let claims = TokenClaims(
            sub: .text(user), app: .text(app), role: isAdmin ? .text("admin") : nil, exp: .number(now.rounded(.down) + Double(seconds)),
            iat: .number((now * 1_000).rounded(.down) / 1_000))
        return try await keys.sign(claims)
    }
}

/// A verified token.
///
/// A connection keeps its last one. A comparison byte by byte costs a connection of one caller no lookup and no allocation.
final class VerifiedToken {
    /// The whole value of the `Authorization` field in which the token first came.
    let header: [UInt8]
    let caller: Caller
    /// The refusal of the user's last login, and the time until which the next one is refused.
    var loginRefusal: LoginRates.Refusal?

    init(header: [UInt8], caller: Caller) {
        self.header = header
        self.caller = caller
    }
}

/// The verified tokens of one event loop. A hit costs one lookup. A full table is emptied, and each token is then checked once more.
struct VerifiedTokens {
    /// Most bytes of all entries of a loop.
    static let bytesMax = 10 << 20
    /// The bytes of an entry besides the two copies of its token: the caller, and a place in a table that is half empty.
    static let entryBytes = 400

    /// By the token without the word `Bearer`, because that word has 64 spellings.
    private var tokens: [[UInt8]: VerifiedToken] = [:]
    private(set) var bytes = 0

    /// The verified token, if it is known and has not expired.
    func token(_ token: [UInt8], at wall: Milliseconds) -> VerifiedToken? {
        guard let known = tokens[token], !known.caller.isExpired(at: wall) else { return nil }
        return known
    }

    mutating func add(_ verified: VerifiedToken, as token: [UInt8]) {
        let cost = token.count + verified.header.count + Self.entryBytes
        if bytes + cost > Self.bytesMax {
            tokens.removeAll(keepingCapacity: true)
            bytes = 0
        }
        if let replaced = tokens.updateValue(verified, forKey: token) {
            bytes -= token.count + replaced.header.count + Self.entryBytes
        }
        bytes += cost
    }
}
