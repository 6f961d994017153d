import PresenceCore
import PresenceWire

/// The text of a stream ticket: it names the user, so that every node finds the owner that knows the ticket.
///
/// Five parts are separated by dots: app and user in Base64url (RFC 4648 §5), the times of issue and end of the token in milliseconds, and
/// 128 random bits.
/// The owner compares the whole text, so a part that is changed makes the ticket unknown.
struct StreamTicketText {
    let text: String
    let user: UserID
    /// The time of the token with which the ticket was requested; 0 if the token does not say.
    let issuedAt: Milliseconds
    /// The end of that token, with which a session that the ticket opens ends too.
    let expiresAt: Milliseconds

    /// Makes a new ticket.
    init(for user: UserID, by caller: Caller) {
        self.user = user
        (issuedAt, expiresAt) = (caller.issuedAt, caller.expiresAt)
        var random = SystemRandomNumberGenerator()
        let bits = (0..<2).map { _ in String(random.next() as UInt64, radix: 36) }.joined(separator: "-")
        text = "\(Self.encoded(String(user.app))).\(Self.encoded(String(user.id))).\(issuedAt).\(expiresAt).\(bits)"
    }

    /// Reads a ticket; nil for a text that no node has made.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.count <= Limits.ticketBytesMax, parts.count == 5, let app = Self.decoded(parts[0]), let id = Self.decoded(parts[1]),
            let issuedAt = Milliseconds(parts[2]), let expiresAt = Milliseconds(parts[3]), Limits.isValidName(app), Limits.isValidName(id)
        else { return nil }
        self.text = text
        (self.issuedAt, self.expiresAt) = (issuedAt, expiresAt)
        user = UserID(app: app, id: id)
    }

    private static func encoded(_ text: String) -> String {
        let digits = Base64.text(of: Array(text.utf8)).utf8.filter { $0 != UInt8(ascii: "=") }
        return String(decoding: digits.map(urlDigit), as: UTF8.self)
    }

    private static func urlDigit(_ digit: UInt8) -> UInt8 {
        switch digit {
        case UInt8(ascii: "+"): UInt8(ascii: "-")
        case UInt8(ascii: "/"): UInt8(ascii: "_")
        default: digit
        }
    }

    private static func decoded(_ text: Substring) -> String? {
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        let base64 = String(text).replacing("-", with: "+").replacing("_", with: "/") + padding
        return Base64.bytes(of: base64).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
