import Crypto
import Foundation
import JWTKit
import NIOPosix
import PresenceCore
import PresenceWire
import Synchronization
import Testing

@testable import PresenceNode

/// Several keys of an app, key sets, and what tokens must say besides (<doc:HTTPAPI#Callers-and-tokens>).
@Suite struct TokenKeysTests {
    private let wall = Milliseconds(Date().timeIntervalSince1970 * 1_000)
    private static let secrets = ["a", "b", "c"].map { String(repeating: $0, count: 32) }

    /// The server of a key set.
    private final class Server: Sendable {
        /// The time of the fetcher, which only a test moves.
        private let now = Mutex(ContinuousClock.now)
        private let state = Mutex((text: "", isFailing: false, requestsCount: 0))

        init(_ text: String) { set(text) }

        func set(_ text: String, isFailing: Bool = false) {
            state.withLock { ($0.text, $0.isFailing) = (text, isFailing) }
        }

        var requestsCount: Int { state.withLock { $0.requestsCount } }

        func pass(_ time: Duration) { now.withLock { $0 += time } }

        func fetcher() -> KeySetFetcher {
            KeySetFetcher(now: { [self] in now.withLock { $0 } }) { [self] _ in
                try state.withLock { state in
                    state.requestsCount += 1
                    if state.isFailing { throw KeySet.Failure(description: "the server answered 500") }
                    return Array(state.text.utf8)
                }
            }
        }
    }

    private static func base64URL(_ data: some DataProtocol) -> String {
        Data(data).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private static func jwk(_ key: P256.Signing.PrivateKey, id: String, _ more: String = "") -> String {
        let point = key.publicKey.rawRepresentation
        let (x, y) = (base64URL(point.prefix(32)), base64URL(point.suffix(32)))
        return #"{"kty":"EC","crv":"P-256","kid":"\#(id)","x":"\#(x)","y":"\#(y)"\#(more)}"#
    }

    private static func set(_ keys: [String]) -> String { "{\"keys\":[\(keys.joined(separator: ","))]}" }

    /// A token of `ann` of app `a`.
    private static func token(_ key: P256.Signing.PrivateKey, id: String?) throws -> [UInt8] {
        let header = id.map { #"{"alg":"ES256","kid":"\#($0)"}"# } ?? #"{"alg":"ES256"}"#
        let text = [header, #"{"sub":"ann","app":"a","exp":9999999999}"#].map { base64URL(Data($0.utf8)) }.joined(separator: ".")
        return Array("\(text).\(base64URL(try key.signature(for: Data(text.utf8)).rawRepresentation))".utf8)
    }

    private static func token(_ secret: String, id: String? = nil, audience: String? = nil, issuer: String? = nil) async throws -> [UInt8] {
        let mint = try await TokenMint(secret: secret)
        return Array(try await mint.token(user: "ann", app: "a", keyID: id, audience: audience, issuer: issuer).utf8)
    }

    /// Why a token is refused; nil if it is accepted.
    private func refusal(_ authenticator: Authenticator, _ token: [UInt8]) async -> AuthenticationError? {
        if case .failure(let error) = await authenticator.check(token, at: wall) { error } else { nil }
    }

    // MARK: Keys

    @Test("An old and a new secret are valid side by side, and a removed one is not") func rotation() async throws {
        let authenticator = try await Authenticator(
            apps: ["a": [.hs256(secret: Self.secrets[0]), .hs256(secret: Self.secrets[1])]], isDevelopment: false)
        let (old, new) = (try await Self.token(Self.secrets[0]), try await Self.token(Self.secrets[1]))
        let version = authenticator.keysVersion
        for token in [old, new] { #expect(await refusal(authenticator, token) == nil) }
        let announced = Mutex<[UInt64]>([])
        authenticator.whenChanged { version in announced.withLock { $0.append(version) } }
        try await authenticator.replace(["a": [.hs256(secret: Self.secrets[1])]])
        #expect(authenticator.keysVersion == version + 1 && announced.withLock { $0 } == [version + 1])
        #expect(await refusal(authenticator, old)?.reason == "the token is not signed by a key of app \"a\"")
        #expect(await refusal(authenticator, new) == nil)
        await #expect(throws: ConfigurationError.self) { try await authenticator.replace(["a": [.hs256(secret: "short")]]) }
        #expect(authenticator.keysVersion == version + 1)
        #expect(await refusal(authenticator, new) == nil, "an invalid key changes nothing")
    }

    @Test("kid chooses the key, and a key without an ID checks tokens of every ID") func keyID() async throws {
        let authenticator = try await Authenticator(
            apps: ["a": [.hs256(secret: Self.secrets[0], id: "one"), .hs256(secret: Self.secrets[1], id: "two")]], isDevelopment: false)
        #expect(await refusal(authenticator, try await Self.token(Self.secrets[0], id: "one")) == nil)
        #expect(await refusal(authenticator, try await Self.token(Self.secrets[1])) == nil, "without kid all keys are tried")
        let wrong = await refusal(authenticator, try await Self.token(Self.secrets[0], id: "two"))
        #expect(wrong?.reason == "the token is not signed by a key of app \"a\"")
        let unknown = await refusal(authenticator, try await Self.token(Self.secrets[0], id: "three"))
        #expect(unknown == AuthenticationError(reason: "kid: no key of app \"a\" has the ID of the token"))
        try await authenticator.replace(["a": [.hs256(secret: Self.secrets[0]), .hs256(secret: Self.secrets[1], id: "two")]])
        #expect(await refusal(authenticator, try await Self.token(Self.secrets[0], id: "three")) == nil)
    }

    @Test("Of several audiences and issuers a token needs one, and others are named") func audience() async throws {
        var rules: TokenRules = [.hs256(secret: Self.secrets[0])]
        (rules.audiences, rules.issuers) = (["chat", "shop"], ["https://idp.example"])
        let authenticator = try await Authenticator(apps: ["a": rules], isDevelopment: false)
        let token = { (audience: String?, issuer: String?) in
            try await Self.token(Self.secrets[0], audience: audience, issuer: issuer)
        }
        #expect(await refusal(authenticator, try await token("shop", "https://idp.example")) == nil)
        for (audience, issuer, reason) in [
            ("game", "https://idp.example", "aud: is for another audience; it must be \"chat\" or \"shop\""),
            (nil, "https://idp.example", "aud: is missing; it must be \"chat\" or \"shop\", or a list with it"),
            ("chat", "https://evil.example", "iss: is another issuer; it must be \"https://idp.example\""),
            ("chat", nil, "iss: is missing; it must be \"https://idp.example\""),
        ] as [(String?, String?, String)] {
            #expect(await refusal(authenticator, try await token(audience, issuer))?.reason == reason)
        }
        var claims = TokenClaims(sub: .text("ann"), app: .text("a"), exp: .number(9_999_999_999), iss: .text("https://idp.example"))
        claims.aud = .texts(["game", "chat"])
        let keys = try await TokenKey.hs256(secret: Self.secrets[0]).collection()
        #expect(await refusal(authenticator, Array(try await keys.sign(claims).utf8)) == nil)
    }

    // MARK: Key sets

    @Test("A key set gives its ES256, RS256 and HS256 keys, and keys of other kinds are ignored") func keySet() throws {
        let key = P256.Signing.PrivateKey()
        let others = [
            #"{"kty":"RSA","n":"abcd","e":"AQAB","kid":"r"}"#, #"{"kty":"oct","k":"YWJj","kid":"o"}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"YQ"}"#,
            #"{"kty":"EC","crv":"P-384","x":"YQ","y":"YQ"}"#, Self.jwk(key, id: "enc", #","use":"enc""#),
            Self.jwk(key, id: "alg", #","alg":"ES384""#), Self.jwk(key, id: "ops", #","key_ops":["sign"]"#), "7",
        ]
        let text = Array(Self.set([Self.jwk(key, id: "one", #","use":"sig","alg":"ES256","key_ops":["verify"]"#)] + others).utf8)
        let file = try KeySet(text, source: "jwksFile", allowsSecrets: true)
        #expect(file.keys.map(\.id) == ["one", "r", "o"] && file.ignoredCount == 6)
        #expect(file.keys.map(\.algorithm) == ["ES256", "RS256", "HS256"])
        #expect(try KeySet(text, source: "jwksUrl", allowsSecrets: false).keys.map(\.id) == ["one", "r"])
    }

    @Test("A key set has limits in bytes and keys", arguments: [(100, 0, true), (101, 0, false), (1, 256 << 10, false)])
    func keySetLimits(keysCount: Int, blanks: Int, isAccepted: Bool) {
        let text = Self.set(Array(repeating: "{}", count: keysCount)) + String(repeating: " ", count: blanks)
        let set = try? KeySet(Array(text.utf8), source: "jwksUrl", allowsSecrets: false)
        #expect((set != nil) == isAccepted)
    }

    private func authenticator(_ server: Server) async throws -> Authenticator {
        var rules = TokenRules()
        rules.keySetURL = "https://idp.example/keys"
        return try await Authenticator(apps: ["a": rules], isDevelopment: false, keySets: server.fetcher())
    }

    @Test("Tokens with unknown keys have a key set fetched once in a while, however many they are") func unknownKeys() async throws {
        let (one, two) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let server = Server(Self.set([Self.jwk(one, id: "one")]))
        let authenticator = try await authenticator(server)
        // Nobody has fetched the set. The first token does.
        #expect(await refusal(authenticator, try Self.token(one, id: "one")) == nil)
        let unknown = try Self.token(two, id: "two")
        await withTaskGroup(of: AuthenticationError?.self) { group in
            for _ in 0..<100 { group.addTask { await refusal(authenticator, unknown) } }
            for await refusal in group { #expect(refusal?.reason.hasPrefix("kid: ") == true && refusal?.isTemporary == false) }
        }
        #expect(server.requestsCount == 1)
        server.set(Self.set([Self.jwk(one, id: "one"), Self.jwk(two, id: "two")]))
        #expect(await refusal(authenticator, unknown) != nil && server.requestsCount == 1)
        server.pass(KeySetFetcher.pause)
        #expect(await refusal(authenticator, unknown) == nil && server.requestsCount == 2)
        // A token with a known key and a wrong signature is no reason to fetch.
        _ = await refusal(authenticator, try Self.token(two, id: "one"))
        #expect(server.requestsCount == 2)
    }

    @Test("A key set that cannot be fetched keeps its last keys, and a removed key is refused") func failingServer() async throws {
        let (one, two) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let server = Server("")
        server.set("", isFailing: true)
        let authenticator = try await authenticator(server)
        let first = try Self.token(one, id: "one")
        #expect(await refusal(authenticator, first)?.isTemporary == true)
        server.set(Self.set([Self.jwk(one, id: "one")]))
        await authenticator.fetchKeySets()
        let version = authenticator.keysVersion
        #expect(await refusal(authenticator, first) == nil && version == 1)
        for text in ["", "{}", #"{"keys":[]}"#] {
            server.set(text, isFailing: text.isEmpty)
            await authenticator.fetchKeySets()
            #expect(await refusal(authenticator, first) == nil && authenticator.keysVersion == version)
        }
        let unknown = await refusal(authenticator, try Self.token(two, id: "two"))
        #expect(unknown?.isTemporary == true && unknown?.reason == "the keys of app \"a\" cannot be fetched now; retry later")
        server.set(Self.set([Self.jwk(two, id: "two")]))
        await authenticator.fetchKeySets()
        #expect(await refusal(authenticator, first)?.reason.hasPrefix("kid: ") == true && authenticator.keysVersion == version + 1)
        #expect(await refusal(authenticator, try Self.token(two, id: "two")) == nil)
        await authenticator.fetchKeySets()
        #expect(authenticator.keysVersion == version + 1, "the same keys are no change")
    }

    // MARK: Reports

    private func report(_ claims: String, _ rules: TokenRules? = nil) async throws -> TokenReport {
        let key = P256.Signing.PrivateKey()
        let text = [#"{"alg":"ES256"}"#, claims].map { Self.base64URL(Data($0.utf8)) }.joined(separator: ".")
        let token = Array("\(text).\(Self.base64URL(try key.signature(for: Data(text.utf8)).rawRepresentation))".utf8)
        let known = TokenRules(keys: [.es256(publicPEM: key.publicKey.pemRepresentation)])
        return await (try await Authenticator(apps: ["a": rules ?? known], isDevelopment: false)).report(token, at: wall)
    }

    @Test("A report says what the node says of each claim") func claims() async throws {
        let good = try await report(#"{"sub":"ann","app":"a","exp":9999999999,"jti":"x","aud":["y"],"nested":{"b":1}}"#)
        #expect(good.refusal == nil && good.user?.id == "ann")
        #expect(good.lines.map(\.name) == ["alg", "signature", "sub", "app", "role", "exp", "nbf", "iat", "aud", "iss", "jti", "nested"])
        #expect(
            good.lines.map(\.verdict) == [
                .accepted, .accepted, .accepted, .accepted, .absent, .accepted, .absent, .absent, .unread, .absent, .unread, .unread,
            ])
        let bad = try await report(#"{"sub":7,"app":"a","exp":1,"nbf":9999999999,"iat":"soon"}"#)
        #expect(bad.refusal == "sub: is a number; it must be a text")
        let refused = bad.lines.filter { $0.verdict == .refused }
        #expect(
            refused.map(\.note) == [
                "sub: is a number; it must be a text", "exp: the token has expired", "nbf: the token is not valid yet",
                "iat: is a text; it must be a number of seconds",
            ])
        #expect(refused.map(\.value) == ["7", "1", "9999999999", "\"soon\""])
        let foreign = try await report(#"{"sub":"ann","app":"a","exp":9999999999}"#, [.hs256(secret: Self.secrets[0])])
        #expect(foreign.refusal == "the token's alg is not HS256, that of the keys of app \"a\"")
        #expect(foreign.lines.filter { $0.verdict == .refused }.map(\.name) == ["alg", "signature"])
        #expect(TokenReport.ofClaims("junk").refusal?.contains("three parts") == true)
    }

    // MARK: Logs

    @Test(
        "The line of a refusal has nothing that the caller wrote",
        arguments: [
            ("node: \"eyJhbGciOiJIUzI1NiJ9\" is not a member", "node: \"…\" is not a member"), ("userIDs: is empty", "userIDs: is empty"),
            ("settings.mark-of-the-key-of-the-app: no such setting", "…: no such setting"), ("open \"quote", "open \"…"),
        ])
    func masked(text: String, masked: String) {
        #expect(RefusalLine.masked(text) == masked)
    }

    @Test("The description of a key has nothing of the key") func description() {
        #expect("\(TokenKey.hs256(secret: Self.secrets[0], id: "k"))" == "HS256 key \"k\" of hs256")
    }
}
