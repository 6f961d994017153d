import Crypto
import Foundation

/// How two nodes prove to one another that they know the cluster's secret, without telling it: each answers the other's random number
/// with an HMAC-SHA256 (RFC 2104) over both numbers and what it says of itself. A recorded conversation proves nothing later.
///
/// The caller proves first. A stranger who calls gets a random number and nothing else: no name, and no proof by which the secret could be
/// guessed elsewhere.
///
/// Without a configured secret the key is that of the empty text, so a node with a secret and one without refuse each other too. What
/// follows on the link is protected by TLS only.
struct ClusterSecret: Sendable {
    /// Bytes of a random number and of a proof.
    static let bytesCount = 32

    /// Whose proof it is: one side's cannot be sent back as the other's.
    enum Side: String { case caller, listener }

    private let key: SymmetricKey

    init(_ secret: String?) { key = SymmetricKey(data: SHA256.hash(data: Data((secret ?? "").utf8))) }

    /// A random number for one conversation.
    static func nonce() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        // A system call for each eight bytes.
        return (0..<bytesCount / 8).flatMap { _ in withUnsafeBytes(of: random.next() as UInt64) { Array($0) } }
    }

    /// The proof of `side`, which said `hello`.
    func proof(_ side: Side, caller: [UInt8], listener: [UInt8], hello: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Self.text(side, caller, listener, hello), using: key))
    }

    /// Whether `proof` is that of somebody who knows the secret. Takes equally long for every wrong one.
    func isValid(_ proof: [UInt8], of side: Side, caller: [UInt8], listener: [UInt8], hello: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: Self.text(side, caller, listener, hello), using: key)
    }

    private static func text(_ side: Side, _ caller: [UInt8], _ listener: [UInt8], _ hello: [UInt8]) -> Data {
        var text = Data("rollcall link, \(side.rawValue)".utf8)
        for part in [caller, listener, hello] { text.append(contentsOf: part) }
        return text
    }
}
