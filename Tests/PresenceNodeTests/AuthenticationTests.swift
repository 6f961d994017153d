import Crypto
import Foundation
import JWTKit
import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct AuthenticationTests {
    let wall = Milliseconds(Date().timeIntervalSince1970 * 1_000)
    static let secretA = String(repeating: "a", count: 32)
    static let secretB = String(repeating: "b", count: 32)

    private func authenticator() async throws -> Authenticator {
        try await Authenticator(apps: ["a": [.hs256(secret: Self.secretA)], "b": [.hs256(secret: Self.secretB)]], isDevelopment: false)
    }

    private func check(_ token: String) async throws -> Result<Caller, AuthenticationError> {
        await (try await authenticator()).check(Array(token.utf8), at: wall)
    }

    @Test("A token names its caller") func caller() async throws {
        let token = try await TokenMint(secret: Self.secretA).token(user: "ann", app: "a", isAdmin: true)
        let caller = try await check(token).get()
        #expect(caller.user == UserID(app: "a", id: "ann"))
        #expect(caller.isAdmin)
    }

    @Test("A token of another app is refused") func otherApp() async throws {
        let token = try await TokenMint(secret: Self.secretB).token(user: "ann", app: "a")
        #expect(try await check(token) == .failure(AuthenticationError(reason: "the token is not signed by a key of app \"a\"")))
    }

    @Test("An expired token is refused") func expired() async throws {
        let token = try await TokenMint(secret: Self.secretA).token(user: "ann", app: "a", seconds: -10)
        #expect(try await check(token) == .failure(AuthenticationError(reason: "exp: the token has expired")))
    }

    @Test(
        "Junk and unsigned tokens are refused",
        arguments: ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJhcHAiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ."])
    func junk(token: String) async throws {
        let result = try await check(token)
        #expect(throws: AuthenticationError.self) { try result.get() }
    }

    @Test("Another spelling of a token is refused: padding, the other alphabet, unused bits, more dots") func spellings() async throws {
        // Five question marks have an underscore in Base64url. The signature has a digit of that alphabet in three of four tokens.
        var (token, number) = ("", 0)
        repeat {
            token = try await TokenMint(secret: Self.secretA).token(user: "ann?????\(number)", app: "a")
            number += 1
        } while token.split(separator: ".").dropFirst().contains(where: { !$0.contains("-") && !$0.contains("_") })
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let last = try #require(token.last.flatMap { digits.firstIndex(of: $0) })
        // A signature of 32 bytes leaves two bits of its last digit unused.
        let others = (1...3).map { String(token.dropLast()) + String(digits[last ^ $0]) }
        let parts = token.split(separator: ".").map(String.init)
        let padded = (0..<3).map { index in parts.enumerated().map { $0 == index ? $1 + "=" : $1 }.joined(separator: ".") }
        let alphabets = (1..<3).map { index in
            parts.enumerated().map { $0 == index ? $1.replacing("-", with: "+").replacing("_", with: "/") : $1 }.joined(separator: ".")
        }
        for spelling in others + padded + alphabets + ["\(token).", ".\(token)", "\(token) ", token.replacing(".", with: "..")] {
            let result = try await check(spelling)
            #expect(throws: AuthenticationError.self, "\(spelling)") { try result.get() }
        }
        #expect(await isTaken(token))
    }

    @Test("A name with a control character or 65 bytes is refused") func names() async throws {
        for user in ["a\u{0}b", String(repeating: "x", count: 65)] {
            let token = try await TokenMint(secret: Self.secretA).token(user: user, app: "a")
            let result = try await check(token)
            #expect(throws: AuthenticationError.self) { try result.get() }
        }
    }

    private func sign(_ claims: TokenClaims, header: JWTHeader = [:]) async throws -> String {
        try await TokenKey.hs256(secret: Self.secretA).collection().sign(claims, header: header)
    }

    @Test("A time beyond all bounds counts as the far future") func farFuture() async throws {
        var claims = TokenClaims(sub: .text("ann"), app: .text("a"), exp: .number(1e300))
        #expect(try await check(try await sign(claims)).get().expiresAt == .max)
        claims.nbf = .number(1e300)
        #expect(try await check(try await sign(claims)) == .failure(AuthenticationError(reason: "nbf: the token is not valid yet")))
    }

    @Test(
        "A token is valid from 5 s before nbf until 5 s after exp, and iat may be 60 s ahead",
        arguments: [
            ("nbf", 5, true), ("nbf", 7, false), ("exp", -4, true), ("exp", -6, false), ("iat", 59, true), ("iat", 62, false),
            ("iat", -400, true),
        ] as [(String, Double, Bool)])
    func leeway(claim: String, ahead: Double, isTaken: Bool) async throws {
        let time = Claim.number(Double(wall / 1_000) + ahead)
        var claims = TokenClaims(sub: .text("ann"), app: .text("a"), exp: .number(Double(wall / 1_000) + 600))
        switch claim {
        case "nbf": claims.nbf = time
        case "exp": claims.exp = time
        default: claims.iat = time
        }
        let result = try await check(try await sign(claims))
        #expect(((try? result.get()) != nil) == isTaken, "\(result)")
        if case .failure(let error) = result { #expect(error.reason.hasPrefix("\(claim): ")) }
    }

    @Test("A token with a critical extension is refused") func critical() async throws {
        let claims = TokenClaims(sub: .text("ann"), app: .text("a"), exp: .number(Date().timeIntervalSince1970 + 60))
        let token = try await sign(claims, header: ["crit": ["b64"]])
        #expect(
            try await check(token) == .failure(AuthenticationError(reason: "the token's header calls extensions critical")))
    }

    /// RFC 8725 §3.1: the algorithm is the key's, whatever the signature is worth.
    @Test(
        "A token of another algorithm than the key's is refused even if its signature is right",
        arguments: [#""none""#, #""xyz""#, #""hs256""#, #""HS512""#, #""ES256""#, #""""#, "1", "null"], ["", #","kid":"k""#])
    func algorithm(algorithm: String, more: String) async throws {
        let claims = #"{"sub":"ann","app":"a","exp":9999999999}"#
        let head = #"{"alg":\#(algorithm),"typ":"JWT"\#(more)}"#
        #expect(await isTaken(Self.signed(head, claims)) == false)
        #expect(await isTaken(Self.signed(#"{"typ":"JWT"\#(more)}"#, claims)) == false)
        #expect(await isTaken(Self.signed(#"{"alg":"HS256"\#(more)}"#, claims)), "signed like the others")
    }

    @Test("The reason names the algorithms of the app's keys and nothing of the token") func reason() async throws {
        let token = Self.signed(#"{"alg":"none\n"}"#, #"{"sub":"ann","app":"a","exp":9999999999}"#)
        #expect(
            try await check(token) == .failure(AuthenticationError(reason: "the token's alg is not HS256, that of the keys of app \"a\"")))
    }

    private func isTaken(_ token: String) async -> Bool { (try? await check(token).get()) != nil }

    /// With the HMAC-SHA-256 of app "a", whatever `head` says.
    private static func signed(_ head: String, _ claims: String) -> String {
        let text = [head, claims].map { base64($0.utf8) }.joined(separator: ".")
        let key = SymmetricKey(data: Data(secretA.utf8))
        return text + "." + base64(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }

    private static func base64(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    @Test("An invalid key is refused", arguments: [TokenKey.es256(publicPEM: "no key"), .rs256(publicPEM: "no key")]) func invalidKey(
        key: TokenKey
    ) async {
        await #expect(throws: ConfigurationError.self) { _ = try await key.collection() }
    }

    @Test("A short secret is refused") func shortSecret() async {
        await #expect(throws: ConfigurationError.self) {
            try await Authenticator(apps: ["a": [.hs256(secret: "short")]], isDevelopment: false)
        }
    }
}
