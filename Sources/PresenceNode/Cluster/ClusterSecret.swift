import Crypto
import Foundation

/// The proofs by which two nodes show one another that they know the cluster's secret, without sending the secret.
///
/// Each side answers the other's random number with an HMAC-SHA256 (RFC 2104) over both numbers and its own hello. A recorded exchange
/// is useless later.
///
/// The caller proves first. A stranger who calls gets only a random number: no name, and no proof with which the secret could be guessed.
///
/// Without a configured secret the key is that of the empty text, so that a node with a secret and a node without refuse each other.
/// Only TLS protects the messages that follow on the link.
struct ClusterSecret: Sendable {
    /// Bytes of a random number and of a proof.
    static let bytesCount = 32

    /// The side of a proof. The proof of one side is not valid for the other.
    enum Side: String { case caller, listener }

    private let key: SymmetricKey

    init(_ secret: String?) { key = SymmetricKey(data: SHA256.hash(data: Data((secret ?? "").utf8))) }

    /// Returns a random number for one exchange.
    static func nonce() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        // Each eight bytes are one system call.
        return (0..<bytesCount / 8).flatMap { _ in withUnsafeBytes(of: random.next() as UInt64) { Array($0) } }
    }

    /// Returns the proof of `side` for its `hello`.
    func proof(_ side: Side, caller: [UInt8], listener: [UInt8], hello: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Self.text(side, caller, listener, hello), using: key))
    }

    /// Whether `proof` was made with the secret. Takes the same time for every wrong proof.
    func isValid(_ proof: [UInt8], of side: Side, caller: [UInt8], listener: [UInt8], hello: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: Self.text(side, caller, listener, hello), using: key)
    }

    private static func text(_ side: Side, _ caller: [UInt8], _ listener: [UInt8], _ hello: [UInt8]) -> Data {
        var text = Data("rollcall link, \(side.rawValue)".utf8)
        for part in [caller, listener, hello] { text.append(contentsOf: part) }
        return text
    }
}
