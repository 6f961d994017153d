import HTTP2
import PresenceCore
import PresenceWire

/// A connection as ``Callers`` uses it: it keeps the last token that it received.
protocol TokenConnection: AnyObject {
    var applicationState: AnyObject? { get set }
}

extension HTTPServerConnection: TokenConnection {}

/// The callers of one event loop: verified tokens, and refused logins and tickets.
struct Callers {
    private var tokens = VerifiedTokens()
    var refusedTickets = RefusedTickets()
    /// The version of the keys whose tokens are known here.
    private var keysVersion: UInt64 = 0

    init() {}

    /// The keys were replaced: each token is checked once more, with the new ones.
    mutating func keysChanged(to version: UInt64) {
        guard version > keysVersion else { return }
        keysVersion = version
        tokens.removeAll()
    }

    /// The caller of a token that was verified before, on this connection or on this loop.
    mutating func caller(
        of header: UnsafeBufferPointer<UInt8>, on connection: some TokenConnection, at now: Now, _ voidTokens: VoidTokens
    ) -> Caller? {
        if let known = connection.applicationState as? VerifiedToken, header.equals(known.header), known.keysVersion == keysVersion,
            !known.caller.isExpired(at: now.wall), !voidTokens.isVoid(known.caller.user, issuedAt: known.caller.issuedAt)
        {
            return known.caller
        }
        guard let text = Self.token(in: header), let token = tokens.token(text, at: now.wall),
            !voidTokens.isVoid(token.caller.user, issuedAt: token.caller.issuedAt)
        else { return nil }
        connection.applicationState = token
        return token.caller
    }

    /// Bytes of the verified tokens that this loop keeps.
    var bytes: Int { tokens.bytes }

    private static let prefix = Array("bearer ".utf8)

    /// The bytes behind the word `Bearer` and one or more blanks (RFC 9110 §11.4); nil for another value of an `Authorization` field.
    private static func token(in header: some Collection<UInt8>) -> [UInt8]? {
        guard header.count > prefix.count, zip(header, prefix).allSatisfy({ $0 | 0x20 == $1 | 0x20 }) else { return nil }
        let token = header.dropFirst(prefix.count).drop { $0 == UInt8(ascii: " ") }
        return token.isEmpty ? nil : Array(token)
    }

    /// The token in the value of an `Authorization` field.
    static func bearerToken(in header: [UInt8]) throws(Problem) -> [UInt8] {
        guard let token = token(in: header) else {
            throw .notLoggedIn(
                header.isEmpty ? "no Authorization header; send \"Authorization: Bearer <JWT>\"" : "Authorization must be \"Bearer <JWT>\"")
        }
        return token
    }

    /// Keeps a checked token if it is valid. Returns its caller.
    ///
    /// - Parameters:
    ///   - header: the whole value of the `Authorization` field.
    ///   - version: the version of the keys when the check began. A token that older keys have verified is not kept.
    mutating func checked(
        _ header: [UInt8], _ result: Result<Caller, AuthenticationError>, with version: UInt64, _ voidTokens: VoidTokens
    ) throws(Problem) -> Caller {
        switch result {
        case .success(let caller) where voidTokens.isVoid(caller.user, issuedAt: caller.issuedAt):
            throw .kicked(caller)
        case .success(let caller):
            if version == keysVersion {
                tokens.add(VerifiedToken(header: header, caller: caller, keysVersion: version), as: try Self.bearerToken(in: header))
            }
            return caller
        case .failure(let error): throw Problem(error)
        }
    }

    // MARK: Refused logins

    /// The reason why the next login with the connection's token is refused without a check of its rate; nil if it is not.
    func loginRefusal(on connection: some TokenConnection, at now: Instant) -> LoginRates.Refusal? {
        guard let refusal = (connection.applicationState as? VerifiedToken)?.loginRefusal, refusal.until > now else { return nil }
        return refusal
    }

    /// Refuses the next logins of a caller with the token of a connection, until the refusal ends.
    func remember(_ refusal: LoginRates.Refusal, of caller: Caller, on connection: some TokenConnection) {
        guard let token = connection.applicationState as? VerifiedToken, token.caller == caller else { return }
        token.loginRefusal = refusal
    }
}
