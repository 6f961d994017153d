import Foundation
import JWTKit
import PresenceWire

/// A key that signs, or only checks, the tokens of an app.
public struct TokenKey: Sendable, Hashable, CustomStringConvertible {
    /// The key itself.
    enum Material: Hashable, Sendable {
        case secret([UInt8])
        case es256PEM(String)
        case rs256PEM(String)
        /// The coordinates of a point on P-256, in Base64url.
        case es256(x: String, y: String)
        /// In Base64url.
        case rs256(modulus: String, exponent: String)
    }

    /// The `kid` of its tokens; nil for a key that checks tokens of any `kid`.
    let id: String?
    /// The setting that has the key, for people.
    let source: String
    let material: Material

    /// A shared secret of at least 32 bytes.
    public static func hs256(secret: String, id: String? = nil) -> TokenKey {
        TokenKey(id: id, source: "hs256", material: .secret(Array(secret.utf8)))
    }

    /// A P-256 key, PEM.
    public static func es256(publicPEM: String, id: String? = nil) -> TokenKey {
        TokenKey(id: id, source: "es256PublicKeyFile", material: .es256PEM(publicPEM))
    }

    /// An RSA key of at least 2048 bits, PEM.
    public static func rs256(publicPEM: String, id: String? = nil) -> TokenKey {
        TokenKey(id: id, source: "rs256PublicKeyFile", material: .rs256PEM(publicPEM))
    }

    /// The only algorithm of the key: `alg` in a token's header (RFC 7518 §3.1).
    var algorithm: String {
        switch material {
        case .secret: "HS256"
        case .es256PEM, .es256: "ES256"
        case .rs256PEM, .rs256: "RS256"
        }
    }

    /// Nothing of the key itself: a log may have it.
    public var description: String { id.map { "\(algorithm) key \"\($0)\" of \(source)" } ?? "\(algorithm) key of \(source)" }

    /// Makes the collection for checks. Throws if the key is too short or not a key.
    func collection() async throws(ConfigurationError) -> JWTKeyCollection {
        let keys = JWTKeyCollection()
        switch material {
        case .secret(let secret):
            guard secret.count >= 32 else { throw problem("the secret has \(secret.count) bytes; it needs at least 32") }
            await keys.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256)
        case .es256PEM(let pem):
            guard let key = try? ES256PublicKey(pem: pem) else { throw problem("holds no P-256 public key in PEM") }
            await keys.add(ecdsa: key)
        case .es256(let x, let y):
            guard let key = try? ES256PublicKey(parameters: (x: x, y: y)) else { throw problem("x and y are no point on P-256") }
            await keys.add(ecdsa: key)
        case .rs256PEM(let pem):
            guard let key = try? Insecure.RSA.PublicKey(pem: pem) else {
                throw problem("holds no RSA public key of at least 2048 bits in PEM")
            }
            await keys.add(rsa: key, digestAlgorithm: .sha256)
        case .rs256(let modulus, let exponent):
            guard let key = try? Insecure.RSA.PublicKey(modulus: modulus, exponent: exponent) else {
                throw problem("n and e are no RSA public key of at least 2048 bits")
            }
            await keys.add(rsa: key, digestAlgorithm: .sha256)
        }
        return keys
    }

    private func problem(_ text: String) -> ConfigurationError {
        ConfigurationError(setting: source, problem: id.map { "key \"\($0)\": \(text)" } ?? text)
    }
}

/// A JSON Web Key Set (RFC 7517).
struct KeySet {
    /// Most bytes of a set.
    static let bytesMax = 256 << 10
    /// Most keys of a set. A check of a token without `kid` may try all.
    static let keysMax = 100
    /// Most characters of the modulus of an RSA key: 8192 bits in Base64url.
    private static let modulusLengthMax = 1_366

    /// A text that is not a key set.
    struct Failure: Error, CustomStringConvertible { let description: String }

    private(set) var keys: [TokenKey] = []
    /// The keys of other kinds, and those for encryption. RFC 7517 §5 says to ignore them.
    private(set) var ignoredCount = 0

    /// - Parameters:
    ///   - source: the setting that names the set.
    ///   - allowsSecrets: whether the set may have HS256 secrets. Those of a URL would be known to everybody who reads it.
    init(_ bytes: [UInt8], source: String, allowsSecrets: Bool) throws(Failure) {
        guard bytes.count <= Self.bytesMax else {
            throw Failure(description: "has \(bytes.count) bytes; at most \(Self.bytesMax) are allowed")
        }
        let json: JSONValue
        do { json = try JSONReader.read(bytes) } catch { throw Failure(description: "is not JSON: \(error)") }
        guard case .array(let members)? = json["keys"] else {
            throw Failure(description: "is not a JSON Web Key Set: it has no list \"keys\"")
        }
        guard members.count <= Self.keysMax else {
            throw Failure(description: "has \(members.count) keys; at most \(Self.keysMax) are allowed")
        }
        for member in members {
            if let key = Self.key(member, source: source, allowsSecrets: allowsSecrets) { keys.append(key) } else { ignoredCount += 1 }
        }
    }

    private static func key(_ json: JSONValue, source: String, allowsSecrets: Bool) -> TokenKey? {
        let text = { (name: String) -> String? in if case .string(let text)? = json[name] { text } else { nil } }
        if let use = text("use"), use != "sig" { return nil }
        if case .array(let operations)? = json["key_ops"], !operations.contains(.string("verify")) { return nil }
        let material: TokenKey.Material
        switch text("kty") {
        case "EC":
            guard text("crv") == "P-256", let x = text("x"), let y = text("y") else { return nil }
            material = .es256(x: x, y: y)
        case "RSA":
            guard let modulus = text("n"), let exponent = text("e"), modulus.utf8.count <= modulusLengthMax else { return nil }
            material = .rs256(modulus: modulus, exponent: exponent)
        case "oct":
            guard allowsSecrets, let secret = text("k").flatMap({ bytes(ofBase64URL: $0) }) else { return nil }
            material = .secret(secret)
        default: return nil
        }
        let key = TokenKey(id: text("kid"), source: source, material: material)
        if let algorithm = text("alg"), algorithm != key.algorithm { return nil }
        return key
    }

    /// The bytes of a text in Base64url without padding; nil for another text.
    static func bytes(ofBase64URL text: String) -> [UInt8]? {
        guard Base64.isCanonicalURLText(text.utf8) else { return nil }
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return Base64.bytes(of: String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }) + padding)
    }
}

/// The keys of an app, and what its tokens must say besides.
public struct TokenRules: Sendable, Equatable, ExpressibleByArrayLiteral {
    /// Keys that the configuration has. Several may be in use at a time.
    public var keys: [TokenKey]
    /// The URL of a JSON Web Key Set with further keys; nil for none.
    public var keySetURL: String?
    /// The values of `aud` that are accepted; none if `aud` is not read.
    public var audiences: [String] = []
    /// The values of `iss` that are accepted; none if `iss` is not read.
    public var issuers: [String] = []

    /// Rules with these keys and no others.
    public init(arrayLiteral keys: TokenKey...) { self.keys = keys }

    /// Rules with these keys and no others.
    public init(keys: [TokenKey] = []) { self.keys = keys }
}
