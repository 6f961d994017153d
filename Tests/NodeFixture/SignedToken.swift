import Crypto
import Foundation

/// The key of `rollcall serve --dev`, which everybody knows.
package let developmentSecret = "rollcall development key, never in earnest!"

private struct Claims: Encodable {
    let sub: String
    let app: String
    let role: String?
    let exp: Int
    let iat: Double
}

/// A token for `user` of `app`, signed with HS256 (<doc:HTTPAPI#Callers-and-tokens>).
///
/// - Parameters:
///   - seconds: the time for which it is valid.
///   - age: how long ago it was made, in seconds.
package func signedToken(
    user: String, app: String = "default", isAdmin: Bool = false, seconds: Int = 86_400, age: Int = 0, secret: String = developmentSecret
) throws -> String {
    let now = Date().timeIntervalSince1970
    let claims = Claims(
        sub: user, app: app, role: isAdmin ? "admin" : nil, exp: Int(now) + seconds, iat: (now * 1_000).rounded(.down) / 1_000 - Double(age)
    )
    return signedToken(claims: try JSONEncoder().encode(claims), secret: secret)
}

/// A token with any claims, signed with HS256.
///
/// - Parameter claims: a JSON object.
package func signedToken(claims: Data, secret: String = developmentSecret) -> String {
    let signed = base64URL(Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8)) + "." + base64URL(claims)
    let code = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return signed + "." + base64URL(Data(code))
}

/// An ES256 key of an identity provider, with its ID.
package struct ProviderKey: Sendable {
    private let key = P256.Signing.PrivateKey()
    private let id: String

    package init(_ id: String) { self.id = id }

    /// A token for `user` of `app` that names this key.
    package func token(user: String, app: String) throws -> String {
        let end = Int(Date().timeIntervalSince1970) + 600
        let parts = [#"{"alg":"ES256","typ":"JWT","kid":"\#(id)"}"#, #"{"sub":"\#(user)","app":"\#(app)","exp":\#(end)}"#]
        let text = parts.map { base64URL(Data($0.utf8)) }.joined(separator: ".")
        return "\(text).\(base64URL(try key.signature(for: Data(text.utf8)).rawRepresentation))"
    }

    /// The JSON Web Key Set of keys.
    package static func set(_ keys: [ProviderKey]) -> String {
        let members = keys.map { one in
            let point = one.key.publicKey.rawRepresentation
            let (x, y) = (base64URL(Data(point.prefix(32))), base64URL(Data(point.suffix(32))))
            return #"{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"\#(one.id)","x":"\#(x)","y":"\#(y)"}"#
        }
        return "{\"keys\":[\(members.joined(separator: ","))]}"
    }
}

/// Base64 for URLs, without padding (RFC 4648 §5).
private func base64URL(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}
