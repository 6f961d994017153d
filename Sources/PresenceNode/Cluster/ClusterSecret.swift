import Crypto
import Foundation
import PresenceWire

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

/// The proof that an operator who asks for a backup knows the cluster's secret. A backup has the users of all apps, and a token of role
/// `admin` is that of one app.
public struct BackupProof: Sendable {
    /// Most that the time of a proof may differ from the node's clock, in milliseconds.
    static let toleranceMax: Milliseconds = 60_000

    private let key: SymmetricKey

    /// - Parameter secret: `clusterSecret` of the nodes; nil for none.
    public init(secret: String?) { key = SymmetricKey(data: SHA256.hash(data: Data("rollcall backup, \(secret ?? "")".utf8))) }

    /// The parameters `time` and `proof` of a request that is sent now.
    public func query() -> String {
        let time = Clock.now().wall
        return "time=\(time)&proof=\(Hexadecimal.text(of: code(at: time)))"
    }

    /// Why a request with these parameters proves nothing; nil if it proves that the caller knows the secret.
    func problem(of parameters: [String: String], at wall: Milliseconds) -> String? {
        guard let text = parameters["time"], let time = Milliseconds(text), let proof = parameters["proof"] else {
            return "time and proof: are missing; `rollcall backup` makes them with the cluster's secret"
        }
        // Any number may be asked with, so no difference is formed.
        guard time >= wall - Self.toleranceMax, time <= wall + Self.toleranceMax else {
            return "time: differs from the node's clock by more than 60 s"
        }
        guard let bytes = Hexadecimal.bytes(of: proof),
            HMAC<SHA256>.isValidAuthenticationCode(bytes, authenticating: Self.text(time), using: key)
        else { return "proof: was not made with the cluster's secret" }
        return nil
    }

    private func code(at time: Milliseconds) -> [UInt8] { Array(HMAC<SHA256>.authenticationCode(for: Self.text(time), using: key)) }
    private static func text(_ time: Milliseconds) -> Data { Data("GET /admin/v1/backup \(time)".utf8) }
}

private enum Hexadecimal {
    static func text(of bytes: [UInt8]) -> String {
        var digits: [UInt8] = []
        for byte in bytes { Hex.append(UInt64(byte), digits: 2, to: &digits) }
        return String(decoding: digits, as: UTF8.self)
    }

    /// Nil for a text that is not pairs of digits.
    static func bytes(of text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0, digits.count <= 2 * ClusterSecret.bytesCount else { return nil }
        var bytes: [UInt8] = []
        for start in stride(from: 0, to: digits.count, by: 2) {
            let value = digits.withUnsafeBufferPointer { Hex.value(of: $0[start..<start + 2]) }
            guard let value else { return nil }
            bytes.append(UInt8(value))
        }
        return bytes
    }
}
