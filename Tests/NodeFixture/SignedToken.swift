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

/// Base64 for URLs, without padding (RFC 4648 §5).
private func base64URL(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}
