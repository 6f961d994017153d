import PresenceCore
import PresenceWire

/// A verified token.
///
/// A connection keeps its last one. A comparison byte by byte costs a connection of one caller no lookup and no allocation.
final class VerifiedToken {
    /// The whole value of the `Authorization` field in which the token first came.
    let header: [UInt8]
    let caller: Caller
    /// The version of the keys that have verified the token. Under other keys it is checked again.
    let keysVersion: UInt64
    /// The refusal of the user's last login, and the time until which the next one is refused.
    var loginRefusal: LoginRates.Refusal?

    init(header: [UInt8], caller: Caller, keysVersion: UInt64) {
        self.header = header
        self.caller = caller
        self.keysVersion = keysVersion
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
        if bytes + cost > Self.bytesMax { removeAll() }
        if let replaced = tokens.updateValue(verified, forKey: token) {
            bytes -= token.count + replaced.header.count + Self.entryBytes
        }
        bytes += cost
    }

    /// Forgets all tokens, so that each is checked once more.
    mutating func removeAll() {
        tokens.removeAll(keepingCapacity: true)
        bytes = 0
    }
}
