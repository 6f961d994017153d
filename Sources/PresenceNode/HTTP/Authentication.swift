import Foundation
import JWTKit
import NIOConcurrencyHelpers
import PresenceCore
import PresenceWire

/// The reason why a token is not accepted.
public struct AuthenticationError: Error, Equatable, Sendable {
    /// The error in the token, and the correct form.
    public let reason: String
    /// Whether the same token may be accepted later, because the node could not fetch the keys of its app. The answer is then 503 with
    /// code 50001, otherwise 401 with code 6014.
    public var isTemporary = false
}

extension Problem {
    /// The answer to a token that is not accepted.
    init(_ error: AuthenticationError) {
        self = error.isTemporary ? Problem(status: 503, code: 50001, detail: error.reason) : .notLoggedIn(error.reason)
    }
}

/// The key of `--dev`. Everybody knows it, so a node that accepts it listens on loopback only.
public enum DevelopmentKey {
    /// 43 bytes. HS256 needs at least 32.
    public static let secret = "rollcall development key, never in earnest!"
}

/// A token that was read and not verified.
struct ParsedToken {
    let bytes: [UInt8]
    let header: JWTHeader
    let claims: TokenClaims

    /// Throws for bytes that are no token, and for a header that a verifier must refuse.
    init(_ token: [UInt8]) throws(AuthenticationError) {
        guard token.count <= 8_192 else { throw AuthenticationError(reason: "the token is longer than 8192 bytes") }
        // The parser reads other spellings, too. Each would be an entry of its own in the cache of verified tokens.
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, parts.allSatisfy({ Base64.isCanonicalURLText($0) }) else {
            throw AuthenticationError(reason: "the token is not three parts in Base64url without padding, with dots between them")
        }
        do { (header, claims, _) = try DefaultJWTParser().parse(token, as: TokenClaims.self) } catch {
            throw AuthenticationError(reason: "the token is not a JWT whose claims are a JSON object")
        }
        bytes = token
        // RFC 7515 §4.1.11: a verifier must refuse a header whose critical extensions it does not know, and this node knows none.
        guard header.fields["crit"] == nil else { throw AuthenticationError(reason: "the token's header calls extensions critical") }
    }
}

/// Checks tokens with the keys of the app that they name.
///
/// The keys may be replaced while tokens are checked. Each replacement has a version, by which the loops drop the tokens that older keys
/// have verified.
public final class Authenticator: Sendable {
    private struct Key: Sendable {
        let key: TokenKey
        let keys: JWTKeyCollection

        init(_ key: TokenKey) async throws(ConfigurationError) {
            self.key = key
            keys = try await key.collection()
        }
    }

    /// All keys at one time.
    private struct Ring: Sendable {
        var version: UInt64 = 0
        var rules: [String: TokenRules] = [:]
        /// The keys of the configuration, by app.
        var configured: [String: [Key]] = [:]
        /// The keys of the sets that were fetched, by URL.
        var fetched: [String: [Key]] = [:]
        /// The key of every app that is not in ``rules``.
        var development: Key?

        func keys(of app: String) -> [Key] {
            guard let rules = rules[app] else { return development.map { [$0] } ?? [] }
            return (configured[app] ?? []) + (rules.keySetURL.flatMap { fetched[$0] } ?? [])
        }

        /// The URL of the key set that may have the key of a token, which is not among the known keys; nil if there is none.
        func keySetURL(for token: ParsedToken, of app: String) -> String? {
            guard let url = rules[app]?.keySetURL else { return nil }
            guard fetched[url] != nil else { return url }
            guard let id = token.header.kid else { return nil }
            return keys(of: app).contains { $0.key.id == id } ? nil : url
        }

        var keySetURLs: [String] { Set(rules.values.compactMap(\.keySetURL)).sorted() }
    }

    private let ring: NIOLockedValueBox<Ring>
    private let keySets: KeySetFetcher
    private let changed = NIOLockedValueBox<(@Sendable (UInt64) async -> Void)?>(nil)

    /// - Parameters:
    ///   - apps: the keys by app; several for one app while they are replaced.
    ///   - isDevelopment: whether to accept ``DevelopmentKey`` for every app without keys.
    ///   - keySets: fetches the key sets that `apps` name.
    init(apps: [String: TokenRules], isDevelopment: Bool, keySets: KeySetFetcher) async throws(ConfigurationError) {
        var first = Ring()
        (first.rules, first.configured) = (apps, try await Self.keys(of: apps))
        if isDevelopment {
            let secret = TokenKey.Material.secret(Array(DevelopmentKey.secret.utf8))
            first.development = try await Key(TokenKey(id: nil, source: "dev", material: secret))
        }
        ring = NIOLockedValueBox(first)
        self.keySets = keySets
    }

    /// A checker of tokens that fetches no key sets.
    ///
    /// - Parameters: as above.
    public convenience init(apps: [String: TokenRules], isDevelopment: Bool) async throws(ConfigurationError) {
        try await self.init(apps: apps, isDevelopment: isDevelopment, keySets: KeySetFetcher { _ in throw KeySetFetcher.notFetched })
    }

    private static func keys(of apps: [String: TokenRules]) async throws(ConfigurationError) -> [String: [Key]] {
        var keys: [String: [Key]] = [:]
        for (app, rules) in apps.sorted(by: { $0.key < $1.key }) {
            for key in rules.keys {
                do { keys[app, default: []].append(try await Key(key)) } catch {
                    throw ConfigurationError(setting: "jwt.\(app).\(error.setting)", problem: error.problem)
                }
            }
        }
        return keys
    }

    // MARK: Tokens

    /// The apps that have keys of their own now.
    var apps: Set<String> { ring.withLockedValue { Set($0.rules.keys) } }

    /// The version of the keys. A token that is checked from now on is checked with these keys or newer ones.
    var keysVersion: UInt64 { ring.withLockedValue { $0.version } }

    /// The rules for the tokens of an app.
    func rules(of app: String) -> TokenRules { ring.withLockedValue { $0.rules[app] } ?? TokenRules() }

    /// Checks a token and returns its caller. That takes about 50 µs; ``VerifiedTokens`` caches the result.
    ///
    /// A token that names an unknown key may wait for a key set that is being fetched, for at most ``KeySetFetcher/timeout``.
    public func check(_ token: [UInt8], at wall: Milliseconds) async -> Result<Caller, AuthenticationError> {
        do throws(AuthenticationError) {
            let token = try ParsedToken(token)
            try token.claims.checkNames()
            _ = try await signer(of: token)
            return .success(try token.claims.caller(rules(of: try token.claims.appID()), at: wall))
        } catch { return .failure(error) }
    }

    /// The key that has signed a token. Throws if no key of its app has.
    func signer(of token: ParsedToken) async throws(AuthenticationError) -> TokenKey {
        let app = try token.claims.appID()
        let known = ring.withLockedValue { $0 }
        do throws(AuthenticationError) { return try await Self.signer(of: token, app, in: known) } catch {
            guard let url = known.keySetURL(for: token, of: app) else { throw error }
            let isFailing = await refresh(url, notWithin: KeySetFetcher.pause)
            do throws(AuthenticationError) { return try await Self.signer(of: token, app, in: ring.withLockedValue { $0 }) } catch {
                guard isFailing else { throw error }
                throw AuthenticationError(reason: "the keys of app \"\(app)\" cannot be fetched now; retry later", isTemporary: true)
            }
        }
    }

    private static func signer(of token: ParsedToken, _ app: String, in ring: Ring) async throws(AuthenticationError) -> TokenKey {
        let all = ring.keys(of: app)
        guard !all.isEmpty else { throw AuthenticationError(reason: "no keys are configured for app \"\(app)\"") }
        var candidates = all
        if let id = token.header.kid {
            let named = all.filter { $0.key.id == id }
            // A key without an ID checks tokens of every ID.
            candidates = named.isEmpty ? all.filter { $0.key.id == nil } : named
            guard !candidates.isEmpty else { throw AuthenticationError(reason: "kid: no key of app \"\(app)\" has the ID of the token") }
        }
        // RFC 8725 §3.1: the key decides the algorithm, never the token.
        let fitting = candidates.filter { $0.key.algorithm == token.header.alg }
        guard !fitting.isEmpty else {
            let algorithms = Set(candidates.map(\.key.algorithm)).sorted().joined(separator: " or ")
            throw AuthenticationError(reason: "the token's alg is not \(algorithms), that of the keys of app \"\(app)\"")
        }
        for key in fitting {
            do {
                _ = try await key.keys.verify(token.bytes, as: TokenClaims.self)
                return key.key
            } catch { continue }  // The next key may be the one; no key at all is answered with 401.
        }
        throw AuthenticationError(reason: "the token is not signed by a key of app \"\(app)\"")
    }

    // MARK: Keys

    /// Calls `body` with each new version of the keys. The replacement of keys is complete when all calls have returned.
    func whenChanged(_ body: @escaping @Sendable (UInt64) async -> Void) { changed.withLockedValue { $0 = body } }

    /// Replaces the configured keys, then fetches all key sets. Throws if a key is invalid, and changes nothing then.
    func replace(_ apps: [String: TokenRules]) async throws(ConfigurationError) {
        let configured = try await Self.keys(of: apps)
        let version = ring.withLockedValue { ring in
            (ring.rules, ring.configured) = (apps, configured)
            let urls = Set(ring.keySetURLs)
            ring.fetched = ring.fetched.filter { urls.contains($0.key) }
            ring.version += 1
            return ring.version
        }
        await announce(version)
        await fetchKeySets()
    }

    private func announce(_ version: UInt64) async {
        guard let body = changed.withLockedValue({ $0 }) else { return }
        await body(version)
    }

    /// Fetches the key sets: all, or those whose time has come. A set that cannot be fetched keeps its keys.
    func fetchKeySets(onlyDue: Bool = false) async {
        let urls = ring.withLockedValue { $0.keySetURLs }
        await withTaskGroup(of: Void.self) { group in
            for url in urls {
                group.addTask {
                    let pause = onlyDue ? await self.keySets.regularPause(of: url) : .zero
                    _ = await self.refresh(url, notWithin: pause)
                }
            }
        }
    }

    /// Fetches a key set unless it was asked for within `pause`. Returns whether the last attempt has failed.
    private func refresh(_ url: String, notWithin pause: Duration) async -> Bool {
        await keySets.refresh(url, notWithin: pause) { [self] bytes in try await install(bytes, of: url) }
    }

    /// Uses the keys of a set. Throws if it has none that can check a token.
    private func install(_ bytes: [UInt8], of url: String) async throws {
        let set = try KeySet(bytes, source: "jwksUrl", allowsSecrets: false)
        var keys: [Key] = []
        for key in set.keys {
            do { keys.append(try await Key(key)) } catch { continue }  // Like a key of another kind.
        }
        guard !keys.isEmpty else { throw KeySet.Failure(description: "has no ES256 and no RS256 key that can check a token") }
        let found = keys
        let version = ring.withLockedValue { ring -> UInt64? in
            guard ring.keySetURLs.contains(url), ring.fetched[url].map({ Set($0.map(\.key)) }) != Set(found.map(\.key)) else { return nil }
            ring.fetched[url] = found
            ring.version += 1
            return ring.version
        }
        if let version { await announce(version) }
    }

    /// The keys of an app, as far as everybody may know them.
    func keys(of app: String) -> [TokenKey] { ring.withLockedValue { $0.keys(of: app) }.map(\.key) }
}

/// Makes tokens: `rollcall token`, the demo and the simulator.
public struct TokenMint: Sendable {
    private let keys: JWTKeyCollection

    /// - Parameter secret: the HS256 secret of the app; nil for the development key.
    public init(secret: String? = nil) async throws {
        keys = try await TokenKey.hs256(secret: secret ?? DevelopmentKey.secret).collection()
    }

    /// A token for `user` of `app`, valid for `seconds`.
    ///
    /// - Parameters:
    ///   - keyID: the `kid` of the header; nil for none.
    ///   - audience: the claim `aud`; nil for none.
    ///   - issuer: the claim `iss`; nil for none.
    public func token(
        user: String, app: String = "default", isAdmin: Bool = false, seconds: Int = 86_400, keyID: String? = nil, audience: String? = nil,
        issuer: String? = nil
    ) async throws -> String {
        let now = Date().timeIntervalSince1970
        let claims = TokenClaims(
            sub: .text(user), app: .text(app), role: isAdmin ? .text("admin") : nil, exp: .number(now.rounded(.down) + Double(seconds)),
            iat: .number((now * 1_000).rounded(.down) / 1_000), aud: audience.map { .text($0) }, iss: issuer.map { .text($0) })
        var header = JWTHeader()
        header.kid = keyID
        return try await keys.sign(claims, header: header)
    }
}
